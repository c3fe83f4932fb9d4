package pmtest

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
)

// Explore runs programs by their seeds, on all cores, until they have looked at so many images of crashes,
// about, or one was wrong. A program returns how many it has looked at, and what was wrong.
func Explore(states int, program func(seed uint64) (images int, failed string)) (images int, failed string) {
	type result struct {
		images int
		failed string
	}
	var seen, next atomic.Int64
	workers := runtime.GOMAXPROCS(0)
	results := make(chan result)
	for range workers {
		go func() {
			var r result
			for seen.Load() < int64(states) && r.failed == "" {
				seed := uint64(next.Add(1))
				n, wrong := program(seed)
				r.images += n
				seen.Add(int64(n))
				if wrong != "" {
					r.failed = fmt.Sprintf("seed %d: %s", seed, wrong)
					seen.Store(math.MaxInt64 / 2) // enough for all
				}
			}
			results <- r
		}()
	}
	for range workers {
		r := <-results
		images += r.images
		failed = cmp.Or(failed, r.failed)
	}
	return images, failed
}

// NoFence is a Mutant that leaves out one of the fences of a function, as [Site] names it: number 0 is the
// one that runs first.
func NoFence(function string, number int) func(*Access) bool {
	var lines []int
	return func(a *Access) bool {
		if a.Kind != Fence {
			return false
		}
		f, line := Site()
		if f != function {
			return false
		}
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
		return slices.Index(lines, line) == number
	}
}
