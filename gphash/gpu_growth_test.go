package gphash

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/core"
)

// If opening on a GPU fails at any point, no memory stays allocated.
func TestFailureInOpening(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
	path := filepath.Join(memoryDir(t), "pool")
	x, err := Create(path, openCPU(t), Options{KeySize: 8, ValueSize: 8, Size: smallPool, Capacity: 20})
	must(t, err)
	must(t, x.Close())
	live := devicetest.Live(dev)
	for n, fired := 0, true; fired; n++ {
		hit := devicetest.FailAfter(dev, n)
		x, _, err := Open(t.Context(), path, dev, OpenOptions{Mirror: true})
		devicetest.ClearFailures(dev)
		if fired = hit(); fired != errors.Is(err, device.ErrMemory) {
			t.Errorf("failure %d: %v", n, err)
		}
		if err == nil {
			must(t, x.Close())
		}
		if now := devicetest.Live(dev); now != live {
			t.Fatalf("failure %d: %+v is left, %+v was there", n, now, live)
		}
	}
}

// Sending levels to a device may fail at any point, for example for lack of memory. Then the device
// keeps the old levels, and the levels can be sent again.
func TestFailureInShow(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
	for n, fired := 0, true; fired; n++ {
		x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, Options{KeySize: 8, ValueSize: 8, Size: smallPool, Capacity: 20})
		must(t, err)
		_, err = x.Put(t.Context(), make([]byte, 8), make([]byte, 8))
		must(t, err)
		must(t, x.core.WithWriteLock(t.Context(), "Show", func(core.Counters) error {
			g := x.engine.accel.(*gpuEngine)
			g.k.mirror = true // all levels need a mirror
			hit := devicetest.FailAfter(dev, n)
			defer devicetest.ClearFailures(dev)
			before := g.k.table.Load()
			err := g.installLevels()
			if fired = hit(); !fired {
				return err
			}
			if !errors.Is(err, device.ErrMemory) || g.k.table.Load() != before {
				t.Errorf("failure %d: %v", n, err)
			}
			return g.installLevels()
		}))
		must(t, x.Check(t.Context())) // also checks that mirrors match the pool
		must(t, x.Close())
	}
}

// If any operation of the device fails once during growth, for example for lack of memory, the
// index keeps its contents. Host and device agree on its levels and on the free units.
func TestFailureInGrowth(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	sizes := map[string]Options{"nothing": {}, "mirror": {Mirror: true}, "cache": {Cache: .4}}
	for name, o := range sizes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
			path := filepath.Join(memoryDir(t), "pool")
			n := 0
			for fired := true; fired; n++ {
				fired = failInGrowth(t, dev, fmt.Sprint(path, n), o, n)
			}
			t.Logf("%d operations", n-1)
		})
	}
}

// failInGrowth makes operation n of a growth fail. It reports whether operation n occurred.
func failInGrowth(t *testing.T, dev device.Device, path string, o Options, n int) bool {
	o.KeySize, o.ValueSize, o.Slots, o.Capacity, o.Size, o.Seed = 8, 8, 4, 20, smallPool, [2]uint64{1, 2}
	x, err := Create(path, dev, o)
	must(t, err)
	must(t, os.Remove(path)) // the open pool keeps the file
	want := model{}
	put := func(lo, hi int) {
		t.Helper()
		var keys, values []byte
		for i := lo; i < hi; i++ {
			key := denseKey(8, i)
			keys, values = append(keys, key...), append(values, valueOf(8, key, 1)...)
			want[string(key)] = string(valueOf(8, key, 1))
		}
		_, err := x.Put(t.Context(), keys, values)
		must(t, err)
	}
	put(0, 20)
	var fired bool
	must(t, x.core.WithWriteLock(t.Context(), "Grow", func(core.Counters) error {
		fired, err = growFailing(x.engine, dev, n)
		return nil
	}))
	if err != nil && !errors.Is(err, device.ErrMemory) {
		t.Errorf("failure %d: %v", n, err)
	}
	want.equal(t, x)
	put(20, 60)
	must(t, x.Compact(t.Context()))
	put(60, 150)
	want.equal(t, x)
	must(t, x.Check(t.Context()))
	must(t, x.Close())
	return fired
}

// growFailing adds a level to an index while operation n of the device fails.
func growFailing(e *engine, dev device.Device, n int) (fired bool, err error) {
	if err := e.fetchSpace(); err != nil {
		return false, err
	}
	free := e.values.space.freeUnits()
	hit := devicetest.FailAfter(dev, n)
	if err = e.addLevel(); err == nil {
		_, err = e.drain(ctx, math.MaxUint64)
	} else if left := e.values.space.freeUnits(); left != free {
		err = fmt.Errorf("%d units are free, there were %d", left, free)
	}
	devicetest.ClearFailures(dev)
	g := e.accel.(*gpuEngine)
	owners := make([]uint32, g.k.space.units)
	if err := g.copyOut(device.Bytes(owners), g.k.space.owners); err != nil {
		return false, err
	}
	for i, owner := range owners {
		if e.values.space.owner[i].isLevel && owner != ownerLevel {
			return false, fmt.Errorf("unit %d of a level has owner %d", i, owner)
		}
	}
	return hit(), err
}

// An iteration that begins just before keys move up, or just before their old level is dropped,
// returns every pair once.
func TestIterationBesideGrowth(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	was := core.PageBytes
	core.PageBytes = 1 // one bucket per page
	defer func() { core.PageBytes = was }()
	for name, meanwhile := range map[string]func(e *engine, bottom level) error{
		"keys move up": func(e *engine, bottom level) error {
			if _, err := e.moveUp(bottom, 0, 1<<bottom.bits); err != errHeld {
				return fmt.Errorf("keys that an iteration reads have moved: %w", err)
			}
			return nil
		},
		"a level goes": func(e *engine, bottom level) error { return e.dropLevel(bottom) },
	} {
		t.Run(name, func(t *testing.T) {
			dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
			x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, Options{KeySize: 8, ValueSize: 8, Slots: 4, Capacity: 40, Size: smallPool, Seed: [2]uint64{1, 2}})
			must(t, err)
			want, keys := model{}, []byte(nil)
			for i := range 40 {
				keys = append(keys, denseKey(8, i)...)
				want[string(denseKey(8, i))] = string(denseKey(8, i))
			}
			_, err = x.Put(t.Context(), keys, keys)
			must(t, err)
			e := x.engine
			do := func(f func(bottom level) error) {
				t.Helper()
				must(t, x.core.WithWriteLock(t.Context(), "Grow", func(core.Counters) error { return f(e.live[len(e.live)-1]) }))
			}
			do(func(level) error { return e.addLevel() })
			if name == "a level goes" {
				do(func(bottom level) error {
					_, err := e.moveUp(bottom, 0, 1<<bottom.bits)
					return err
				})
			}
			seen := map[string]int{}
			for p, err := range x.Pages(t.Context()) {
				must(t, err)
				for i := range len(p.Keys) / 8 {
					seen[string(row(p.Keys, i, 8))]++
				}
				if len(seen) > 0 && meanwhile != nil {
					do(func(bottom level) error { return meanwhile(e, bottom) })
					meanwhile = nil
				}
			}
			for k := range want {
				if seen[k] != 1 {
					t.Errorf("key %x was seen %d times", k, seen[k])
				}
			}
			must(t, x.Compact(t.Context()))
			must(t, x.Check(t.Context()))
			must(t, x.Close())
		})
	}
}
