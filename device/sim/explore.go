package sim

import "math/rand/v2"

// Schedule returns the options of a simulated GPU for tests that look for races. The seed selects
// the scheduler, Random or PCT, and the memory. Memory is either weak, with data races as faults,
// or sequentially consistent. A test of a kernel tries many seeds:
//
//	for seed := range uint64(100) {
//		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
//			dev, err := sim.Open(sim.Schedule(seed))
//			…
//		})
//	}
//
// go test -run 'TestSum/seed_17$' then replays one seed. The same seed gives the same schedule if
// the test makes the same calls.
func Schedule(seed uint64) *Options {
	rng := rand.New(rand.NewPCG(seed, 0x5eed))
	o := &Options{Seed: seed, Scheduler: Random, Sequential: rng.IntN(2) == 0}
	o.Races = !o.Sequential
	if rng.IntN(4) == 0 {
		o.Scheduler, o.Depth = PCT, 2+rng.IntN(3)
	}
	return o
}
