package group

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weftgo/weft/column"
)

var (
	benchRows = flag.Int("group.rows", 20_000_000, "rows of BenchmarkBy")
	checkRows = flag.Int("group.check", 300_000, "rows of TestManyGroups")
)

// By gives the same totals as a Go map, in the order of first appearance. There is about one group
// for three rows.
func TestManyGroups(t *testing.T) {
	keys, values := benchColumns(*checkRows, 2**checkRows/5)
	r, err := By(t.Context(), open(t, 2), []column.Column{column.Of(keys)}, []column.Column{column.Of(values)}, []Aggregate{{Func: Rows}, {Sum, 0}, {First, 0}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	type group struct{ key, rows, sum, first int64 }
	at, want := make(map[int64]int32), []group(nil)
	for i, k := range keys {
		j, ok := at[k]
		if !ok {
			j = int32(len(want))
			at[k] = j
			want = append(want, group{key: k, first: values[i]})
		}
		want[j].rows++
		want[j].sum += values[i]
	}
	if r.Len() != len(want) {
		t.Fatalf("%d groups, want %d", r.Len(), len(want))
	}
	for i, w := range want {
		got := group{column.Values[int64](r.Keys[0])[i], column.Values[int64](r.Values[0])[i], column.Values[int64](r.Values[1])[i], column.Values[int64](r.Values[2])[i]}
		if got != w {
			t.Fatalf("group %d is %v, want %v", i, got, w)
		}
	}
}

// Count and sum of int64 rows by int64 keys. The peer is a hand-written program that distributes
// rows to 64 Go maps, with one core per map at a time.
func BenchmarkBy(b *testing.B) {
	n := *benchRows
	for _, groups := range []int{1000, 1_000_000, 8_600_000} {
		keys, values := benchColumns(n, groups)
		name := func(s string) string { return fmt.Sprintf("groups=%d/%s", groups, s) }
		b.Run(name("weft"), func(b *testing.B) {
			dev := open(b, 0)
			var found int
			for b.Loop() {
				r, err := By(b.Context(), dev, []column.Column{column.Of(keys)}, []column.Column{column.Of(values)}, []Aggregate{{Func: Rows}, {Sum, 0}}, nil)
				if err != nil {
					b.Fatal(err)
				}
				found = r.Len()
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
			b.ReportMetric(float64(found), "groups")
		})
		b.Run(name("maps"), func(b *testing.B) {
			var found int
			for b.Loop() {
				found = byMaps(keys, values, open(b, 0).Properties().Units)
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
			b.ReportMetric(float64(found), "groups")
		})
	}
}

// benchColumns returns n rows with about the given number of groups, in random order.
func benchColumns(n, groups int) (keys, values []int64) {
	rng := rand.New(rand.NewPCG(1, uint64(groups)))
	keys, values = make([]int64, n), make([]int64, n)
	for i := range keys {
		keys[i], values[i] = rng.Int64N(int64(groups))*1_000_003, int64(i)
	}
	return keys, values
}

// byMaps groups by 64 Go maps. Each core distributes a share of the rows and then fills maps.
func byMaps(keys, values []int64, cores int) (groups int) {
	const parts = 64
	type row struct{ key, value int64 }
	part := func(key int64) uint64 { return uint64(key) * 0x9e3779b97f4a7c15 >> 58 }
	dealt := make([][parts][]row, cores)
	var wg sync.WaitGroup
	for c := range cores {
		wg.Go(func() {
			lo, hi := c*len(keys)/cores, (c+1)*len(keys)/cores
			var counts [parts]int
			for _, k := range keys[lo:hi] {
				counts[part(k)]++
			}
			for p, n := range counts {
				dealt[c][p] = make([]row, 0, n)
			}
			for i, k := range keys[lo:hi] {
				p := part(k)
				dealt[c][p] = append(dealt[c][p], row{k, values[lo+i]})
			}
		})
	}
	wg.Wait()
	type group struct{ count, sum int64 }
	found := make([]int, cores)
	for c := range cores {
		wg.Go(func() {
			for p := c; p < parts; p += cores {
				at, made := make(map[int64]int32), []group(nil)
				for d := range dealt {
					for _, r := range dealt[d][p] {
						i, ok := at[r.key]
						if !ok {
							i = int32(len(made))
							at[r.key] = i
							made = append(made, group{})
						}
						made[i].count++
						made[i].sum += r.value
					}
				}
				found[c] += len(made)
			}
		})
	}
	wg.Wait()
	for _, n := range found {
		groups += n
	}
	return groups
}
