package group

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// tryMergeOn merges groups on a device into host groups that already have rows, twice. Each result
// must be the same as if all rows were added.
func tryMergeOn(t *testing.T, g *GroupsOn, o *Options, keys, values [][]column.Column) {
	t.Helper()
	dev := devicetest.OpenCPU(t, 1)
	merged, all := create(t, dev, g.aggs, o), create(t, dev, g.aggs, o)
	last := len(keys) - 1
	must(t, errors.Join(merged.Add(t.Context(), keys[last], values[last]),
		all.Add(t.Context(), keys[last], values[last])))
	for range 2 {
		must(t, merged.MergeOn(t.Context(), g))
		for i, k := range keys {
			must(t, all.Add(t.Context(), k, values[i]))
		}
		got, err := merged.Result(t.Context())
		must(t, err)
		want, err := all.Result(t.Context())
		must(t, err)
		if d := differ(linesOf(got), linesOf(want)); d != "" {
			t.Fatalf("merged: %s", d)
		}
	}
}

// Sums that exceed 64 bits on a device are exact after a merge.
func TestMergeOnSums(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		aggs := []Aggregate{{Func: Sum}, {Func: Sum, Column: 1}, {Func: Mean}}
		merged := create(t, devicetest.OpenCPU(t, 1), aggs, nil)
		s := devicetest.NewStream(t, dev)
		add := func(signed int64, unsigned uint64, times int) {
			g := small(t, dev, aggs, nil)
			defer g.Close()
			for range times {
				must(t, g.AddOn(s, upload(t, s, []column.Column{column.Of([]int32{7})}),
					upload(t, s, []column.Column{column.Of([]int64{signed}),
						column.Of([]uint64{unsigned})})))
			}
			must(t, merged.MergeOn(t.Context(), g))
		}
		add(math.MinInt64, math.MaxUint64, 3)
		if _, err := merged.Result(t.Context()); !errors.Is(err, ErrOverflow) {
			t.Fatalf("a sum over 64 bits: %v", err)
		}
		add(math.MaxInt64, 0, 3)
		merged.opts.WrapSums = true
		r, err := merged.Result(t.Context())
		must(t, err)
		if got := r.Values[0].Any(0); got != int64(-3) {
			t.Errorf("the sum is %v, want -3", got)
		}
		if got := r.Values[1].Any(0); got != uint64(math.MaxUint64-2) {
			t.Errorf("the sum modulo 2^64 is %v, want 2^64-3", got)
		}
		if got := r.Values[2].Any(0); got != -.5 {
			t.Errorf("the mean is %v, want -.5", got)
		}
	})
}

// If a merge stops in the middle, all later calls return its error.
func TestMergeOnStops(t *testing.T) {
	defer func(n int) { mergeGroups = n }(mergeGroups)
	mergeGroups = 10
	dev := devicetest.OpenGPU(t)
	on := small(t, dev, []Aggregate{{Func: Rows}}, nil)
	defer on.Close()
	keys := make([]int64, 100)
	for i := range keys {
		keys[i] = int64(i)
	}
	must(t, on.Add(t.Context(), []column.Column{column.Of(keys)}, nil))
	g := create(t, devicetest.OpenCPU(t, 1), on.aggs, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := &stopping{Context: ctx, stop: func() bool { return g.n.Load() > 0 }}
	if err := g.MergeOn(stopped, on); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := g.Result(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("the result after a merge in part: %v", err)
	}
}

// stopping is a context that ends once stop returns true.
type stopping struct {
	context.Context
	stop func() bool
}

func (s *stopping) Err() error {
	if s.stop() {
		return context.Canceled
	}
	return nil
}

// Groups with other aggregates or types, and closed groups, are errors. Nothing changes then.
func TestMergeOnRefuses(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	keys := []column.Column{column.Of([]int32{1})}
	g := create(t, dev, []Aggregate{{Func: Rows}}, nil)
	must(t, g.Add(t.Context(), keys, nil))
	for name, x := range map[string]struct {
		aggs []Aggregate
		opts *Options
		keys []column.Column
		want error
	}{
		"no rows":    {[]Aggregate{{Func: Rows}}, nil, nil, nil},
		"aggregates": {nil, nil, keys, weft.ErrOptions},
		"SkipNulls":  {[]Aggregate{{Func: Rows}}, &Options{SkipNulls: true}, keys, weft.ErrOptions},
		"types": {[]Aggregate{{Func: Rows}}, nil, []column.Column{column.Of([]int64{1})},
			weft.ErrOptions},
		"closed": {[]Aggregate{{Func: Rows}}, nil, keys, weft.ErrClosed},
	} {
		on, err := NewOn(dev, x.aggs, x.opts)
		must(t, err)
		if x.keys != nil {
			must(t, on.Add(t.Context(), x.keys, nil))
		}
		if x.want == weft.ErrClosed {
			must(t, on.Close())
		}
		if err := g.MergeOn(t.Context(), on); !errors.Is(err, x.want) {
			t.Errorf("%s: %v, want %v", name, err, x.want)
		}
		must(t, on.Close())
	}
	r, err := g.Result(t.Context())
	must(t, err)
	if r.Len() != 1 || r.Values[0].Any(0) != int64(1) {
		t.Errorf("%d groups, the first with %v rows", r.Len(), r.Values[0].Any(0))
	}
}
