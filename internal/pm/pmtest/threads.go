package pmtest

import (
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
)

// Run runs threads, one access at a time, in an order that rng determines. After an access the
// running thread continues, or with probability 1/4 a random thread. Run returns when all threads
// have ended.
func (d *Domain) Run(rng *rand.Rand, threads ...func()) {
	d.yields = make([]func(), len(threads))
	next := make([]func() (struct{}, bool), len(threads))
	running := make([]int, len(threads))
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
		running[i] = i
	}
	for at := 0; len(running) > 0; {
		if rng.IntN(4) == 0 {
			at = rng.IntN(len(running))
		}
		at = min(at, len(running)-1)
		d.thread = running[at]
		if _, ok := next[d.thread](); !ok {
			running = slices.Delete(running, at, at+1)
		}
	}
	d.yields, d.thread = nil, 0
}
