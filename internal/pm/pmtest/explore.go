package pmtest

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
)

// Explore runs program with seeds 1, 2, … on all cores until about the given number of crash
// images has been checked, or one of them was wrong. program returns the number of images that it
// checked, and a description of the failure or "". Explore returns the sum of the images and one of
// the descriptions.
func Explore(states int, program func(seed uint64) (images int, failed string)) (images int, failed string) {
	type result struct {
		images int
		failed string
	}
	var nChecked, next atomic.Int64
	workers := runtime.GOMAXPROCS(0)
	results := make(chan result)
	for range workers {
		go func() {
			var r result
			for nChecked.Load() < int64(states) && r.failed == "" {
				seed := uint64(next.Add(1))
				n, wrong := program(seed)
				r.images += n
				nChecked.Add(int64(n))
				if wrong != "" {
					r.failed = fmt.Sprintf("seed %d: %s", seed, wrong)
					nChecked.Store(math.MaxInt64 / 2) // stops all workers
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

// NoFence returns a Mutant that omits one fence of a function; see [Site] for the function's name.
// Fences are numbered from 0 in the order in which they first run.
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
