//go:build linux

package gphash

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pool"
)

// halfMoved creates the file of a pool after its process was killed during several steps at once. A
// key is in two levels, one slot is being written, and another one is a tombstone.
func halfMoved(t *testing.T) (path string, want model) {
	dev, dir := openCPU(t), t.TempDir()
	x, err := Create(filepath.Join(dir, "live"), dev, Options{KeySize: 8, ValueSize: 8, Capacity: 64, Size: 16 << 20})
	must(t, err)
	want = model{}
	key, value := make([]byte, 8), make([]byte, 8)
	for i := range uint64(50) {
		binary.LittleEndian.PutUint64(key, i)
		binary.LittleEndian.PutUint64(value, i*i)
		_, err := x.Put(ctx, key, value)
		must(t, err)
		want[string(key)] = string(value)
	}
	e := x.engine
	must(t, e.addLevel())
	bottom, copied := e.live[len(e.live)-1], false
	for b := uint64(0); b < 1<<bottom.bits && !copied; b++ {
		at := slotRef{bottom.base + b*e.bucketWords, 0}
		if c := control(e.mem.Load(e.control(at))); c.state() == full {
			it := e.item(e.keyOf(at, key))
			to, was, _ := e.vacantSlot(&it)
			copied = e.publish(to, was, &it, c.block())
		}
	}
	if !copied {
		t.Fatal("no key is in the bottom level")
	}
	top := slotRef{e.live[0].base, e.slots - 1}
	e.mem.Store(e.control(top), uint64(control(0).next(writing, 0)))
	top.bucket += e.bucketWords
	e.mem.Store(e.control(top), uint64(control(0).next(tomb, 0)))
	content, err := os.ReadFile(filepath.Join(dir, "live"))
	must(t, err)
	if err := x.Close(); !errors.Is(err, weft.ErrCorrupt) { // fails, since a key is in two slots
		t.Fatal(err)
	}
	path = filepath.Join(dir, "killed")
	must(t, os.WriteFile(path, content, 0o600))
	return path, want
}

// Readers of a pool left by a crash return each pair once. They cannot change anything.
func TestReadOnly(t *testing.T) {
	path, want := halfMoved(t)
	before, err := os.ReadFile(path)
	must(t, err)
	dev := openCPU(t)
	x, report, err := Open(ctx, path, dev, OpenOptions{ReadOnly: true, Verify: true, Resize: Stop})
	must(t, err)
	if report.Keys != 50 || report.Moved != 1 || report.Unfinished != 1 || report.Tombs != 1 || !report.Resumed || report.Damaged != 0 {
		t.Errorf("report %+v", report)
	}
	want.equal(t, x)
	must(t, x.Check(ctx))
	key, value := make([]byte, 8), make([]byte, 8)
	for k, v := range want {
		if n, err := x.Get(ctx, []byte(k), value, nil); n != 1 || err != nil || string(value) != v {
			t.Fatalf("Get(%x) = %x, %d, %v", k, value, n, err)
		}
	}
	for name, change := range map[string]func() error{
		"Put":     func() error { _, err := x.Put(ctx, key, value); return err },
		"PutNew":  func() error { _, err := x.PutNew(ctx, key, value, nil); return err },
		"Delete":  func() error { _, err := x.Delete(ctx, key, nil); return err },
		"Apply":   func() error { return x.Apply(ctx, []weft.OpKind{weft.OpDelete}, key, value, nil) },
		"Clear":   func() error { return x.Clear(ctx) },
		"Compact": func() error { return x.Compact(ctx) },
	} {
		if err := change(); !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other, _, err := Open(ctx, path, dev, OpenOptions{ReadOnly: true})
	must(t, err)
	must(t, other.Close())
	if _, _, err := Open(ctx, path, dev, OpenOptions{}); !errors.Is(err, ErrLocked) {
		t.Errorf("a writer beside a reader: %v", err)
	}
	want.equal(t, x)
	must(t, x.Close())
	after, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the file is another one")
	}
}

// After recovery the pool has the pairs that readers have returned. ReadOnly excludes Repair.
func TestReadOnlyThenRecover(t *testing.T) {
	path, want := halfMoved(t)
	dev := openCPU(t)
	if _, _, err := Open(ctx, path, dev, OpenOptions{ReadOnly: true, Repair: true}); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("reading and repairing: %v", err)
	}
	x, _, err := Open(ctx, path, dev, OpenOptions{})
	must(t, err)
	_, err = x.engine.drain(ctx, math.MaxUint64)
	must(t, err)
	want.equal(t, x)
	must(t, x.Check(ctx))
	must(t, x.Close())
}

// A GPU reports the same about a pool as the CPU. It leaves the inspection of damage to the CPU.
func TestReportsAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	path, _ := halfMoved(t)
	content, err := os.ReadFile(path)
	must(t, err)
	p, err := pool.OpenMemory(pm.New(content, nil))
	must(t, err)
	tb, err := tableOf(p)
	must(t, err)
	for _, damaged := range []bool{false, true} {
		if damaged {
			at := slotRef{tb.live[0].base + 2*tb.bucketWords, tb.slots - 1}
			tb.mem.Store(tb.control(at), uint64(control(0).next(full, 1)))
		}
		reports := map[string]bool{}
		for _, dev := range []device.Device{openCPU(t), devicetest.OpenSim(t, &sim.Options{Arch: 80})} {
			must(t, os.WriteFile(path, content, 0o600))
			x, report, err := Open(ctx, path, dev, OpenOptions{})
			if damaged != errors.Is(err, weft.ErrCorrupt) || report.Unfinished != 1 || report.Tombs != 1 || (report.Damaged > 0) != damaged {
				t.Errorf("%v: %+v, %v", dev.Properties().Kind, report, err)
			}
			report.Times = Times{}
			reports[fmt.Sprintf("%+v", *report)] = true
			if err == nil {
				must(t, x.Close())
			}
		}
		if len(reports) != 1 {
			t.Errorf("devices report %v", reports)
		}
	}
}
