package group

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
	"pgregory.net/rapid"
)

// shardRows holds the rows of one of several tables.
type shardRows struct {
	keys, values []column.Column
	ordinals     []uint64
}

// portions draws batches, adds them to the model, and numbers their rows.
func (x *trial) portions(t *rapid.T, m *model) (all []shardRows) {
	row := rapid.SampledFrom([]uint64{0, 1 << 40, math.MaxUint64 - 600}).Draw(t, "first ordinal")
	for _, n := range rapid.SliceOfN(rapid.IntRange(0, 100), 1, 6).Draw(t, "batches") {
		var p shardRows
		p.keys, p.values = x.batch(n)
		m.add(p.keys, p.values, n)
		for range n {
			p.ordinals = append(p.ordinals, row)
			row++
		}
		all = append(all, p)
	}
	return all
}

// saveAndLoad saves groups, loads them, and closes them.
func saveAndLoad(t *rapid.T, dev device.Device, g *Groups, opts *Options) *Groups {
	var b bytes.Buffer
	err := g.Save(t.Context(), &b)
	if err = errors.Join(err, g.Close()); err != nil {
		t.Fatal(err)
	}
	g, err = Load(t.Context(), dev, &b, opts)
	if err != nil {
		t.Fatal(err)
	}
	if b.Len() > 0 {
		t.Fatalf("%d bytes after the end were not read", b.Len())
	}
	return g
}

