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

// kernelTypes maps column types to kernel types.
var kernelTypes = map[column.Type]groups.Type{
	column.Int8: groups.Int8, column.Uint8: groups.Uint8, column.Int16: groups.Int16, column.Uint16: groups.Uint16,
	column.Int32: groups.Int32, column.Uint32: groups.Uint32, column.Int64: groups.Int64, column.Uint64: groups.Uint64,
	column.Bool: groups.Bool, column.Float32: groups.Float32, column.Float64: groups.Float64,
}

// gpuGroups implements deviceGroups on a GPU. It has a table for keys of one word, and one for
// numbered keys.
type gpuGroups struct {
	dev   device.Device
	funcs []Aggregate
	opts  Options

	l        *layout
	aggs     []groups.Aggregate // funcs in the form of kernels
	keys     groups.Keys        // layout of keys of one word
	packable bool               // keys without nulls fit one word
	nullBits bool               // the word also has bits for nulls
	hadNulls []bool             // by key column: whether it has had nulls
	rows     int
	sizes    groups.Options // sizes of tables and indexes; smaller in tests

	packed, numbered *groups.Table // nil until a key needs it
	numbers          *groups.Numbers

	work   *device.Stream // stream for host columns; nil before the first
	feed   *feed.Feed
	piece  int              // bytes of a piece; 0: the default
	part   *partitionFilter // selects rows of host columns; nil: all rows
	nulled []int            // value columns with nulls that tables count from the start
}

func (g *gpuGroups) open(l *layout) error {
	g.bind(l)
	return g.allocate()
}

// keyTypes returns the kernel types of the key columns.
func (g *gpuGroups) keyTypes() []groups.Type {
	types := make([]groups.Type, len(g.l.keys))
	for i, t := range g.l.keys {
		types[i] = kernelTypes[t]
	}
	return types
}

// bind sets the layout of keys and aggregates.
func (g *gpuGroups) bind(l *layout) {
	g.l, g.hadNulls, g.aggs = l, make([]bool, len(l.keys)), nil
	types := g.keyTypes()
	g.keys = groups.KeysOf(types, !g.opts.SkipNulls)
	g.nullBits = !g.opts.SkipNulls && g.keys.Words() == 1
	if !g.nullBits {
		g.keys = groups.KeysOf(types, false)
	}
	g.packable = g.keys.Words() == 1
	for _, a := range g.funcs {
		agg := groups.Aggregate{}
		if a.Func != Rows {
			t := l.values[a.Column]
			agg = groups.Aggregate{Func: kernelFunc(a.Func, t), Type: kernelTypes[t], Column: a.Column}
		}
		g.aggs = append(g.aggs, agg)
	}
}

// allocate makes the first tables.
func (g *gpuGroups) allocate() (err error) {
	if g.packable {
		g.packed, err = groups.New(g.dev, g.layout(g.keys), g.optionsFor(g.opts.Capacity))
	} else {
		err = g.openNumbered(g.opts.Capacity)
	}
	if err != nil {
		return errors.Join(err, g.close())
	}
	return nil
}

// layout returns the layout of a table with the given keys.
func (g *gpuGroups) layout(keys groups.Keys) groups.Layout {
	l := groups.LayoutOf(keys, g.aggs)
	for _, i := range g.nulled {
		l.Fields = append(l.Fields, groups.Field{Op: groups.Nulls, Type: kernelTypes[g.l.values[i]],
			Column: i})
	}
	return l
}

// openNumbered makes the table for numbered keys, and their index.
func (g *gpuGroups) openNumbered(capacity int) (err error) {
	o := g.optionsFor(capacity)
	if g.numbered, err = groups.New(g.dev, g.layout(groups.Keys{}), o); err != nil {
		return err
	}
	g.numbers, err = groups.NewNumbers(g.dev, g.keyTypes(), o)
	return err
}

func (g *gpuGroups) optionsFor(capacity int) groups.Options {
	o := g.sizes
	o.Capacity = capacity
	return o
}

// kernelFunc returns the kernel function that computes f for values of type t.
func kernelFunc(f Func, t column.Type) groups.Func {
	switch {
	case f == Sum && t.Float():
		return groups.SumOfFloats
	case f == Mean && t.Float():
		return groups.MeanOfFloats
	}
	return [...]groups.Func{
		Rows: groups.CountRows, Count: groups.CountOf, Sum: groups.SumOf, Min: groups.MinOf, Max: groups.MaxOf, Mean: groups.MeanOf,
		First: groups.FirstOf, Last: groups.LastOf, Any: groups.FirstOf, AnyTrue: groups.MaxOf, AllTrue: groups.MinOf,
	}[f]
}

func (g *gpuGroups) add(s *device.Stream, keys, values []column.On, n int) error {
	r := groups.Rows{N: n, Keys: kernelColumns(keys), Values: kernelColumns(values)}
	for i := range r.Values {
		if !g.reads(i) {
			r.Values[i].Valid = 0
		}
	}
	return g.addColumns(s, r)
}

// reads reports whether an aggregate reads a value column.
func (g *gpuGroups) reads(column int) bool {
	return slices.ContainsFunc(g.funcs,
		func(a Aggregate) bool { return a.Func != Rows && a.Column == column })
}

// addColumns adds rows, which come after all earlier ones.
func (g *gpuGroups) addColumns(s *device.Stream, r groups.Rows) error {
	nulls := false
	for i, c := range r.Keys {
		if c.Valid != 0 {
			nulls, g.hadNulls[i] = true, true
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

// addRows adds rows to the tables. nulls reports whether keys may be null.
func (g *gpuGroups) addRows(s *device.Stream, r groups.Rows, nulls bool) error {
	// rows with a null do not fit one word, or are skipped
	splitNulls := nulls && !(g.packable && g.nullBits)
	if g.packable {
		if splitNulls {
			r.Filter = groups.WithoutNulls
		}
		if err := g.packed.Add(s, r); err != nil || !splitNulls || g.opts.SkipNulls {
			return err
		}
		if r.Filter = groups.WithNulls; g.numbered == nil {
			if err := g.openNumbered(0); err != nil {
				return err
			}
		}
	} else if g.opts.SkipNulls && nulls {
		r.Filter = groups.WithoutNulls
	}
	return g.numbers.Number(s, r, func(r groups.Rows) error { return g.numbered.Add(s, r) })
}

func kernelColumns(columns []column.On) []groups.Column {
	converted := make([]groups.Column, len(columns))
	for i, c := range columns {
		bits, offset := c.Valid()
		converted[i] = groups.Column{Type: kernelTypes[c.Type()], Values: c.Buffer().Ptr, Valid: bits.Ptr(), Offset: offset}
	}
	return converted
}

// tables returns the existing tables.
func (g *gpuGroups) tables() (all []*groups.Table) {
	for _, t := range []*groups.Table{g.packed, g.numbered} {
		if t != nil {
			all = append(all, t)
		}
	}
	return all
}

func (g *gpuGroups) close() (err error) {
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
	g.packed, g.numbered, g.numbers, g.feed, g.work, g.part = nil, nil, nil, nil, nil, nil
	return err
}
