package group

import (
	"context"
	"errors"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/gpu/groups"
)

// resultColumn is an aggregate to read and the type of its column.
type resultColumn struct {
	agg groups.Aggregate
	typ column.Type
}

func (g *gpuGroups) resultOn(ctx context.Context) (r *ResultOn, err error) {
	columns := make([]resultColumn, len(g.aggs))
	for i, a := range g.aggs {
		columns[i] = resultColumn{a, typeOf(g.l.readings[i], g.l)}
	}
	r, outputs, err := g.read(ctx, columns)
	if err != nil {
		return nil, err
	}
	if err := g.checkSums(ctx, r, outputs); err != nil {
		return nil, errors.Join(err, g.free(ctx, r))
	}
	return r, nil
}

// read returns the given columns of all groups.
func (g *gpuGroups) read(ctx context.Context, columns []resultColumn) (r *ResultOn, outputs []groups.Output, err error) {
	tables := g.tables()
	counts, n := make([]int, len(tables)), 0
	for i, t := range tables {
		if counts[i], err = t.Len(ctx); err != nil {
			return nil, nil, err
		}
		n += counts[i]
	}
	r = &ResultOn{}
	defer func() {
		if err != nil {
			r, err = nil, errors.Join(err, g.free(ctx, r))
		}
	}()
	keys, outputs, err := g.columns(ctx, r, n, columns)
	if err != nil {
		return r, nil, err
	}
	first := 0
	for i, t := range tables {
		to := groups.Results{Keys: keys, Outputs: outputs, First: first}
		if t == g.numbered {
			to.Numbers = g.numbers
		}
		if err := t.Result(ctx, counts[i], to); err != nil {
			return r, nil, err
		}
		first += counts[i]
	}
	return r, outputs, nil
}

// columns allocates the columns of a result of n groups, and clears their bitmaps.
func (g *gpuGroups) columns(ctx context.Context, r *ResultOn, n int, columns []resultColumn) (keys []groups.KeyOutput, outputs []groups.Output, err error) {
	s := g.tables()[0].Stream()
	add := func(to *[]column.On, t column.Type, nulls bool) (at, valid device.Ptr, err error) {
		c, err := column.MakeOn(g.dev, t, n, nulls)
		if err != nil {
			return 0, 0, err
		}
		*to = append(*to, c)
		bits, _ := c.Valid()
		return c.Buffer().Ptr, bits.Ptr(), s.Fill(bits.Ptr(), 0, bits.Len()/4)
	}
	for i, t := range g.l.keys {
		var o groups.KeyOutput
		if o.Column, o.Valid, err = add(&r.Keys, t, g.hadNulls[i] && !g.opts.SkipNulls); err != nil {
			return nil, nil, err
		}
		keys = append(keys, o)
	}
	for _, c := range columns {
		o := groups.Output{Aggregate: c.agg, OverflowRow: -1}
		if o.Column, o.Valid, err = add(&r.Values, c.typ, g.mayBeNull(c.agg)); err != nil {
			return nil, nil, err
		}
		outputs = append(outputs, o)
	}
	return keys, outputs, s.Sync(ctx)
}

// mayBeNull reports whether an aggregate may be null for some group.
func (g *gpuGroups) mayBeNull(a groups.Aggregate) bool {
	if a.Func == groups.CountRows || a.Func == groups.CountOf {
		return false
	}
	for _, t := range g.tables() {
		if t.Nulls(a.Column) {
			return true
		}
	}
	return false
}

// free frees a result. It first waits for all work, even if ctx has ended, as copies may be in
// progress.
func (g *gpuGroups) free(ctx context.Context, r *ResultOn) (err error) {
	for _, t := range g.tables() {
		err = errors.Join(err, t.Stream().Sync(context.WithoutCancel(ctx)))
	}
	return errors.Join(err, r.Free())
}

// checkSums returns an error if a sum needs more than 64 bits. The error names one group.
func (g *gpuGroups) checkSums(ctx context.Context, r *ResultOn, outputs []groups.Output) error {
	for i, o := range outputs {
		if o.OverflowRow < 0 || g.opts.WrapSums {
			continue
		}
		var key []column.Column
		for _, c := range r.Keys {
			one, err := c.Slice(o.OverflowRow, o.OverflowRow+1).Download(ctx, g.tables()[0].Stream())
			if err != nil {
				return err
			}
			key = append(key, one)
		}
		return &OverflowError{g.funcs[i].Column, g.l.values[g.funcs[i].Column], keyText(key, 0)}
	}
	return nil
}

func (g *gpuGroups) result(ctx context.Context) (r *Result, err error) {
	if r, err = g.download(ctx); err != nil {
		return nil, err
	}
	return sortedByKeys(ctx, r)
}

// sortedByKeys returns a result in ascending order of its keys. All cores of the host sort it.
func sortedByKeys(ctx context.Context, r *Result) (_ *Result, err error) {
	host, err := cpu.Open(nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	return sorted(ctx, host, r, ascending(0, len(r.Keys)))
}

// download returns the result in host memory, in no order.
func (g *gpuGroups) download(ctx context.Context) (r *Result, err error) {
	on, err := g.resultOn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.free(ctx, on)) }()
	r = &Result{}
	s := g.tables()[0].Stream()
	for _, c := range []struct {
		from []column.On
		to   *[]column.Column
	}{{on.Keys, &r.Keys}, {on.Values, &r.Values}} {
		for _, from := range c.from {
			local, err := from.Download(ctx, s)
			if err != nil {
				return nil, err
			}
			*c.to = append(*c.to, local)
		}
	}
	return r, nil
}