// Partial results that are saved, loaded and merged equal the result of one call. With ordinals
// this holds for any order of merges. Without ordinals later rows must be merged later.
func TestMerge(t *testing.T) {
	dev := open(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		x := drawTrial(t)
		m := &model{skip: x.opts.SkipNulls}
		portions := x.portions(t, m)
		ordered := rapid.Bool().Draw(t, "ordinals")
		if ordered {
			x.rng.Shuffle(len(portions), func(i, j int) {
				portions[i], portions[j] = portions[j],
					portions[i]
			})
		}
		var tables []*Groups
		defer func() {
			for _, g := range tables {
				_ = g.Close()
			}
		}()
		for len(portions) > 0 {
			g, err := New(dev, x.aggs, &x.opts)
			if err != nil {
				t.Fatal(err)
			}
			n := rapid.IntRange(0, len(portions)).Draw(t, "batches of a table")
			for _, p := range portions[:n] {
				if ordered {
					err = g.AddAt(t.Context(), p.ordinals, p.keys, p.values)
				} else {
					err = g.Add(t.Context(), p.keys, p.values)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if rapid.Bool().Draw(t, "save") {
				g = saveAndLoad(t, dev, g, &x.opts)
			}
			tables, portions = append(tables, g), portions[n:]
		}
		for len(tables) > 1 {
			i := rapid.IntRange(0, len(tables)-2).Draw(t, "table to merge into")
			if ordered && rapid.Bool().Draw(t, "backwards") {
				tables[i], tables[i+1] = tables[i+1], tables[i]
			}
			if err := tables[i].Merge(t.Context(), tables[i+1]); err != nil {
				t.Fatal(err)
			}
			if err := tables[i+1].Close(); err != nil {
				t.Fatal(err)
			}
			tables = slices.Delete(tables, i+1, i+2)
		}
		r, err := tables[0].Result(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(linesOf(r), m.lines(x.aggs, x.values, x.opts.WrapSums,
			x.opts.Sorted)); d != "" {
			t.Fatalf("keys %v, values %v, ordinals %v: %s", x.keys, x.values, ordered, d)
		}
	})
}

// Many groups, which cores share. A small number of them have sums of more than 64 bits in between.
func TestMergeMany(t *testing.T) {
	dev := open(t, 3)
	n := 300_000
	keys, ordinals, values := make([]int64, n), make([]uint64, n), make([]int64, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range keys {
		keys[i], ordinals[i], values[i] = rng.Int64N(100_000), uint64(i), math.MaxInt64-int64(i)
	}
	aggs := []Aggregate{{Func: Rows}, {Func: Mean, Column: 0}, {Func: First, Column: 0},
		{Func: Last, Column: 0}}
	whole := create(t, dev, aggs, nil)
	if err := whole.Add(t.Context(), []column.Column{column.Of(keys)},
		[]column.Column{column.Of(values)}); err != nil {
		t.Fatal(err)
	}
	parts := create(t, dev, aggs, nil)
	for _, cut := range [][2]int{{200_000, n}, {50_000, 200_000}, {0, 50_000}} {
		lo, hi := cut[0], cut[1]
		g := create(t, dev, aggs, nil)
		err := g.AddAt(t.Context(), ordinals[lo:hi], []column.Column{column.Of(keys[lo:hi])},
			[]column.Column{column.Of(values[lo:hi])})
		if err = errors.Join(err, parts.Merge(t.Context(), g)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := whole.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := parts.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := differ(linesOf(got), linesOf(want)); d != "" {
		t.Fatal(d)
	}
}

// A sum may exceed 64 bits in one part, if other parts bring it back.
func TestMergeOverflow(t *testing.T) {
	dev := open(t, 2)
	aggs := []Aggregate{{Func: Sum, Column: 0}}
	sum := func(values ...int64) *Groups {
		g := create(t, dev, aggs, nil)
		if err := g.Add(t.Context(), []column.Column{column.Of(make([]int8, len(values)))},
			[]column.Column{column.Of(values)}); err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := sum(math.MaxInt64, math.MaxInt64, 5)
	if _, err := g.Result(t.Context()); !errors.Is(err, ErrOverflow) {
		t.Fatalf("a sum of two large numbers: %v", err)
	}
	if err := g.Merge(t.Context(), sum(math.MinInt64, math.MinInt64)); err != nil {
		t.Fatal(err)
	}
	r, err := g.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := column.Values[int64](r.Values[0])[0]; got != 3 {
		t.Errorf("the sum is %d, want 3", got)
	}
}

// A failed check of a merge changes nothing. After an error in the middle, groups are unusable.
func TestMergeErrors(t *testing.T) {
	dev := open(t, 1)
	key := []column.Column{column.Of([]int32{1})}
	make := func(opts *Options, aggs ...Aggregate) *Groups { return create(t, dev, aggs, opts) }
	add := func(g *Groups, values ...column.Column) *Groups {
		if err := g.Add(t.Context(), key, values); err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := add(make(nil, Aggregate{Func: Rows}))
	at := make(nil, Aggregate{Func: Rows})
	if err := at.AddAt(t.Context(), []uint64{7}, key, nil); err != nil {
		t.Fatal(err)
	}
	long := make(nil, Aggregate{Func: Rows})
	if err := long.Add(t.Context(), []column.Column{column.Of([]int64{1})}, nil); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]*Groups{
		"itself": g, "other aggregates": make(nil), "other SkipNulls": make(&Options{SkipNulls: true}, Aggregate{Func: Rows}),
		"ordinals": at, "other types": long, "more columns": add(make(nil, Aggregate{Func: Rows}),
			key[0]),
	} {
		if err := g.Merge(t.Context(), o); !errors.Is(err, op.ErrOptions) {
			t.Errorf("merged with %s: %v", name, err)
		}
	}
	if err := errors.Join(at.Add(t.Context(), key, nil), g.AddAt(t.Context(), []uint64{1}, key,
		nil)); !errors.Is(err, op.ErrOptions) {
		t.Errorf("rows with and without ordinals: %v", err)
	}
	if r, err := g.Result(t.Context()); err != nil || r.Len() != 1 ||
		column.Values[int64](r.Values[0])[0] != 1 {
		t.Errorf("%v, %v after merges that did not happen", r, err)
	}
	if err := g.Merge(t.Context(), make(nil, Aggregate{Func: Rows})); err != nil { // without rows
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Merge(ended, add(make(nil, Aggregate{Func: Rows}))); !errors.Is(err,
		context.Canceled) {
		t.Error(err)
	}
	if err := g.Add(t.Context(), key, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Add after a merge that ended early: %v", err)
	}
}

// saved returns a stream with every kind of state.
func saved(t testing.TB, dev device.Device) []byte {
	values := []column.Column{column.Of([]int64{5, -3, math.MaxInt64, math.MaxInt64}),
		column.OfStrings([]string{"b", "", "a", "c"})}
	values[1] = values[1].WithValid(column.OfBools([]bool{true, true, true, false}))
	g, err := New(dev, append(allOf(column.Int64, 0), allOf(column.Bytes, 1)...), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	keys := []column.Column{column.OfStrings([]string{"x", "y", "x", "z"}), column.Of([]float32{1,
		2, 1, 3})}
	var b bytes.Buffer
	err = g.AddAt(t.Context(), []uint64{3, 1, 2, 9}, keys, values)
	if err = errors.Join(err, g.Save(t.Context(), &b)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Damage at any byte, and truncation anywhere, is an error with an offset.
func TestLoadDamaged(t *testing.T) {
	dev := open(t, 1)
	stream := saved(t, dev)
	load := func(b []byte) error {
		g, err := Load(t.Context(), dev, bytes.NewReader(b), nil)
		if err == nil {
			err = g.Close()
			if err != nil {
				t.Fatal(err)
			}
		}
		return err
	}
	if err := load(stream); err != nil {
		t.Fatal(err)
	}
	for i := range stream {
		if err := load(stream[:i]); !errors.Is(err, op.ErrFormat) ||
			!strings.Contains(err.Error(), "byte ") {
			t.Fatalf("the first %d of %d bytes: %v", i, len(stream), err)
		}
		for _, bit := range []byte{1, 0x80} {
			stream[i] ^= bit
			if err := load(stream); !errors.Is(err, op.ErrFormat) {
				t.Fatalf("bit %#x of byte %d turned: %v", bit, i, err)
			}
			stream[i] ^= bit
		}
	}
}
