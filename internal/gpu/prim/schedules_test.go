package prim

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft/device/sim"
)

// The blocks of a launch wait for each other and communicate through memory. They are correct under
// random schedules of lanes, warps and blocks, with weak memory. A data race is an error.
func TestSchedules(t *testing.T) {
	for _, scheduler := range []sim.Scheduler{sim.Random, sim.PCT} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%s/%d", scheduler, seed), func(t *testing.T) {
				r := onSim(t, &sim.Options{Scheduler: scheduler, Seed: seed, Races: true})
				runScan[uint64](r, counts(r, 3*scanTiles[8]+5), 0)
				runGroup(r, keysLike[uint64](r, "skewed", 3*headTiles[8]+100), true)
				runReduce(r, Uint64, Sum, values[uint64](r, 2*reduceTile), segmentsLike(r, "mixed", 2*reduceTile, 0), false, true)
				sortLike(r, Widths{8, 4}, "skewed", 2*shapes[Widths{8, 4}].tile()+50, 8, 24, false, false)
			})
		}
	}
}
