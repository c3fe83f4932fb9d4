package group

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/devicetest"
)

// Keys that lie close together, always or for a while, give the same groups as a plain map. The
// keys lie at the ends of their type, or are more than each core combines, or span batches.
func TestCloseKeys(t *testing.T) {
	const n = 3 * denseSpan
	rng := rand.New(rand.NewPCG(1, 2))
	for name, key := range map[string]func(i int) int64{
		"close":    func(int) int64 { return rng.Int64N(1000) - 500 },
		"least":    func(int) int64 { return math.MinInt64 + rng.Int64N(denseSpan-1) },
		"greatest": func(int) int64 { return math.MaxInt64 - rng.Int64N(300) },
		// the values wrap around
		"both ends":            func(int) int64 { return math.MaxInt64 + rng.Int64N(300) - 150 },
		"some far":             func(i int) int64 { return rng.Int64N(50) + int64(i%20/19)<<40 },
		"far from some row on": func(i int) int64 { return int64(i/(n/2))*rng.Int64() + rng.Int64N(9) },
		"moving":               func(i int) int64 { return int64(i) / 9 },
		"too many":             func(int) int64 { return rng.Int64N(maxSinglePart + 99) },
		"too many in the end":  func(i int) int64 { return min(int64(i), max(int64(i)-n/2, 7)) },
		"one":                  func(int) int64 { return -7 },
	} {
		for _, cores := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d cores", name, cores), func(t *testing.T) {
				g, err := New(devicetest.OpenCPU(t, cores), []Aggregate{{Func: Rows}, {Func: Sum}, {Func: First}, {Func: Last}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				want, order := map[int64][4]int64{}, []int64{}
				for batch := range 2 {
					keys, values := make([]int64, n), make([]int64, n)
					for i := range keys {
						keys[i], values[i] = key(i), int64(batch*n+i)
						k := want[keys[i]]
						if k[0] == 0 {
							order = append(order, keys[i])
							k[2] = values[i]
						}
						want[keys[i]] = [4]int64{k[0] + 1, k[1] + values[i], k[2], values[i]}
					}
					if err := g.Add(t.Context(), []column.Column{column.Of(keys)}, []column.Column{column.Of(values)}); err != nil {
						t.Fatal(err)
					}
				}
				r, err := g.Result(t.Context())
				if err != nil || r.Len() != len(order) {
					t.Fatalf("%d groups, want %d; %v", r.Len(), len(order), err)
				}
				for i, k := range order {
					var got [4]int64
					for j := range got {
						got[j] = column.Values[int64](r.Values[j])[i]
					}
					if there := column.Values[int64](r.Keys[0])[i]; there != k || got != want[k] {
						t.Fatalf("group %d is %d with %v, want %d with %v", i, there, got, k, want[k])
					}
				}
			})
		}
	}
}
