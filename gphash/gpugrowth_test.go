package gphash

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/core"
)

// When anything fails by which a device is told of levels, memory above all, it knows of them what it
// did, and may be told again.
func TestFailureInShow(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
	for n, fired := 0, true; fired; n++ {
		x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, Options{KeySize: 8, ValueSize: 8, Size: 8 << 20, Capacity: 20})
		must(t, err)
		_, err = x.Put(t.Context(), make([]byte, 8), make([]byte, 8))
		must(t, err)
		must(t, x.core.Alone(t.Context(), "Show", func(core.Counters) error {
			g := x.engine.far.(*gpuEngine)
			g.k.mirror = true // all levels are to have one
			hit := devicetest.FailAfter(dev, n)
			defer devicetest.Heal(dev)
			before := g.k.table.Load()
			err := g.show()
			if fired = hit(); !fired {
				return err
			}
			if !errors.Is(err, device.ErrMemory) || g.k.table.Load() != before {
				t.Errorf("failure %d: %v", n, err)
			}
			return g.show()
		}))
		must(t, x.Check(t.Context())) // that mirrors are those of the pool, too
		must(t, x.Close())
	}
}

// A level that cannot be cleared leaves its units free.
func TestFailureInClearing(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
	x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, Options{KeySize: 8, ValueSize: 8, Size: 8 << 20, Capacity: 20})
	must(t, err)
	must(t, x.core.Alone(t.Context(), "Grow", func(core.Counters) error {
		free := x.engine.values.space.left()
		devicetest.FailNext(dev, devicetest.OpFill)
		if err := x.engine.another(); !errors.Is(err, device.ErrMemory) {
			t.Errorf("a level that was not cleared: %v", err)
		}
		if left := x.engine.values.space.left(); left != free {
			t.Errorf("%d units are free, there were %d", left, free)
		}
		return nil
	}))
	must(t, x.Close())
}
