package sim

import "math/rand/v2"

// Schedule is a simulated GPU for tests that look for races: the schedule of a seed,
// random or by priorities, on memory that is weak, where data races are faults, or
// sequentially consistent. A test of one's own kernels tries many seeds:
//
//	for seed := range uint64(100) {
//		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
//			dev, err := sim.Open(sim.Schedule(seed))
//			…
//		})
//	}
//
// and go test -run 'TestSum/seed_17$' replays one. The same seed gives the same
// schedule as long as the test does the same.
func Schedule(seed uint64) *Options {
	rng := rand.New(rand.NewPCG(seed, 0x5eed))
	o := &Options{Seed: seed, Scheduler: Random, Sequential: rng.IntN(2) == 0}
	o.Races = !o.Sequential
	if rng.IntN(4) == 0 {
		o.Scheduler, o.Depth = PCT, 2+rng.IntN(3)
	}
	return o
}
