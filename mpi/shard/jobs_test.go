package shard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/join"
	"github.com/weftgo/weft/linear"
)

// randomRows returns rows with two key columns, numbers and strings with nulls, and two value
// columns.
func randomRows(rng *rand.Rand, n, keys int) Rows {
	var ints, vals []int64
	var texts []string
	var floats []float64
	var valid []bool
	for range n {
		ints, texts = append(ints, int64(rng.IntN(keys))), append(texts,
			fmt.Sprint("t", rng.IntN(3)))
		vals, floats = append(vals, rng.Int64()-1<<62), append(floats, float64(rng.IntN(100)))
		valid = append(valid, rng.IntN(5) > 0)
	}
	return Rows{
		Keys: []column.Column{column.Of(ints),
			column.OfStrings(texts).WithValid(column.OfBools(valid))},
		Columns: []column.Column{column.Of(vals),
			column.Of(floats).WithValid(column.OfBools(valid))},
	}
}

// inBatches yields batches of rows.
func inBatches(batches ...Rows) iter.Seq2[Rows, error] {
	return func(yield func(Rows, error) bool) {
		for _, b := range batches {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// lines returns rows of columns as text.
func lines(columns ...column.Column) (all []string) {
	if len(columns) == 0 {
		return nil
	}
	for i := range columns[0].Len() {
		var b strings.Builder
		for _, c := range columns {
			fmt.Fprintf(&b, "%v ", c.Any(i))
		}
		all = append(all, b.String())
	}
	return all
}

// concat returns the rows of all batches.
func concat(batches []Rows) Rows {
	var all Rows
	for c := range batches[0].Keys {
		all.Keys = append(all.Keys, concatOf(batches,
			func(b Rows) column.Column { return b.Keys[c] }))
	}
	for c := range batches[0].Columns {
		all.Columns = append(all.Columns, concatOf(batches,
			func(b Rows) column.Column { return b.Columns[c] }))
	}
	return all
}

func concatOf(batches []Rows, of func(Rows) column.Column) column.Column {
	var parts []column.Column
	for _, b := range batches {
		parts = append(parts, of(b))
	}
	c, err := column.Concat(parts...)
	if err != nil {
		panic(err)
	}
	return c
}

var allAggs = []group.Aggregate{{Func: group.Rows}, {Func: group.Sum, Column: 1},
	{Func: group.Mean, Column: 0},
	{Func: group.Min, Column: 0}, {Func: group.Max, Column: 1}, {Func: group.First,
		Column: 1}, {Func: group.Last, Column: 0}}

// The groups of rows on several ranks equal the groups in one process. If rank 0 gathers them,
// their order is also the same.
func TestGroupIsGroupBy(t *testing.T) {
	for _, ranks := range []int{1, 2, 7, 64} {
		for _, o := range []GroupOptions{{}, {Gather: true},
			{Options: group.Options{Memory: 2 * group.MinMemory}, Gather: true},
			{Options: group.Options{Sorted: true, SkipNulls: true}, Gather: true}} {
			rng := rand.New(rand.NewPCG(uint64(ranks), 5))
			batches := make([][]Rows, ranks)
			for r := range batches {
				for range rng.IntN(3) {
					batches[r] = append(batches[r], randomRows(rng, rng.IntN(20000/ranks), 300))
				}
			}
			batches[0] = append(batches[0], randomRows(rng, 10, 300))
			all := concat(slices.Concat(batches...))
			r, err := group.By(t.Context(), host, all.Keys, all.Columns, allAggs, &o.Options)
			if err != nil {
				t.Fatal(err)
			}
			want := lines(slices.Concat(r.Keys, r.Values)...)
			var got []string
			var mu sync.Mutex
			onRanks(t, ranks, func(ctx context.Context, r *Ranks) error {
				g, err := Group(ctx, r, inBatches(batches[r.rank]...), allAggs, &o)
				if err != nil {
					return err
				}
				if g == nil {
					if !o.Gather || r.rank == 0 {
						return fmt.Errorf("rank %d gets no groups", r.rank)
					}
					return nil
				}
				if len(g.Keys) != 2 || g.Keys[1].Type() != column.Bytes {
					return fmt.Errorf("rank %d gets %d key columns", r.rank, len(g.Keys))
				}
				mu.Lock()
				defer mu.Unlock()
				got = append(got, lines(slices.Concat(g.Keys, g.Values)...)...)
				return nil
			})
			if !o.Gather {
				slices.Sort(got)
				slices.Sort(want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d ranks, %+v: %d groups, want %d; first differs in %d", ranks, o,
					len(got), len(want),
					differ(got, want))
			}
		}
	}
}

// Pages contain the whole result. If a loop over pages ends early, no rank blocks.
func TestGroupPages(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	b := randomRows(rng, 5000, 3000)
	onRanks(t, 3, func(ctx context.Context, r *Ranks) error {
		want, err := Group(ctx, r, inBatches(b), allAggs, nil)
		if err != nil {
			return err
		}
		var got []string
		for page, err := range GroupPages(ctx, r, inBatches(b), allAggs, nil) {
			if err != nil {
				return err
			}
			got = append(got, lines(slices.Concat(page.Keys, page.Values)...)...)
		}
		if whole := lines(slices.Concat(want.Keys, want.Values)...); !slices.Equal(got, whole) {
			return fmt.Errorf("rank %d: pages of %d groups, want %d", r.rank, len(got), len(whole))
		}
		for _, err := range GroupPages(ctx, r, inBatches(b), allAggs, nil) {
			if err != nil {
				return err
			}
			break
		}
		for _, err := range GroupPages(ctx, r, inBatches(b, Rows{Keys: b.Keys[:1]}), allAggs, nil) {
			if !errors.Is(err, weft.ErrOptions) {
				return fmt.Errorf("rank %d: an error of other columns is %v", r.rank, err)
			}
		}
		return nil
	})
}

func TestDistinct(t *testing.T) {
	// Ranks without keys get the types of keys from other ranks.
	one := Rows{Keys: []column.Column{column.Of([]int32{7})}}
	total := make([]int, 5)
	onRanks(t, 5, func(ctx context.Context, r *Ranks) error {
		rows := inBatches()
		if r.rank > 2 {
			rows = inBatches(one)
		}
		keys, err := Distinct(ctx, r, rows, nil)
		if err != nil || len(keys) != 1 || keys[0].Type() != column.Int32 {
			return fmt.Errorf("rank %d: Distinct returns %d columns: %v", r.rank, len(keys), err)
		}
		total[r.rank] = keys[0].Len()
		return nil
	})
	if slices.Sort(total); !slices.Equal(total, []int{0, 0, 0, 0, 1}) {
		t.Errorf("ranks have %v keys, want one of all", total)
	}
	onRanks(t, 3, func(ctx context.Context, r *Ranks) error {
		b := Rows{Keys: []column.Column{column.Of([]int32{int32(r.rank), 5, 5, 1})}}
		keys, err := Distinct(ctx, r, inBatches(b), &GroupOptions{Gather: true})
		if err != nil || r.rank > 0 {
			return err
		}
		if got := column.Values[int32](keys[0]); !slices.Equal(got, []int32{0, 5, 1, 2}) {
			return fmt.Errorf("Distinct returns %v", got)
		}
		return nil
	})
}

// An error on one rank is an error on all: of its rows, of different types, and of sums that
// overflow.
func TestGroupErrors(t *testing.T) {
	broken := errors.New("broken")
	ints := func(v ...int64) Rows {
		return Rows{Keys: []column.Column{column.Of(make([]int64, len(v)))},
			Columns: []column.Column{column.Of(v)}}
	}
	other := Rows{Keys: []column.Column{column.OfStrings([]string{"x"})},
		Columns: []column.Column{column.Of([]int64{1})}}
	for name, c := range map[string]struct {
		rows func(rank int) iter.Seq2[Rows, error]
		want string
		is   error
	}{
		"rows": {func(rank int) iter.Seq2[Rows, error] {
			return func(yield func(Rows, error) bool) {
				if yield(ints(1), nil) && rank == 1 {
					yield(Rows{}, broken)
				}
			}
		}, "rank 1: broken", nil},
		"types": {func(rank int) iter.Seq2[Rows, error] {
			if rank == 2 {
				return inBatches(other)
			}
			return inBatches(ints(1))
		}, "", weft.ErrOptions},
		"overflow": {func(rank int) iter.Seq2[Rows, error] { return inBatches(ints(1<<62, 1<<62)) },
			"", group.ErrOverflow},
	} {
		t.Run(name, func(t *testing.T) {
			errs := make([]string, 3)
			onRanks(t, 3, func(ctx context.Context, r *Ranks) error {
				_, err := Group(ctx, r, c.rows(r.rank), []group.Aggregate{{Func: group.Sum}}, nil)
				if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil &&
					!errors.Is(err, c.is) {
					return fmt.Errorf("rank %d: Group returns %v", r.rank, err)
				}
				errs[r.rank] = err.Error()
				return nil
			})
			if errs[0] != errs[1] || errs[0] != errs[2] {
				t.Errorf("ranks return different errors: %q", errs)
			}
		})
	}
}

// If ranks pass different options, the result is an error.
func TestGroupMismatch(t *testing.T) {
	onRanks(t, 3, func(ctx context.Context, r *Ranks) error {
		rows := Rows{Keys: []column.Column{column.Of([]int64{1})},
			Columns: []column.Column{column.Of([]int64{1})}}
		for i := range 3 {
			f, o := group.Sum, GroupOptions{}
			if r.rank == 2 {
				f, o.Sorted, o.Gather = []group.Func{group.Max, group.Sum,
					group.Sum}[i], i == 1, i == 2
			}
			_, err := Group(ctx, r, inBatches(rows), []group.Aggregate{{Func: f}}, &o)
			if !errors.Is(err, ErrMismatch) {
				return fmt.Errorf("rank %d: Group returns %v", r.rank, err)
			}
		}
		for _, err := range Join(ctx, r, join.Inner, inBatches(rows), inBatches(rows),
			&join.Options{NullsMatch: r.rank == 1}) {
			if !errors.Is(err, ErrMismatch) {
				return fmt.Errorf("rank %d: Join yields %v", r.rank, err)
			}
		}
		return nil
	})
}

// Joining rows on several ranks yields the same rows as in one process.
func TestJoinIsJoin(t *testing.T) {
	for _, ranks := range []int{1, 2, 7} {
		for kind := join.Inner; kind <= join.Anti; kind++ {
			for _, o := range []*join.Options{nil, {NullsMatch: true}} {
				rng := rand.New(rand.NewPCG(uint64(ranks), uint64(kind)))
				left, right := make([][]Rows, ranks), make([][]Rows, ranks)
				for r := range ranks {
					for range rng.IntN(3) {
						left[r] = append(left[r], randomRows(rng, rng.IntN(400), 200))
						right[r] = append(right[r], randomRows(rng, rng.IntN(100), 200))
					}
				}
				left[0], right[0] = append(left[0], randomRows(rng, 5, 5)), append(right[0],
					randomRows(rng, 0, 5))
				want := joined(t, kind, concat(slices.Concat(left...)),
					concat(slices.Concat(right...)), o)
				var got []string
				var mu sync.Mutex
				onRanks(t, ranks, func(ctx context.Context, r *Ranks) error {
					for page, err := range Join(ctx, r, kind, inBatches(left[r.rank]...),
						inBatches(right[r.rank]...), o) {
						if err != nil {
							return err
						}
						mu.Lock()
						got = append(got, lines(page...)...)
						mu.Unlock()
					}
					return nil
				})
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("%d ranks, %v, %+v: %d rows, want %d", ranks, kind, o, len(got),
						len(want))
				}
			}
		}
	}
}

// joined returns the rows of a join in one process, sorted.
func joined(t *testing.T, kind join.Kind, left, right Rows, o *join.Options) (want []string) {
	t.Helper()
	j, err := join.NewJoin(host, kind, o)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Build(t.Context(), right.Keys, right.Columns); err != nil {
		t.Fatal(err)
	}
	for _, pages := range []iter.Seq2[[]column.Column, error]{j.Probe(t.Context(), left.Keys,
		left.Columns), j.Finish(t.Context())} {
		for page, err := range pages {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, lines(page...)...)
		}
	}
	slices.Sort(want)
	return want
}

// If a loop ends early on one rank, the other ranks continue. An error of a side is an error on all
// ranks.
func TestJoinEnds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	b := randomRows(rng, 2000, 50)
	onRanks(t, 3, func(ctx context.Context, r *Ranks) error {
		n := 0
		for page, err := range Join(ctx, r, join.Inner, inBatches(b, b), inBatches(b),
			&join.Options{Piece: 100}) {
			if err != nil {
				return err
			}
			if n += page[0].Len(); r.rank == 1 {
				break
			}
		}
		if n == 0 {
			return fmt.Errorf("rank %d gets no rows", r.rank)
		}
		broken := func(yield func(Rows, error) bool) {
			if r.rank == 2 {
				yield(Rows{}, errors.New("broken"))
				return
			}
			yield(b, nil)
		}
		for _, err := range Join(ctx, r, join.Inner, inBatches(b), broken, nil) {
			if err == nil || !strings.Contains(err.Error(), "rank 2: broken") {
				return fmt.Errorf("rank %d: Join yields %v", r.rank, err)
			}
			n = -1
		}
		return sameInt("errors", n, -1)
	})
}

