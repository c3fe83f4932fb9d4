package horton_test

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/mutate"
)

// lookupsDuringMoves runs lookups during batches that move keys.
func lookupsDuringMoves(opts horton.Options) func(t testing.TB, dev device.Device) {
	return func(t testing.TB, dev device.Device) {
		opts.Capacity, opts.Fixed, opts.MaxLoad, opts.Seed = 128, true, 1, 3
		conformance.LookupsAlongsideMoves(t, dev, conformance.Open(t, horton.New[uint32, uint32], dev, &opts), 80, 32)
	}
}

// readerTests run lookups during evictions.
var readerTests = []mutate.KernelTest{
	{Name: "lookups beside moves", Run: lookupsDuringMoves(horton.Options{Slots: 4})},
	{Name: "reclaiming", Run: lookupsDuringMoves(horton.Options{Slots: 8, Reclaim: horton.Eager})},
}

// moverTests move keys so often that a lookup may miss a key twice.
var moverTests = []mutate.KernelTest{
	{Name: "back and forth", Run: backAndForth},
	{Name: "in a row", Run: inARow},
	{Name: "promoted", Run: promoted},
	{Name: "promotions", Run: promotions},
	{Name: "sharers", Run: sharers},
}

// searchTests use keys that move only by searches. If keys that share an entry are in the way, a
// single step would promote the bucket.
var searchTests = []mutate.KernelTest{{Name: "together", Run: together}}

// A lookup finds a present key while the key moves.
func TestLookupsBesideEvictions(t *testing.T) {
	mutate.RunOnSim(t, readerTests, 2, 80, 90)
	mutate.RunOnSim(t, moverTests, 2, 90)
	mutate.RunOnSim(t, []mutate.KernelTest{{Name: "many of each key", Run: manyOfEach}}, 2, 90)
}

// An iteration sees each untouched pair once, while kernels would otherwise move keys or reclaim
// buckets.
func TestIterateAlongsideOnGPU(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	for _, opts := range []horton.Options{{}, {Slots: 4, MaxLoad: .95, Reclaim: horton.Eager}} {
		t.Run(fmt.Sprintf("%d slots", opts.Slots), func(t *testing.T) {
			dev := devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: 1, Races: true})
			conformance.IterateAlongside(t, dev, 200, conformance.MapOf(horton.New[uint32, uint32], &opts))
		})
	}
}
