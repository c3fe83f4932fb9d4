package cuckoo_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/workload"
)

// Lookups and insertions read as many buckets as the model predicts.
func TestStatsAgreeWithTheModel(t *testing.T) {
	dev := devicetest.Open(t)
	keys := make([]uint32, 1<<16)
	workload.Unique(keys, 1, 0)
	for _, c := range []struct {
		policy cuckoo.Policy
		slots  int
		load   float64
		within float64
	}{
		{cuckoo.FirstFit, 2, .8, .02}, {cuckoo.FirstFit, 4, .9, .02}, {cuckoo.FirstFit, 8, .5, .02},
		{cuckoo.FirstFit, 8, .9, .02}, {cuckoo.FirstFit, 16, .95, .02},
		{cuckoo.LoadBalancing, 4, .9, .03}, {cuckoo.LoadBalancing, 8, .9, .03}, {cuckoo.LoadBalancing, 16, .7, .02},
	} {
		t.Run(fmt.Sprintf("%v, %d slots at %g", c.policy, c.slots, c.load), func(t *testing.T) {
			m := conformance.Open(t, cuckoo.New[uint32, uint32], dev, &cuckoo.Options{
				Capacity: len(keys), MaxLoad: c.load, Fixed: true, Slots: c.slots, Policy: c.policy, Seed: 1,
			})
			for batch := range slices.Chunk(keys, 1<<9) { // a CPU processes one in its own order
				if _, err := m.Put(t.Context(), batch, batch); err != nil {
					t.Fatal(err)
				}
			}
			s, err := m.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			off := func(got, model float64) bool { return !(math.Abs(got/model-1) <= c.within) }
			if off(s.PerHit, s.Model.PerHit) || off(s.PerMiss, s.Model.PerMiss) || off(s.PerInsert, s.Model.PerInsert) {
				t.Error(s)
			}
		})
	}
}
