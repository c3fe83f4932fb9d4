package group

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/groups"
)

// typesOn are the types of columns as kernels know them.
var typesOn = map[column.Type]groups.Type{
	column.Int8: groups.Int8, column.Uint8: groups.Uint8, column.Int16: groups.Int16, column.Uint16: groups.Uint16,
	column.Int32: groups.Int32, column.Uint32: groups.Uint32, column.Int64: groups.Int64, column.Uint64: groups.Uint64,
	column.Bool: groups.Bool, column.Float32: groups.Float32, column.Float64: groups.Float64,
}

// gpuOn is groups on a GPU: in one table those whose keys are one word, in another those whose keys have numbers.
type gpuOn struct {
	dev   device.Device
	funcs []Aggregate
	opts  Options

	l     *layout
	aggs  []groups.Aggregate // the same as kernels know them
	keys  groups.Keys        // of one word
	packs bool               // all keys without nulls are one word
	nulls bool               // and there are bits for nulls
	null  []bool             // by key column: there have been nulls
	rows  int
	sizes groups.Options // of tables and indexes; tests take small ones

	packed, other *groups.Table // nil: there has been no such key
	numbers       *groups.Numbers
}

func (g *gpuOn) open(l *layout) (err error) {
	types := make([]groups.Type, len(l.keys))
	for i, t := range l.keys {
		types[i] = typesOn[t]
	}
	g.keys = groups.KeysOf(types, !g.opts.SkipNulls)
	g.nulls = !g.opts.SkipNulls && g.keys.Words() == 1
	if !g.nulls {
		g.keys = groups.KeysOf(types, false)
	}
	g.packs = g.keys.Words() == 1
	g.l, g.null, g.aggs = l, make([]bool, len(l.keys)), nil
	for _, a := range g.funcs {
		known := groups.Aggregate{}
		if a.Func != Rows {
			t := l.values[a.Column]
			known = groups.Aggregate{Func: kernelFunc(a.Func, t), Type: typesOn[t], Column: a.Column}
		}
		g.aggs = append(g.aggs, known)
	}
	if g.packs {
		g.packed, err = groups.New(g.dev, groups.LayoutOf(g.keys, g.aggs), g.sized(g.opts.Capacity))
	} else {
		err = g.openOther(types, g.opts.Capacity)
	}
	if err != nil {
		return errors.Join(err, g.close())
	}
	return nil
}

// openOther makes the table of keys that have numbers.
func (g *gpuOn) openOther(types []groups.Type, capacity int) (err error) {
	o := g.sized(capacity)
	if g.other, err = groups.New(g.dev, groups.LayoutOf(groups.Keys{}, g.aggs), o); err != nil {
		return err
	}
	g.numbers, err = groups.NewNumbers(g.dev, types, o)
	return err
}

// sized are sizes with room for some groups.
func (g *gpuOn) sized(capacity int) groups.Options {
	o := g.sizes
	o.Capacity = capacity
	return o
}

// kernelFunc is a function of values of a type as kernels know it.
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
	r := groups.Rows{N: n, Keys: columnsOn(keys), Values: columnsOn(values), Before: g.rows}
	for i := range r.Values {
		if !slices.ContainsFunc(g.funcs, func(a Aggregate) bool { return a.Func != Rows && a.Column == i }) {
			r.Values[i].Valid = 0 // nobody asks
		}
	}
	nulls := false
	for i, c := range keys {
		if c.HasNulls() {
			nulls, g.null[i] = true, true
		}
	}
	g.rows += n
	err := g.addRows(s, r, nulls)
	if errors.Is(err, groups.ErrRange) {
		return fmt.Errorf("%w: one goes over 2^94", ErrOverflow)
	}
	return err
}

// addRows adds rows to the tables; nulls: there may be some among keys.
func (g *gpuOn) addRows(s *device.Stream, r groups.Rows, nulls bool) error {
	apart := nulls && !(g.packs && g.nulls) // rows with a null have no key of one word, or are skipped
	if g.packs {
		if apart {
			r.Filter = groups.WithoutNulls
		}
		if err := g.packed.Add(s, r); err != nil || !apart || g.opts.SkipNulls {
			return err
		}
		if r.Filter = groups.WithNulls; g.other == nil {
			types := make([]groups.Type, len(r.Keys))
			for i, c := range r.Keys {
				types[i] = c.Type
			}
			if err := g.openOther(types, 0); err != nil {
				return err
			}
		}
	} else if g.opts.SkipNulls && nulls {
		r.Filter = groups.WithoutNulls
	}
	return g.numbers.Number(s, r, func(r groups.Rows) error { return g.other.Add(s, r) })
}

// columnsOn are columns as kernels know them.
func columnsOn(columns []column.On) []groups.Column {
	known := make([]groups.Column, len(columns))
	for i, c := range columns {
		bits, offset := c.Valid()
		known[i] = groups.Column{Type: typesOn[c.Type()], Values: c.Buffer().Ptr, Valid: bits.Ptr(), Offset: offset}
	}
	return known
}

// tables are those there are.
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
	g.packed, g.other, g.numbers = nil, nil, nil
	return err
}
