package group

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"pgregory.net/rapid"
)

// tight returns groups with less memory than users can set.
func tight(t interface{ Fatal(...any) }, dev device.Device, x *trial, memory int64) *Groups {
	opts := x.opts
	opts.Memory, opts.TempDir = MinMemory, "/var/tmp"
	g, err := New(dev, x.aggs, &opts)
	if err != nil {
		t.Fatal(err)
	}
	g.opts.Memory = memory
	return g
}

// pagesOf joins the pages of a result.
func pagesOf(t *rapid.T, g *Groups) *Result {
	var all []*Result
	for r, err := range g.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Len() == 0 || r.Len() > pageGroups {
			t.Fatalf("a page of %d groups", r.Len())
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return &Result{}
	}
	r, err := concat(all)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Under every limit the result equals that without a limit: in order if it is sorted or rows have
// ordinals, and as a set otherwise. This also holds after more rows, and after Save and Load.
func TestMemory(t *testing.T) {
	dev := open(t, 2)
	spilled := 0
	rapid.Check(t, func(t *rapid.T) {
		x := drawTrial(t)
		x.groups *= 300
		g := tight(t, dev, &x, rapid.SampledFrom([]int64{300_000, 1_000_000}).Draw(t, "memory"))
		defer func() {
			if err := g.Close(); err != nil {
				t.Fatal(err)
			}
		}()
		ordered := rapid.Bool().Draw(t, "ordinals")
		m := &model{skip: x.opts.SkipNulls}
		row := uint64(0)
		for range rapid.IntRange(1, 3).Draw(t, "batches") {
			n := rapid.IntRange(0, 9000).Draw(t, "rows")
			keys, values := x.batch(n)
			m.add(keys, values, n)
			var err error
			if ordered {
				ordinals := make([]uint64, n)
				for i := range ordinals {
					ordinals[i], row = row, row+1
				}
				err = g.AddAt(t.Context(), ordinals, keys, values)
			} else {
				err = g.Add(t.Context(), keys, values)
			}
			if err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 3).Draw(t, "look in between") == 0 {
				compareSpilled(t, g, m, &x, !ordered && !x.opts.Sorted && g.spilled.nStates > 0)
			}
		}
		spilled += g.spilled.nStates
		disordered := !ordered && !x.opts.Sorted && g.spilled.nStates > 0
		if g.spilled.nStates > 0 && rapid.IntRange(0, 3).Draw(t, "save") == 0 {
			g = saveAndLoad(t, dev, g, &x.opts)
		}
		compareSpilled(t, g, m, &x, disordered)
	})
	if spilled == 0 && !testing.Short() { // by chance no draw may spill
		t.Error("nothing was spilled")
	}
}

// compareSpilled compares the result and its pages with the model, as sets if disordered is set.
func compareSpilled(t *rapid.T, g *Groups, m *model, x *trial, disordered bool) {
	r, err := g.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range [][][]any{linesOf(r), linesOf(pagesOf(t, g))} {
		want := m.lines(x.aggs, x.values, x.opts.WrapSums, x.opts.Sorted)
		if disordered || g.spilled.nStates > 0 && !x.opts.Sorted && !g.l.ordered {
			byText := func(a, b []any) int {
				return slices.Compare([]byte(text(a)),
					[]byte(text(b)))
			}
			slices.SortFunc(got, byText)
			slices.SortFunc(want, byText)
		}
		if d := differ(got, want); d != "" {
			t.Fatalf("keys %v, values %v, %d states in the file: %s", x.keys, x.values,
				g.spilled.nStates, d)
		}
	}
}

// Partitions that exceed memory are partitioned again, and their runs are merged in several steps.
func TestMemoryOfManyGroups(t *testing.T) {
	dev := open(t, 2)
	const n = 200_000
	x := &trial{opts: Options{Sorted: true}, aggs: []Aggregate{{Func: Rows}, {Func: Last,
		Column: 0}}}
	g := tight(t, dev, x, 400_000)
	defer g.Close()
	keys, texts := make([]uint64, n), make([]string, n)
	rng := rand.New(rand.NewPCG(5, 6))
	for i, k := range rng.Perm(n) {
		keys[i], texts[i] = uint64(k), fmt.Sprint(k/3)
	}
	columns := []column.Column{column.OfStrings(texts), column.Of(keys)}
	must(t, g.Add(t.Context(), columns, []column.Column{column.Of(keys)}))
	must(t, g.Add(t.Context(), columns, []column.Column{column.Of(keys)}))
	want, i := slices.Clone(keys), 0
	slices.SortFunc(want, func(a, b uint64) int {
		return cmp.Or(strings.Compare(fmt.Sprint(a/3), fmt.Sprint(b/3)), cmp.Compare(a, b))
	})
	for r, err := range g.Pages(t.Context()) {
		must(t, err)
		for j := range r.Len() {
			k := r.Keys[1].Any(j).(uint64)
			if i == n || k != want[i] || r.Keys[0].Any(j) != fmt.Sprint(k/3) ||
				r.Values[0].Any(j) != int64(2) || r.Values[1].Any(j) != k {
				t.Fatalf("group %d is %v %d with %v rows", i, r.Keys[0].Any(j), k,
					r.Values[0].Any(j))
			}
			i++
		}
	}
	if i != n {
		t.Errorf("%d groups, want %d", i, n)
	}
}

