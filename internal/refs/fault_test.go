package refs

import (
	"errors"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/slab"
)

// faults runs a faulty test on simulated GPUs with several schedules. Each must report the fault
// want.
func faults(t *testing.T, want string, test func(dev device.Device) error) {
	t.Helper()
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	all := []*sim.Options{{}, {Arch: 80}}
	for seed := range uint64(4) {
		all = append(all, sim.Schedule(seed))
	}
	for _, o := range all {
		dev := must[*sim.Device](t)(sim.Open(o))
		if err := test(dev); !errors.Is(err, device.ErrLost) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s, seed %d: %v, want %q", o.Scheduler, o.Seed, err, want)
		}
		check(t, dev.Close())
	}
}

// A call by a whole warp is a fault if half of the warp has returned.
func TestLanesApart(t *testing.T) {
	for _, open := range []maker[uint32, uint32]{openLinear[uint32, uint32], openSlab[uint32, uint32]} {
		faults(t, "trap", func(dev device.Device) error {
			x := open(t, dev, 100, false)
			c := upload(t, x.stream, []op.Kind{op.Get, op.Get}, []uint32{1, 2}, []uint32{0, 0})
			err := x.view(t.Context(), func(launch func(ops) error) error { return launch(c.ops(apart)) })
			return errors.Join(err, x.stream.Sync(t.Context()))
		})
	}
}

// A kernel traps if the table has other widths or is of another kind.
func TestOtherWidths(t *testing.T) {
	faults(t, "trap", func(dev device.Device) error {
		x := openLinear[uint32, uint32](t, dev, 100, false)
		m := must[*linear.Map[uint64, uint32]](t)(linear.New[uint64, uint32](dev, nil))
		c := upload(t, x.stream, []op.Kind{op.Get}, []uint32{1}, []uint32{0})
		err := m.View(t.Context(), x.stream, func(r linear.Ref) error {
			return launch(x.stream, x.kernel, func(o ops) linearParams { return linearParams{ref: r, ops: o} })(c.ops(singleLane))
		})
		return errors.Join(err, x.stream.Sync(t.Context()))
	})
	faults(t, "trap", func(dev device.Device) error {
		x := openSlab[uint32, uint32](t, dev, 100, false)
		m := must[*slab.MultiMap[uint32, uint32]](t)(slab.NewMultiMap[uint32, uint32](dev, nil))
		c := upload(t, x.stream, []op.Kind{op.Get}, []uint32{1}, []uint32{0})
		err := m.View(t.Context(), x.stream, func(r slab.Ref) error {
			return launch(x.stream, x.kernel, func(o ops) slabParams { return slabParams{ref: r, ops: o} })(c.ops(warps))
		})
		return errors.Join(err, x.stream.Sync(t.Context()))
	})
}

// If kernels neither put nor erase, sums are also exact. A put then has no effect.
func reducing[K, V uint32 | uint64](t *testing.T, open maker[K, V]) {
	onGPUs(t, 4, func(t *testing.T, dev device.Device) {
		const n, of, rounds = 130, 5, 2
		sums := map[K]V{} // sums of one round
		var kinds []op.Kind
		var keys []K
		var vals []V
		for i := range n {
			k, kind := K(i%of)-2, op.Sum
			if i%10 == 9 {
				kind = op.Put
			} else {
				sums[k] += V(i)
			}
			kinds, keys, vals = append(kinds, kind), append(keys, k), append(vals, V(i))
		}
		for _, how := range modes {
			x, want := open(t, dev, 10, false), map[K]V{}
			for range rounds {
				c := upload(t, x.stream, kinds, keys, vals)
				check(t, x.reducing(t.Context(), of, func(launch func(ops) error) error { return launch(c.ops(how)) }))
				outcomes, _, _ := c.download(t, x.stream)
				for i, o := range outcomes {
					if (o == full) != (kinds[i] == op.Put) {
						t.Fatalf("operation %d of kind %v: %d", i, kinds[i], o)
					}
				}
				if err := x.Sync(t.Context()); err == nil {
					t.Error("Sync says nothing of the puts")
				}
				for k, sum := range sums {
					want[k] += sum
				}
				x.same(t, want, 2*of)
			}
			x.close(t)
		}
	})
}

func TestReducing(t *testing.T) {
	t.Run("linear,32,32", func(t *testing.T) { reducing(t, openLinear[uint32, uint32]) })
	t.Run("linear,64,32", func(t *testing.T) { reducing(t, openLinear[uint64, uint32]) })
	t.Run("slab,32,32", func(t *testing.T) { reducing(t, openSlab[uint32, uint32]) })
	t.Run("slab,64,32", func(t *testing.T) { reducing(t, openSlab[uint64, uint32]) })
}