// Batches and groups have the same result in one round and in several.
func TestRounds(t *testing.T) {
	rows, bytes := roundRows, roundBytes
	defer func() { roundRows, roundBytes = rows, bytes }()
	roundRows, roundBytes = 16, 500
	TestMapIsModel(t)
	TestGroupIsGroupBy(t)
	TestJoinIsJoin(t)
	TestFullOnOneRank(t)
	roundRows = 10
	onRanks(t, 3, func(ctx context.Context, r *Ranks) error {
		m := mapOf(r, &linear.Options{Capacity: 64, Fixed: true})
		defer m.Close()
		keys := keysOf(1, 3, 1000, 1e6*uint64(r.rank))[:1000*r.rank/2]
		_, err := m.Reduce(ctx, keys, keys, weft.Sum)
		var p *weft.PartialError
		if !errors.Is(err, weft.ErrFull) || !errors.As(err, &p) || p.Done > len(keys) {
			return fmt.Errorf("rank %d: Reduce returns %v", r.rank, err)
		}
		found := make([]bool, len(keys))
		if _, err := m.Contains(ctx, keys, found); err != nil {
			return err
		}
		for i, is := range found {
			if _, failed := slices.BinarySearch(p.Rows, i); is != (i < p.Done && !failed) {
				return fmt.Errorf("rank %d: row %d is there: %v; %d rows were done, %v failed",
					r.rank, i, is, p.Done, p.Rows)
			}
		}
		return nil
	})
}
