package group

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/spill"
)

// With any fault of the disk, groups are right or there is an error. After an error, grouping
// stops.
func TestMemoryOnFaultyDisk(t *testing.T) {
	dev := open(t, 2)
	const n = 6000
	rng := rand.New(rand.NewPCG(9, 9))
	keys, texts := make([]int64, n), make([]string, n)
	for i := range keys {
		keys[i] = rng.Int64N(n / 2)
		texts[i] = "text"[:rng.IntN(5)]
	}
	columns := []column.Column{column.Of(keys), column.OfStrings(texts)}
	all := []Aggregate{{Func: Rows}, {Sum, 0}, {Max, 1}}
	lines := func(g *Groups) (lines []string, err error) {
		for lo := 0; lo < n; lo += 1000 {
			some := []column.Column{columns[0].Slice(lo, lo+1000), columns[1].Slice(lo, lo+1000)}
			if err := g.Add(t.Context(), some[:1], some); err != nil {
				return nil, err
			}
		}
		for r, err := range g.Pages(t.Context()) {
			if err != nil {
				return nil, err
			}
			for _, l := range linesOf(r) {
				lines = append(lines, text(l))
			}
		}
		return lines, nil
	}
	want, err := lines(create(t, dev, all, &Options{Sorted: true}))
	must(t, err)
	set := slices.Sorted(slices.Values(want))
	for fault := range spill.Faults {
		failures := 0
		for at := range int64(6) {
			x := &trial{opts: Options{Sorted: at%2 == 0}, aggs: all}
			g := tight(t, dev, x, 100_000)
			var disk *spill.Faulty
			g.spilled.wrapDisk = func(d spill.Disk) spill.Disk {
				disk = &spill.Faulty{Disk: d, Fault: fault, At: 3 * at * at}
				return disk
			}
			got, err := lines(g)
			want := want
			if !x.opts.Sorted {
				slices.Sort(got)
				want = set
			}
			switch {
			case disk == nil:
				t.Fatal("nothing was spilled")
			case err != nil && !disk.Done.Load():
				t.Fatalf("fault %d at %d: %v, though it has not happened", fault, at, err)
			case err != nil:
				failures++
			case !slices.Equal(got, want):
				t.Fatalf("fault %d at %d: %d groups, want %d", fault, at, len(got), len(want))
			}
			closing := fault == spill.CloseError || fault == spill.TruncateError
			if err := g.Close(); err != nil && !closing && !errors.Is(err, g.failed) {
				t.Fatalf("fault %d at %d: Close: %v", fault, at, err)
			}
		}
		if failures == 0 && fault < spill.TruncateError {
			t.Errorf("fault %d never was an error", fault)
		}
	}
}
