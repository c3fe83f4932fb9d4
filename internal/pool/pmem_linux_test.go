package pool

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pm/pmtest"
)

var persistent = Requirements{PMem: true, Asserted: Assertions{Persistent: true}}

// A pool in a file provides PMem if the requirements demand it and assert that the memory is
// persistent.
func TestAsserted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	for reason, req := range map[string]Requirements{
		"not a character device": {PMem: true, Asserted: Assertions{DDIOOff: true, GlobalPersistentFlush: true}},
		"DDIO":                   {PMem: true, GPU: true, Asserted: Assertions{Persistent: true}},
	} {
		if _, err := CreateWith(path, sample(), testSize, req); !errors.Is(err, ErrNotDurable) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%+v: %v, want %q", req, err, reason)
		}
	}
	checkDirectory(t, path)
	p, err := CreateWith(path, sample(), testSize, persistent)
	if err != nil {
		t.Fatal(err)
	}
	if p.Durability() != PMem || p.Close() != nil {
		t.Errorf("granted %v", p.Durability())
	}
	for _, readOnly := range []bool{false, true} {
		p, err := OpenWith(path, readOnly, persistent)
		if err != nil || p.Durability() != PMem || p.Close() != nil {
			t.Errorf("read-only %t: %v", readOnly, err)
		}
		if _, err := OpenWith(path, readOnly, Requirements{PMem: true}); !errors.Is(err, ErrNotDurable) {
			t.Errorf("not asserted, read-only %t: %v", readOnly, err)
		}
	}
	if p := mustOpen(t, path, false); p.Durability() != Process {
		t.Errorf("not asked for, and granted: %v", p.Durability())
	}
}

// fakeZeroDevice describes /dev/zero in sysfs as a device of persistent memory. Each mapping of it
// is separate memory.
func fakeZeroDevice(t *testing.T, domain, size string) {
	setSysfs(t, fakeSysfs(t, map[string]string{
		"dev/char/1:5":                       "-> ../../devices/region0/dax0.0",
		"devices/region0/dax0.0/subsystem":   "-> /sys/bus/dax",
		"devices/region0/dax0.0/driver":      "-> /sys/bus/dax/drivers/device_dax",
		"devices/region0/dax0.0/size":        size,
		"devices/region0/persistence_domain": domain,
	}))
}

const zeroDevice = "/dev/zero"