// Memory that cannot be divided may exceed the limit: one group, or groups with long values.
func TestMemoryOfLargeGroups(t *testing.T) {
	dev := open(t, 2)
	all := []Aggregate{{Min, 0}, {Max, 0}, {First, 0}, {Last, 0}}
	for name, keys := range map[string][]column.Column{"no keys": nil,
		"three keys": {column.Of([]int64{1})}} {
		g := create(t, dev, all, &Options{Memory: MinMemory, TempDir: "/var/tmp"})
		var want []string
		for i := range 30 {
			if keys != nil {
				keys = []column.Column{column.Of([]int64{int64(i % 3)})}
			}
			text := fmt.Sprintf("%02d%s", i, make([]byte, 1<<20))
			want = append(want, text)
			must(t, g.Add(t.Context(), keys, []column.Column{column.OfStrings([]string{text})}))
		}
		r, err := g.Result(t.Context())
		must(t, err)
		for i := range r.Len() {
			k := 0
			if keys != nil {
				k = int(r.Keys[0].Any(i).(int64))
			}
			last := 29
			if keys != nil {
				last = 27 + k
			}
			if r.Values[0].Any(i) != want[k] || r.Values[1].Any(i) != want[last] ||
				r.Values[2].Any(i) != want[k] ||
				r.Values[3].Any(i) != want[last] {
				t.Errorf("%s: group %d has other values", name, k)
			}
		}
		if n := len(keys)*2 + 1; r.Len() != n {
			t.Errorf("%s: %d groups, want %d", name, r.Len(), n)
		}
	}
}

// Keys with nulls have their own table, with many groups under the least memory.
func TestMemoryOfNullKeys(t *testing.T) {
	dev := open(t, 2)
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		x := &trial{keys: []column.Type{column.Int32, column.Int32},
			values: []column.Type{column.Int64}, opts: Options{Sorted: true}}
		x.aggs = []Aggregate{{Func: Rows}, {Sum, 0}, {Min, 0}, {Max, 0}}
		g := create(t, dev, x.aggs, &Options{Sorted: true, Memory: MinMemory, TempDir: "/var/tmp"})
		m := &model{}
		for range 30 {
			const n = 1000
			keys, values := make([]int32, n), make([]int64, n)
			for i := range keys {
				keys[i], values[i] = rng.Int32N(150_000), rng.Int64N(100)
			}
			none := column.Of(make([]int32, n)).WithValid(column.OfBools(make([]bool, n)))
			columns := []column.Column{column.Of(keys), none}
			m.add(columns, []column.Column{column.Of(values)}, n)
			must(t, g.Add(t.Context(), columns, []column.Column{column.Of(values)}))
		}
		r, err := g.Result(t.Context())
		must(t, err)
		if d := differ(linesOf(r), m.lines(x.aggs, x.values, false, true)); d != "" {
			t.Fatalf("seed %d, %d states in the file: %s", seed, g.spilled.nStates, d)
		}
	}
}

// Errors of the file are errors of the call.
func TestMemoryErrors(t *testing.T) {
	dev := open(t, 1)
	x := &trial{aggs: []Aggregate{{Func: Max, Column: 0}}}
	key := []column.Column{column.Of([]int64{1})}
	g := tight(t, dev, x, 100_000)
	defer g.Close()
	long := []column.Column{column.OfStrings([]string{string(make([]byte, 1<<20))})}
	must(t, g.Add(t.Context(), key, long)) // a row larger than memory
	must(t, g.Add(t.Context(), key, []column.Column{column.OfStrings([]string{"a"})}))
	r, err := g.Result(t.Context())
	must(t, err)
	if r.Len() != 1 || r.Values[0].Any(0) != "a" {
		t.Errorf("%d groups, the first with %.20q", r.Len(), r.Values[0].Any(0))
	}

	nowhere := tight(t, dev, &trial{}, 100_000)
	defer nowhere.Close()
	nowhere.opts.TempDir = "/nowhere/at/all"
	keys := make([]int64, 100_000)
	for i := range keys {
		keys[i] = int64(i)
	}
	if err := nowhere.Add(t.Context(), []column.Column{column.Of(keys)}, nil); err == nil {
		t.Error("a file in no directory was no error")
	}
	for range nowhere.Pages(t.Context()) { // may stop at any time
		break
	}
}

// A table of fixed capacity has the same groups as a growing one, even if it is full.
func TestFixedTable(t *testing.T) {
	dev := open(t, 2)
	const n = 200_000 // several tasks write them
	keys := make([]int64, n)
	for i, k := range rand.New(rand.NewPCG(7, 8)).Perm(n) {
		keys[i] = int64(k)
	}
	columns := []column.Column{column.Of(keys)}
	for _, bytes := range []int64{1, 100_000, 100_000_000} {
		g := create(t, dev, []Aggregate{{Func: Rows}, {Sum, 0}}, nil)
		must(t, g.Add(t.Context(), columns, columns))
		must(t, g.packed.fixCapacity(g.dev, bytes))
		must(t, g.Add(t.Context(), columns, columns))
		r, err := g.Result(t.Context())
		must(t, err)
		for i, k := range column.Values[int64](r.Keys[0]) {
			if k != keys[i] || r.Values[0].Any(i) != int64(2) || r.Values[1].Any(i) != 2*k {
				t.Fatalf("%d bytes: group %d is %d, want %d", bytes, i, k, keys[i])
			}
		}
	}
}
