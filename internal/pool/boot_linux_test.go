package pool

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
)

// setBoot simulates another start of the machine until the test ends.
func setBoot(t *testing.T, id BootID) {
	was := Boot
	Boot = func() BootID { return id }
	t.Cleanup(func() { Boot = was })
}

// newAbandonedPool creates a pool in dir during boot id and does not close it. It returns the
// pool's path.
func newAbandonedPool(t *testing.T, dir string, id BootID) string {
	t.Helper()
	setBoot(t, id)
	path := filepath.Join(dir, "pool")
	p, err := Create(path, sample(), testSize)
	if err == nil {
		err = p.Abandon()
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// If a pool was open when the machine stopped, it opens only with Salvage, until it has been
// verified. The same holds for a pool with an unknown boot, except in memory, which does not
// survive the machine.
func TestPowerLost(t *testing.T) {
	first, second := BootID{1}, BootID{2}
	for _, tt := range []struct {
		name         string
		was, now     BootID
		disk, memory bool // expected results of PowerLost
	}{
		{"the same boot", first, first, false, false},
		{"another boot", first, second, true, true},
		{"the boot was unknown", BootID{}, first, true, false},
		{"the boot is unknown", first, BootID{}, true, false},
		{"both are unknown", BootID{}, BootID{}, true, false},
	} {
		for dir, want := range map[string]bool{t.TempDir(): tt.disk, tmpfs(t): tt.memory} {
			path := newAbandonedPool(t, dir, tt.was)
			setBoot(t, tt.now)
			for range 2 { // a refused opening changes nothing
				for _, readOnly := range []bool{true, false} {
					p, err := Open(path, readOnly)
					if errors.Is(err, ErrPowerLost) != want || !want && err != nil {
						t.Fatalf("%s, read-only %v: %v, want %v", tt.name, readOnly, err, want)
					}
					if err == nil {
						p.Abandon()
					}
				}
			}
			if !want {
				continue
			}
			for range 2 { // opening with Salvage changes nothing without ClearPowerLost
				p, err := OpenWith(path, false, Requirements{Salvage: true})
				if err != nil || !p.PowerLost() || p.WasClean() {
					t.Fatalf("%s, salvaged: %v", tt.name, err)
				}
				p.Abandon()
				if _, err := Open(path, false); !errors.Is(err, ErrPowerLost) {
					t.Fatalf("%s, behind one who has not verified it: %v", tt.name, err)
				}
			}
			p, err := OpenWith(path, false, Requirements{Salvage: true})
			if err == nil {
				err = p.ClearPowerLost()
			}
			if err != nil || p.PowerLost() || p.Superblock().Boot != tt.now {
				t.Fatalf("%s, verified: %v", tt.name, err)
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			mustOpen(t, path, false).Close()
		}
	}
}

// A closed pool survives another start of the machine, and so does a pool in persistent memory.
func TestPowerNotLost(t *testing.T) {
	path := newAbandonedPool(t, t.TempDir(), BootID{1})
	setBoot(t, BootID{2})
	p, err := OpenWith(path, false, Requirements{PMem: true, Asserted: Assertions{Persistent: true}})
	if err != nil || p.PowerLost() || p.Superblock().Boot != (BootID{2}) {
		t.Fatalf("persistent memory: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	setBoot(t, BootID{3})
	mustOpen(t, path, true).Close()
	mustOpen(t, path, false).Close()
}

func TestBootIn(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "boot_id")
	for text, want := range map[string]BootID{
		"06322fc5-30a8-4be8-bd76-ac23efa81900\n": {0x06, 0x32, 0x2f, 0xc5, 0x30, 0xa8, 0x4b, 0xe8, 0xbd, 0x76, 0xac, 0x23, 0xef, 0xa8, 0x19, 0},
		"":                                       {}, "06322fc5": {}, "06322fc5-30a8-4be8-bd76-ac23efa81900-00": {}, "no id": {},
	} {
		if is := bootIn(writeFile(t, name, []byte(text))); is != want {
			t.Errorf("%q: %x, want %x", text, is, want)
		}
	}
	if is := bootIn(filepath.Join(dir, "none")); is != (BootID{}) {
		t.Errorf("no file: %x", is)
	}
}

// Contents are valid until the pool is opened for changing, even by a version without the field.
func TestContents(t *testing.T) {
	path := newClosedPool(t)
	p := mustOpen(t, path, false)
	if _, ok := p.Contents(); ok {
		t.Error("nobody has sealed the pool")
	}
	want := Contents{Keys: 3, Slots: 4, Values: 5}
	p.SetContents(want)
	if err := p.Commit(func(s *Superblock) { s.Epoch++ }); err != nil || p.Superblock().Contents != (Contents{}) {
		t.Errorf("a pool that is open has contents: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{true, true, false} {
		p := mustOpen(t, path, readOnly)
		c, ok := p.Contents()
		want.Generation = c.Generation
		if !ok || c != want || !readOnly && p.Superblock().Contents != (Contents{}) {
			t.Errorf("read-only %v: %+v, %v, want %+v", readOnly, c, ok, want)
		}
		p.Abandon()
	}
	p = mustOpen(t, path, false)
	p.SetContents(want)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	// as version 1.0 leaves the pool after opening and closing it
	patch(t, path, func(mapped []byte) {
		for i := range 2 {
			b := (*block)(mapped[i*copyB:])
			le.PutUint64(b[40:], le.Uint64(b[40:])+2)
			b.writeChecksums()
		}
	})
	p = mustOpen(t, path, false)
	if _, ok := p.Contents(); ok || !p.WasClean() {
		t.Error("contents of an older generation count")
	}
}

// A block of version 1.0 must be zero where 1.1 has fields.
func TestMinorVersions(t *testing.T) {
	for minor, fields := range map[byte]bool{0: false, 1: true} {
		for _, boot := range []byte{0, 1} {
			_, mapped := newFormatted(t)
			rewrite(mapped, func(w *wire) { w.Minor, w.Boot = uint16(minor), BootID{boot} }, nil)
			_, err := OpenMemory(pm.New(mapped, nil))
			if hidden := boot != 0 && !fields; errors.Is(err, op.ErrCorrupt) != hidden || !hidden && err != nil {
				t.Errorf("minor %d, boot %d: %v", minor, boot, err)
			}
		}
	}
}

// If a file is not a pool, the error names its kind.
func TestNamesWhatItIs(t *testing.T) {
	dir := t.TempDir()
	pad := bytes.Repeat([]byte{0, 1, 2, 0xff}, 4<<10)
	for content, want := range map[string]string{
		"": "empty", "PAR1": "Parquet", "\x1f\x8b\x08\x00": "gzip", "\x28\xb5\x2f\xfd": "Zstandard", "a,b\n1,2\n": "text", "{\"a\": \"ü\"}": "text", "BZh9": "bzip2",
		"WEFTPOOL\x01": "truncated", "WEF": "truncated", "ARROW1\x00": "Arrow", "\x7fELF": "program", "\x01\x02\x03": "begins with",
	} {
		for _, long := range []bool{false, true} {
			if long && (want == "empty" || want == "text" || want == "truncated") {
				continue
			}
			all := []byte(content)
			if long {
				all = append(all, pad...)
			}
			path := writeFile(t, filepath.Join(dir, "file"), all)
			_, err := Open(path, false)
			if sort := op.ErrFormat; err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) || want != "truncated" && want != "begins with" && !errors.Is(err, sort) {
				t.Errorf("%q, long %v: %v, want %q", content, long, err, want)
			}
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{link: `name its target, "file"`, dir: "a directory", "/dev/null": "character device"} {
		for _, readOnly := range []bool{false, true} {
			if _, err := Open(path, readOnly); err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
				t.Errorf("%s, read-only %v: %v, want %q", path, readOnly, err, want)
			}
		}
		if _, err := Inspect(path); err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("Inspect %s: %v, want %q", path, err, want)
		}
	}
}

// A pool under construction has no name in its directory, and a killed process leaves nothing
// there. If the file system requires names, the next Create of the pool removes the files of killed
// processes.
func TestKilledCreate(t *testing.T) {
	for _, dir := range []string{t.TempDir(), tmpfs(t)} {
		path := filepath.Join(dir, "pool")
		child, output := start(t, "create", path, nil)
		if output != "made" {
			t.Fatal(output)
		}
		checkDirectory(t, path)
		child.Process.Kill()
		child.Wait()
		checkDirectory(t, path)
		useUnnamed = false
		child, output = start(t, "create named", path, nil)
		if output != "made" {
			t.Fatal(output)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Fatalf("%v, %v", entries, err)
		}
		other := writeFile(t, filepath.Join(dir, ".pool.notes.tmp"), nil)
		removeStale(path)
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
			t.Fatalf("beside its process: %v, %v", entries, err)
		}
		child.Process.Kill()
		child.Wait()
		p, err := Create(path, sample(), testSize)
		useUnnamed = true
		if err != nil {
			t.Fatal(err)
		}
		os.Remove(other)
		checkDirectory(t, path, "pool")
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		mustOpen(t, path, false).Close()
	}
}

// Blocks reserved for root do not count as free.
func TestBavail(t *testing.T) {
	f, err := openFile(newClosedPool(t), os.O_RDWR, false, Requirements{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	f.system.Bsize, f.system.Blocks, f.system.Bfree, f.system.Bavail = Page, 1000, 100, 10
	if err := f.allocate(testSize + 20*Page); err == nil || !bytes.Contains([]byte(err.Error()), []byte("40960 free")) {
		t.Error(err)
	}
}
