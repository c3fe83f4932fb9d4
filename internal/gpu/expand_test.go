package gpu_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// counted is a structure with a given number of rows per key.
type counted struct{ *plain }

func (counted) WriteRows(*device.Stream, core.Parts, int, device.Ptr, device.Ptr, device.Ptr, device.Ptr, uint64, uint64) error {
	return nil
}

// Offset i on the device is the sum of the first i counts. The tests have fewer and more counts
// than a warp adds at a time, and more than one and several strips. Sums exceed 32 bits.
func TestExpandOnAddsUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, opts := range []sim.Options{{Arch: 80}, {Arch: 90, Scheduler: sim.Random, Seed: 3}} {
		dev := devicetest.OpenSim(t, &opts)
		e, p := openEngine(t, dev)
		s := devicetest.NewStream(t, dev)
		p.look = func(*device.Stream, *batch.Batch, device.Ptr) error { return nil }
		for _, n := range []int{1, 31, 33, 1023, 1024, 1025, 3000, 40_000} {
			counts, want := make([]uint32, n), make([]uint64, n+1)
			for i := range counts {
				counts[i] = rng.Uint32() >> rng.IntN(32)
				want[i+1] = want[i] + uint64(counts[i])
			}
			on, offsets := devicetest.Upload(t, s, counts), devicetest.Upload(t, s, make([]uint64, n+1))
			b := &batch.Batch{N: n, Columns: batch.Columns{batch.Counts: batch.OutputOn(on), batch.Offsets: batch.OffsetsOn(offsets)}}
			err := e.Expand(t.Context(), s, e.Leases.Current(), b, counted{p})
			got := make([]uint64, n+1)
			if err = errors.Join(err, offsets.CopyTo(t.Context(), s, got)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("sm_%d: %d counts do not add up", opts.Arch, n)
			}
		}
	}
}