// retryLocked calls do until no other process has locked the device.
func retryLocked(do func() error) (err error) {
	for range 100 {
		if err = do(); !errors.Is(err, ErrLocked) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// A pool on a character device takes the whole device. It provides PMem or is refused.
func TestCharacterDevice(t *testing.T) {
	const size = testSize + 3*Page
	fakeZeroDevice(t, "memory_controller", fmt.Sprintln(size+1)) // rounded down
	var p *Pool
	if err := retryLocked(func() (err error) { p, err = Create(zeroDevice, sample(), testSize); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Abandon() })
	if s := p.Superblock(); p.Durability() != PMem || s.Size != size || len(p.Bytes()) != size || !p.WasClean() {
		t.Errorf("%v, %d bytes in a device of %d", p.Durability(), s.Size, len(p.Bytes()))
	}
	if _, err := Open(zeroDevice, true); !errors.Is(err, ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	if err := errors.Join(p.Commit(func(s *Superblock) { s.Epoch = 5 }), p.Close()); err != nil {
		t.Error(err)
	}
	for _, readOnly := range []bool{false, true} {
		if err := retryLocked(func() error { _, err := Open(zeroDevice, readOnly); return err }); !errors.Is(err, op.ErrCorrupt) || !strings.Contains(err.Error(), "neither copy") {
			t.Errorf("nothing but zeros, read-only %t: %v", readOnly, err)
		}
	}
	info, err := Inspect(zeroDevice)
	if err != nil || info.Size != size || info.Allocated != info.Size || info.Durability != PMem || info.Current != -1 || info.Err == nil {
		t.Errorf("%+v, %v", info, err)
	}
	if err := retryLocked(func() error { return Remove(zeroDevice) }); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(zeroDevice); err != nil {
		t.Fatal(err)
	}
	if err := retryLocked(func() error { _, err := Create(zeroDevice, sample(), 1<<30); return err }); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a pool larger than the device: %v", err)
	}
	fakeZeroDevice(t, "wishful", fmt.Sprint(size))
	for verb, do := range map[string]func() error{
		"Create": func() error { _, err := Create(zeroDevice, sample(), testSize); return err },
		"Open":   func() error { _, err := Open(zeroDevice, false); return err },
		"OpenOn": func() error { _, err := OpenWith(zeroDevice, true, Requirements{GPU: true}); return err },
	} {
		if err := retryLocked(do); !errors.Is(err, ErrNotDurable) || !strings.Contains(err.Error(), `"wishful"`) {
			t.Errorf("%s of memory that is not persistent: %v", verb, err)
		}
	}
	for domain, req := range map[string]Requirements{"wishful": persistent, "cpu_cache": {GPU: true, Asserted: Assertions{Persistent: true}}} {
		fakeZeroDevice(t, domain, fmt.Sprint(size))
		if err := retryLocked(func() error { _, err := OpenWith(zeroDevice, true, req); return err }); !errors.Is(err, op.ErrCorrupt) {
			t.Errorf("domain %q on terms %+v: %v", domain, req, err)
		}
	}
	// Requirements apply even without Requirements.PMem, because a device must provide PMem.
	gpu := Requirements{GPU: true}
	for what, do := range map[string]func() error{
		"CreateOn": func() error { _, err := CreateWith(zeroDevice, sample(), testSize, gpu); return err },
		"OpenOn":   func() error { _, err := OpenWith(zeroDevice, false, gpu); return err },
	} {
		fakeZeroDevice(t, "memory_controller", fmt.Sprint(size))
		if err := retryLocked(do); !errors.Is(err, ErrNotDurable) || !strings.Contains(err.Error(), "DDIO") {
			t.Errorf("%s for a GPU, DDIO not asserted: %v", what, err)
		}
	}
	fakeZeroDevice(t, "wishful", fmt.Sprint(size))
	if info, err := Inspect(zeroDevice); err != nil || info.Durability != None {
		t.Errorf("memory that is not persistent: %+v, %v", info, err)
	}
	for _, text := range []string{"", "many", "-5", "99999999999999999999"} {
		fakeZeroDevice(t, "cpu_cache", text)
		if err := retryLocked(func() error { _, err := Open(zeroDevice, true); return err }); !errors.Is(err, op.ErrFormat) {
			t.Errorf("size %q: %v", text, err)
		}
	}
	if _, err := Inspect("/dev/null"); !errors.Is(err, op.ErrFormat) {
		t.Errorf("/dev/null: %v", err)
	}
}

// fakeDeviceFile opens a file that is treated as a device.
func fakeDeviceFile(t *testing.T, path string) *file {
	t.Helper()
	f, err := openFile(path, unix.O_RDWR|unix.O_CREAT, false, persistent)
	if err != nil {
		t.Fatal(err)
	}
	f.device, f.size = true, testSize
	return f
}

// counted is a pm.Persist that counts calls.
type counted struct{ words, fences int }

func (c *counted) WriteBack(words []uint64) { c.words += len(words) }
func (c *counted) Fence()                   { c.fences++ }

// A pool on a device reads back, and replaces any contents except a pool.
func TestDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "device")
	rng := rand.New(rand.NewPCG(1, 1))
	garbage := make([]byte, testSize)
	for i := range garbage {
		garbage[i] = byte(rng.Uint32())
	}
	if err := os.WriteFile(path, garbage, 0o600); err != nil {
		t.Fatal(err)
	}
	first := sample()
	first.Size = testSize
	f, c := fakeDeviceFile(t, path), &counted{}
	f.persist = c
	p, err := f.formatDevice(first)
	if err != nil {
		t.Fatal(err)
	}
	if c.words < 2*blockSize/pm.Word || c.fences < 5 {
		t.Errorf("%d words written back, %d fences", c.words, c.fences)
	}
	t.Cleanup(func() { p.Abandon() })
	for i, l := range p.Superblock().Levels {
		for at := l.Offset / pm.Word; at < (l.Offset+l.Length)/pm.Word; at++ {
			if w := p.Memory().Load(at); w != 0 {
				t.Fatalf("level %d has %#x at word %d", i, w, at)
			}
		}
	}
	p.Memory().Store(DataStart/pm.Word, 7)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	f = fakeDeviceFile(t, path)
	if _, err := f.formatDevice(first); !errors.Is(err, fs.ErrExist) || f.close() != nil {
		t.Errorf("a device that has a pool: %v", err)
	}
	for _, readOnly := range []bool{true, false} {
		f, c := fakeDeviceFile(t, path), &counted{}
		f.persist = c
		p, err := f.openPool(readOnly, Requirements{})
		if err != nil || !readOnly && c.fences == 0 || p.Durability() != PMem || !p.WasClean() || p.Memory().Load(DataStart/pm.Word) != 7 || p.Close() != nil {
			t.Errorf("read-only %t: %v", readOnly, err)
		}
	}
}

// A crash while a pool replaces another one leaves the old one, no pool, or the new one with empty
// levels.
func TestEraseCrash(t *testing.T) {
	const words = testSize / pm.Word
	old, next := sample(), sample()
	old.UUID, next.UUID = [16]byte{1}, [16]byte{2}
	d, rng := pmtest.New(words, 1), rand.New(rand.NewPCG(2, 2))
	m := pm.New(make([]byte, words*pm.Word), d)
	for at := uint64(DataStart / pm.Word); at < words; at++ {
		m.Store(at, at)
	}
	if _, err := Format(m, old); err != nil {
		t.Fatal(err)
	}
	found := map[byte]int{}
	d.Step = func() {
		if d.Dirty() > 64 && rng.IntN(64) > 0 {
			return
		}
		d.Crash(rng, 16, func() {
			p, err := OpenMemory(m)
			if err != nil {
				found[0]++
				return
			}
			s := p.Superblock()
			found[s.UUID[0]]++
			for _, l := range s.Levels {
				for at := l.Offset / pm.Word; at < (l.Offset+l.Length)/pm.Word; at++ {
					if want := at * uint64(2-s.UUID[0]); m.Load(at) != want {
						t.Fatalf("pool %d has %d at word %d, want %d", s.UUID[0], m.Load(at), at, want)
					}
				}
			}
		})
	}
	erase(m, next)
	if _, err := Format(m, next); err != nil {
		t.Fatal(err)
	}
	if found[0] == 0 || found[1] == 0 || found[2] == 0 {
		t.Errorf("images of no pool, the old one and the new one: %v", found)
	}
}
