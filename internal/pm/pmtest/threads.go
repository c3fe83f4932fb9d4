package pmtest

import (
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
)

// Run runs threads, one access of one of them after another, in an order that the seed
// decides: mostly the one that runs goes on. It returns when all have ended.
func (d *Domain) Run(rng *rand.Rand, threads ...func()) {
	d.yields = make([]func(), len(threads))
	next := make([]func() (struct{}, bool), len(threads))
	alive := make([]int, len(threads))
	for i, body := range threads {
		var stop func()
		next[i], stop = iter.Pull(func(yield func(struct{}) bool) {
			d.yields[i] = func() {
				if !yield(struct{}{}) {
					runtime.Goexit() // the test has ended
				}
			}
			body()
		})
		defer stop()
		alive[i] = i
	}
	for at := 0; len(alive) > 0; {
		if rng.IntN(4) == 0 {
			at = rng.IntN(len(alive))
		}
		at = min(at, len(alive)-1)
		d.thread = alive[at]
		if _, ok := next[d.thread](); !ok {
			alive = slices.Delete(alive, at, at+1)
		}
	}
	d.yields, d.thread = nil, 0
}
