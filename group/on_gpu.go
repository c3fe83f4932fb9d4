package group

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/feed"
	"github.com/weftgo/weft/internal/gpu/groups"
)

// typesOn maps the types of columns to those of kernels.
var typesOn = map[column.Type]groups.Type{
	column.Int8: groups.Int8, column.Uint8: groups.Uint8, column.Int16: groups.Int16, column.Uint16: groups.Uint16,
	column.Int32: groups.Int32, column.Uint32: groups.Uint32, column.Int64: groups.Int64, column.Uint64: groups.Uint64,
	column.Bool: groups.Bool, column.Float32: groups.Float32, column.Float64: groups.Float64,
}

// gpuOn is groups on a GPU: one table for keys of one word, another for keys with numbers.
type gpuOn struct {
	dev   device.Device
	funcs []Aggregate
	opts  Options

	l     *layout
	aggs  []groups.Aggregate // in the form of kernels
	keys  groups.Keys        // of one word
	packs bool               // all keys without nulls are one word
	nulls bool               // with bits for nulls
	null  []bool             // by key column: it has had nulls
	rows  int
	sizes groups.Options // of tables and indexes; tests use small ones

	packed, other *groups.Table // nil: no such key so far
	numbers       *groups.Numbers

	work   *device.Stream // for host columns; nil: none so far
	feed   *feed.Feed
	piece  int     // bytes of its pieces; 0: the default
	part   *partOn // of the rows of host columns; nil: all
	nulled []int   // value columns with nulls that tables count from the start
}

func (g *gpuOn) open(l *layout) error {
	g.bind(l)
	return g.allocate()
}

// keyTypes returns the types of key columns in the form of kernels.
func (g *gpuOn) keyTypes() []groups.Type {
	types := make([]groups.Type, len(g.l.keys))
	for i, t := range g.l.keys {
		types[i] = typesOn[t]
	}
	return types
}

// bind finds the layout of keys and aggregates.
func (g *gpuOn) bind(l *layout) {
	g.l, g.null, g.aggs = l, make([]bool, len(l.keys)), nil
	types := g.keyTypes()
	g.keys = groups.KeysOf(types, !g.opts.SkipNulls)
	g.nulls = !g.opts.SkipNulls && g.keys.Words() == 1
	if !g.nulls {
		g.keys = groups.KeysOf(types, false)
	}
	g.packs = g.keys.Words() == 1
	for _, a := range g.funcs {
		known := groups.Aggregate{}
		if a.Func != Rows {
			t := l.values[a.Column]
			known = groups.Aggregate{Func: kernelFunc(a.Func, t), Type: typesOn[t], Column: a.Column}
		}
		g.aggs = append(g.aggs, known)
	}
}

// allocate makes the first tables.
func (g *gpuOn) allocate() (err error) {
	if g.packs {
		g.packed, err = groups.New(g.dev, g.layout(g.keys), g.sized(g.opts.Capacity))
	} else {
		err = g.openOther(g.opts.Capacity)
	}
	if err != nil {
		return errors.Join(err, g.close())
	}
	return nil
}

// layout returns the layout of tables for keys.
func (g *gpuOn) layout(keys groups.Keys) groups.Layout {
	l := groups.LayoutOf(keys, g.aggs)
	for _, i := range g.nulled {
		l.Fields = append(l.Fields, groups.Field{Op: groups.Nulls, Type: typesOn[g.l.values[i]],
			Column: i})
	}
	return l
}

// openOther makes the table of keys with numbers.
func (g *gpuOn) openOther(capacity int) (err error) {
	o := g.sized(capacity)
	if g.other, err = groups.New(g.dev, g.layout(groups.Keys{}), o); err != nil {
		return err
	}
	g.numbers, err = groups.NewNumbers(g.dev, g.keyTypes(), o)
	return err
}

// sized returns sizes with room for some groups.
func (g *gpuOn) sized(capacity int) groups.Options {
	o := g.sizes
	o.Capacity = capacity
	return o
}

// kernelFunc returns a function of values of a type in the form of kernels.
func kernelFunc(f Func, t column.Type) groups.Func {
	switch {
	case f == Sum && t.Float():
		return groups.SumOfFloats
	case f == Mean && t.Float():
		return groups.MeanOfFloats
	}
	return [...]groups.Func{
		Rows: groups.CountRows, Count: groups.CountOf, Sum: groups.SumOf, Min: groups.Least, Max: groups.Greatest, Mean: groups.MeanOf,
		First: groups.First, Last: groups.Last,
	}[f]
}

func (g *gpuOn) add(s *device.Stream, keys, values []column.On, n int) error {
	r := groups.Rows{N: n, Keys: columnsOn(keys), Values: columnsOn(values)}
	for i := range r.Values {
		if !g.reads(i) {
			r.Values[i].Valid = 0
		}
	}
	return g.addColumns(s, r)
}

// reads reports whether an aggregate needs a value column.
func (g *gpuOn) reads(column int) bool {
	return slices.ContainsFunc(g.funcs,
		func(a Aggregate) bool { return a.Func != Rows && a.Column == column })
}

// addColumns adds rows after all earlier ones.
func (g *gpuOn) addColumns(s *device.Stream, r groups.Rows) error {
	nulls := false
	for i, c := range r.Keys {
		if c.Valid != 0 {
			nulls, g.null[i] = true, true
		}
	}
	r.Before = g.rows
	g.rows += r.N
	err := g.addRows(s, r, nulls)
	if errors.Is(err, groups.ErrRange) {
		return fmt.Errorf("%w: one goes over 2^94", ErrOverflow)
	}
	return err
}

// addRows adds rows to the tables. nulls says that keys may have nulls.
func (g *gpuOn) addRows(s *device.Stream, r groups.Rows, nulls bool) error {
	// rows with a null have no key of one word, or are skipped
	apart := nulls && !(g.packs && g.nulls)
	if g.packs {
		if apart {
			r.Filter = groups.WithoutNulls
		}
		if err := g.packed.Add(s, r); err != nil || !apart || g.opts.SkipNulls {
			return err
		}
		if r.Filter = groups.WithNulls; g.other == nil {
			if err := g.openOther(0); err != nil {
				return err
			}
		}
	} else if g.opts.SkipNulls && nulls {
		r.Filter = groups.WithoutNulls
	}
	return g.numbers.Number(s, r, func(r groups.Rows) error { return g.other.Add(s, r) })
}

// columnsOn returns columns in the form of kernels.
func columnsOn(columns []column.On) []groups.Column {
	known := make([]groups.Column, len(columns))
	for i, c := range columns {
		bits, offset := c.Valid()
		known[i] = groups.Column{Type: typesOn[c.Type()], Values: c.Buffer().Ptr, Valid: bits.Ptr(), Offset: offset}
	}
	return known
}

// tables returns the tables that exist.
func (g *gpuOn) tables() (all []*groups.Table) {
	for _, t := range []*groups.Table{g.packed, g.other} {
		if t != nil {
			all = append(all, t)
		}
	}
	return all
}

func (g *gpuOn) close() (err error) {
	for _, t := range g.tables() {
		err = errors.Join(err, t.Close())
	}
	if g.numbers != nil {
		err = errors.Join(err, g.numbers.Close())
	}
	if g.feed != nil {
		err = errors.Join(err, g.feed.Close())
	}
	if g.work != nil {
		err = errors.Join(err, g.work.Close())
	}
	if g.part != nil {
		err = errors.Join(err, g.part.free())
	}
	g.packed, g.other, g.numbers, g.feed, g.work, g.part = nil, nil, nil, nil, nil, nil
	return err
}
