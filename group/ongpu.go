package group

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/groups"
)

// typesOn are the types of columns as kernels know them.
var typesOn = map[column.Type]groups.Type{
	column.Int32: groups.Int32, column.Uint32: groups.Uint32, column.Int64: groups.Int64, column.Uint64: groups.Uint64,
	column.Float32: groups.Float32, column.Float64: groups.Float64,
}

// gpuOn is groups on a GPU.
type gpuOn[K KeyOn, V weft.Value] struct {
	dev   device.Device
	funcs []Aggregate
	opts  Options
	value column.Type
	aggs  []groups.Aggregate // the same as kernels know them
	table *groups.Table
}

func newGPUOn[K KeyOn, V weft.Value](dev device.Device, aggs []Aggregate, o Options) (groupsOn[K, V], error) {
	g := &gpuOn[K, V]{dev: dev, funcs: slices.Clone(aggs), opts: o, value: column.TypeOf[V]()}
	for _, a := range aggs {
		g.aggs = append(g.aggs, groups.Aggregate{Func: g.kernel(a.Func), Type: typesOn[g.value], Column: a.Column})
	}
	var err error
	g.table, err = groups.New(dev, groups.LayoutOf(typesOn[column.TypeOf[K]()], g.aggs), groups.Options{Capacity: o.Capacity})
	return g, err
}

// kernel is a function as kernels know it.
func (g *gpuOn[K, V]) kernel(f Func) groups.Func {
	switch {
	case f == Min:
		return groups.Least
	case f == Max:
		return groups.Greatest
	case f == Sum && g.value.Float():
		return groups.SumOfFloats
	case f == Sum:
		return groups.SumOf
	case f == Mean && g.value.Float():
		return groups.MeanOfFloats
	case f == Mean:
		return groups.MeanOf
	}
	return groups.Rows
}

func (g *gpuOn[K, V]) add(s *device.Stream, keys device.Slice[K], values []device.Slice[V]) error {
	columns := make([]device.Ptr, len(values))
	for i, v := range values {
		columns[i] = v.Ptr()
	}
	err := g.table.Add(s, keys.Ptr(), columns, keys.Len())
	if errors.Is(err, groups.ErrRange) {
		return fmt.Errorf("%w: one goes over 2^94", ErrOverflow)
	}
	return err
}

func (g *gpuOn[K, V]) close() error { return g.table.Close() }

func (g *gpuOn[K, V]) resultOn(ctx context.Context) (r *ResultOn[K], err error) {
	n, err := g.table.Len(ctx)
	if err != nil {
		return nil, err
	}
	r = &ResultOn[K]{}
	defer func() {
		if err != nil {
			r, err = nil, errors.Join(err, g.free(ctx, r))
		}
	}()
	if r.Keys, err = device.Make[K](g.dev, n); err != nil {
		return r, err
	}
	outputs := make([]groups.Output, len(g.aggs))
	for i, a := range g.aggs {
		c, err := newColumnOn(g.dev, resultType(g.funcs[i].Func, g.value), n)
		if err != nil {
			return r, err
		}
		r.values = append(r.values, c)
		outputs[i] = groups.Output{Aggregate: a, Column: c.buffer().Ptr, Over: -1}
	}
	if err := g.table.Result(ctx, n, r.Keys.Ptr(), outputs); err != nil {
		return r, err
	}
	return r, g.checkSums(ctx, r, outputs)
}

// free returns the memory of a result. A copy whose context has ended may still be on its way.
func (g *gpuOn[K, V]) free(ctx context.Context, r *ResultOn[K]) error {
	return errors.Join(g.table.Stream().Sync(context.WithoutCancel(ctx)), r.Free())
}

// checkSums looks for sums of more than 64 bits, and names the group of one.
func (g *gpuOn[K, V]) checkSums(ctx context.Context, r *ResultOn[K], outputs []groups.Output) error {
	for i, o := range outputs {
		if o.Over < 0 || g.opts.WrapSums {
			continue
		}
		key := make([]K, 1)
		if err := r.Keys.Sub(o.Over, o.Over+1).CopyTo(ctx, g.table.Stream(), key); err != nil {
			return err
		}
		return overflow(g.funcs[i].Column, g.value, keyText([]column.Column{column.Of(key)}, 0))
	}
	return nil
}

func (g *gpuOn[K, V]) result(ctx context.Context) (r *Result, err error) {
	on, err := g.resultOn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.free(ctx, on)) }()
	keys := make([]K, on.Len())
	if err := on.Keys.CopyTo(ctx, g.table.Stream(), keys); err != nil {
		return nil, err
	}
	places := ascending(keys)
	r = &Result{Keys: []column.Column{column.Of(keys)}}
	for _, c := range on.values {
		values, err := c.at(ctx, g.table.Stream(), places)
		if err != nil {
			return nil, err
		}
		r.Values = append(r.Values, values)
	}
	return r, nil
}

// ascending sorts keys, NaN last, and returns the place that each has come to.
func ascending[K KeyOn](keys []K) (places []int) {
	type placed struct {
		key K
		at  int
	}
	all := make([]placed, len(keys))
	for i, k := range keys {
		all[i] = placed{k, i}
	}
	slices.SortFunc(all, func(a, b placed) int {
		switch {
		case a.key < b.key || b.key != b.key: // there is one NaN
			return -1
		case a.key > b.key || a.key != a.key:
			return 1
		}
		return 0
	})
	places = make([]int, len(keys))
	for place, x := range all {
		keys[place], places[x.at] = x.key, place
	}
	return places
}
