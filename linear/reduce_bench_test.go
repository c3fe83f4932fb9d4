package linear_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/linear"
)

// reduceRows is the number of rows to group.
const reduceRows = 20_000_000

// BenchmarkGroupBy sums groups of int64 keys, in one batch and in smaller batches, into a map with
// capacity for the groups. The peer is what a Go programmer would write: a hash splits the rows
// among 64 Go maps, all cores sum, and the maps are merged. ns/op is the time for all rows.
func BenchmarkGroupBy(b *testing.B) {
	for _, groups := range []int{1000, 1_000_000, 8_600_000} {
		rng := rand.New(rand.NewPCG(1, uint64(groups)))
		names := make([]int64, groups)
		for i := range names {
			names[i] = rng.Int64()
		}
		keys, vals := make([]int64, reduceRows), make([]int64, reduceRows)
		for i := range keys {
			keys[i], vals[i] = names[rng.IntN(groups)], rng.Int64N(1000)
		}
		b.Run(fmt.Sprintf("groups=%d/go", groups), func(b *testing.B) {
			for b.Loop() {
				if n := groupByGo(keys, vals, groups); n > groups {
					b.Fatal(n)
				}
			}
		})
		for _, size := range []int{reduceRows, 1_000_000, 100_000} {
			b.Run(fmt.Sprintf("groups=%d/weft,batch=%d", groups, size), func(b *testing.B) { groupBy(b, keys, vals, groups, size) })
		}
	}
}

func groupBy(b *testing.B, keys, vals []int64, groups, size int) {
	dev, err := cpu.Open(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	for b.Loop() {
		m, err := linear.New[int64, int64](dev, &linear.Options{Capacity: groups})
		if err != nil {
			b.Fatal(err)
		}
		for lo := 0; lo < len(keys); lo += size {
			if _, err := m.Reduce(b.Context(), keys[lo:lo+size], vals[lo:lo+size], weft.Sum); err != nil {
				b.Fatal(err)
			}
		}
		if m.Len() > groups {
			b.Fatal(m.Len())
		}
		m.Close()
	}
}

// groupByGo sums rows in 64 Go maps on all cores. It returns the number of groups.
func groupByGo(keys, vals []int64, groups int) int {
	const parts = 64
	type row struct{ key, val int64 }
	workers := runtime.GOMAXPROCS(0)
	split := make([][parts][]row, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			lo, hi := w*len(keys)/workers, (w+1)*len(keys)/workers
			for p := range parts {
				split[w][p] = make([]row, 0, (hi-lo)/parts*5/4)
			}
			for i := lo; i < hi; i++ {
				p := uint64(keys[i]) * 0x9e3779b97f4a7c15 >> 58
				split[w][p] = append(split[w][p], row{keys[i], vals[i]})
			}
		})
	}
	wg.Wait()
	maps := make([]map[int64]int64, parts)
	for w := range workers {
		wg.Go(func() {
			for p := w; p < parts; p += workers {
				m := make(map[int64]int64, groups/parts)
				for _, s := range split {
					for _, r := range s[p] {
						m[r.key] += r.val
					}
				}
				maps[p] = m
			}
		})
	}
	wg.Wait()
	all := make(map[int64]int64, groups)
	for _, m := range maps {
		for k, v := range m {
			all[k] = v
		}
	}
	return len(all)
}
