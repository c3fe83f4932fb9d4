package pmtest

import (
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
)

// Run runs threads, one access of one thread at a time, in an order that the seed decides. Mostly
// the running thread goes on. Run returns when all threads have ended.
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
