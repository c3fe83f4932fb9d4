package passes

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/horton"
)

// Every way finds exactly the present keys, in a table that is nearly full.
func TestGet(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, opts := range []sim.Options{{Arch: 80}, {Arch: 90}, {Arch: 90, Scheduler: sim.Random, Seed: 1, Races: true}} {
		t.Run(fmt.Sprintf("sm_%d %s", opts.Arch, opts.Scheduler), func(t *testing.T) {
			t.Parallel()
			dev, err := sim.Open(&opts)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
			})
			getsAll(t, dev)
		})
	}
}

func getsAll(t *testing.T, sims *sim.Device) {
	const slots, seed = 2048, 7
	const n = slots * 87 / 100
	// With one multiprocessor, threads have several keys, and warps collect some.
	dev := devicetest.Narrow(sims)
	s := devicetest.NewStream(t, dev)
	m, err := horton.New[uint32, uint32](dev, &horton.Options{Capacity: n, MaxLoad: float64(n) / slots, Fixed: true, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(dev, 4*n)
	if err != nil {
		t.Fatal(err)
	}
	// Each key four times, as many absent ones, and keys that look like sentinels.
	keys, vals := make([]uint32, 4*n), make([]uint32, 4*n)
	for i := range keys {
		keys[i] = uint32(i*i%(2*n)) - 4
	}
	there, of := make([]uint32, n), make([]uint32, n)
	for i := range there {
		there[i], of[i] = uint32(i)-4, uint32(i)*3+1
	}
	onThere, onVals := devicetest.Upload(t, s, there), devicetest.Upload(t, s, of)
	on, out, found := devicetest.Upload(t, s, keys), devicetest.Upload(t, s, vals), devicetest.Upload(t, s, make([]bool, len(keys)))
	if err := errors.Join(m.PutOn(s, onThere, onVals), m.Sync(t.Context())); err != nil {
		t.Fatal(err)
	}
	stats, err := m.Stats(t.Context())
	if err != nil || stats.Secondary == 0 || stats.Slots != slots {
		t.Fatal(stats, err)
	}
	table := TableOf(blockOf(t, sims, stats.Bytes), slots, seed)
	for _, way := range Ways {
		is := make([]bool, len(keys))
		err := errors.Join(s.Fill(found.Ptr(), ^uint32(0), len(keys)/4), l.Get(s, way, table, on, out, found),
			out.CopyTo(t.Context(), s, vals), found.CopyTo(t.Context(), s, is))
		if err != nil {
			t.Fatal(err)
		}
		for i, k := range keys {
			at := k + 4
			want := uint32(0)
			if at < n {
				want = at*3 + 1
			}
			if is[i] != (at < n) || vals[i] != want {
				t.Fatalf("%v: key %d has %d, found is %v", way, k, vals[i], is[i])
			}
		}
	}
	if err := errors.Join(m.Close(), l.Close()); err != nil {
		t.Error(err)
	}
}

// blockOf returns the address of the only memory block of a size.
func blockOf(t *testing.T, dev *sim.Device, bytes int) (at device.Ptr) {
	for _, b := range dev.Blocks() {
		if b.Size == bytes {
			if at != 0 {
				t.Fatalf("two blocks of %d bytes", bytes)
			}
			at = b.Ptr
		}
	}
	return at
}
