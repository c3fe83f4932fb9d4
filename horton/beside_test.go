package horton_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/mutate"
)

// besideMoves looks keys up that stay, again and again, beside batches of others that
// come and go and move them: each time, all are found with their values.
func besideMoves(opts horton.Options) func(t testing.TB, dev device.Device) {
	return func(t testing.TB, dev device.Device) {
		const slots, stay, come, lookups = 128, 80, 32, 5
		opts.Capacity, opts.Fixed, opts.MaxLoad, opts.Seed = slots, true, 1, 3
		m := conformance.Open(t, horton.New[uint32, uint32], dev, &opts)
		change, look := devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)
		keys := conformance.Sequence[uint32](1, stay)
		on := devicetest.Upload(t, look, keys)
		vals, found := devicetest.Upload(t, look, make([]uint32, stay*lookups)), devicetest.Upload(t, look, make([]bool, stay*lookups))
		others := func(round int) device.Slice[uint32] {
			return devicetest.Upload(t, change, conformance.Sequence[uint32](1000*(round+1), come))
		}
		check := func(errs ...error) {
			t.Helper()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
		}
		before := others(0)
		check(look.Sync(t.Context()), m.PutOn(change, before, before), m.PutOn(change, on, on), m.Sync(t.Context()))
		for round := 1; round < 6; round++ {
			next := others(round)
			check(m.DeleteOn(change, before, device.Slice[bool]{}), change.Sync(t.Context()))
			for i := range lookups {
				lo, hi := i*stay, (i+1)*stay
				check(m.GetOn(look, on, vals.Sub(lo, hi), found.Sub(lo, hi)))
			}
			check(m.PutOn(change, next, next)) // waits for itself, since the table is nearly full
			there, got := make([]bool, stay*lookups), make([]uint32, stay*lookups)
			check(found.CopyTo(t.Context(), look, there), vals.CopyTo(t.Context(), look, got), change.Sync(t.Context()))
			for i := range there {
				if key := keys[i%stay]; !there[i] || got[i] != key {
					t.Fatalf("round %d, lookup %d: key %d has value %d, found is %v", round, i/stay, key, got[i], there[i])
				}
			}
			if err := m.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			before = next
		}
	}
}

// readerTests are about lookups beside evictions.
var readerTests = []mutate.KernelTest{
	{Name: "lookups beside moves", Run: besideMoves(horton.Options{Slots: 4})},
	{Name: "reclaiming", Run: besideMoves(horton.Options{Slots: 8, Reclaim: horton.Eager})},
}

// moverTests are about keys that move so often that a lookup misses them twice.
var moverTests = []mutate.KernelTest{
	{Name: "back and forth", Run: backAndForth},
	{Name: "in a row", Run: inARow},
	{Name: "together", Run: together},
	{Name: "promoted", Run: promoted},
	{Name: "promotions", Run: promotions},
	{Name: "sharers", Run: sharers},
}

// A key that is there is found, wherever it goes meanwhile.
func TestLookupsBesideEvictions(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	mutate.OnSim(t, readerTests, 4, 80, 90)
	mutate.OnSim(t, moverTests, 4, 90)
}
