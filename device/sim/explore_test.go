package sim_test

import (
	"reflect"
	"testing"

	"github.com/weftgo/weft/device/sim"
)

// Seeds select all kinds of schedules. The same seed always selects the same one.
func TestSchedule(t *testing.T) {
	kinds := map[[2]any]bool{}
	for seed := range uint64(40) {
		o := sim.Schedule(seed)
		if !reflect.DeepEqual(o, sim.Schedule(seed)) || o.Seed != seed || o.Races == o.Sequential {
			t.Errorf("seed %d: %+v", seed, o)
		}
		kinds[[2]any{o.Scheduler, o.Sequential}] = true
		dev, err := sim.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		dev.Close()
	}
	if len(kinds) != 4 {
		t.Errorf("%d kinds of schedules, want 4", len(kinds))
	}
}
