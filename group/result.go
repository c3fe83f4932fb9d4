package group

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/weftgo/weft/column"
)

// ErrOverflow: a sum of integers needs more than 64 bits.
var ErrOverflow = errors.New("sum does not fit 64 bits")

// OverflowError is an [ErrOverflow] that says which sum it is.
type OverflowError struct {
	Column int // of the values
	Type   column.Type
	Key    string // of the group, as text
}

func (e *OverflowError) Unwrap() error { return ErrOverflow }

func (e *OverflowError) Error() string {
	return fmt.Sprintf("%v: of value column %d, %v, in the group of key %s; Options.WrapSums lets it wrap", ErrOverflow, e.Column, e.Type, e.Key)
}

// Result is groups as columns of one length: the values of each key column, and of each aggregate. They are
// memory of their own.
type Result struct {
	Keys, Values []column.Column
}

// Len is the number of groups.
func (r *Result) Len() int { return length(r.Keys, r.Values) }

// Result receives the aggregates of all groups so far; more rows may be added behind it. Before the first batch there
// are no key columns, and those of aggregates have no type. A sum of integers that needs more than 64 bits is an
// [OverflowError], which names its group.
func (g *Groups) Result(ctx context.Context) (*Result, error) {
	g.turn.Lock()
	defer g.turn.Unlock()
	if err := g.usable(); err != nil {
		return nil, fmt.Errorf("group: Result: %w", err)
	}
	if g.l == nil {
		return &Result{Values: make([]column.Column, len(g.aggs))}, nil
	}
	n := g.Len()
	var writers []*writer
	interned := g.rest.columns(g.l.keys)
	r := &Result{Keys: make([]column.Column, len(g.l.keys)), Values: make([]column.Column, len(g.l.readings))}
	// All keys, in the order of groups.
	ready := !g.coder.packs && !g.ahead && g.packed.groups() == 0 && n == interned[0].Len()
	for i, t := range g.l.keys {
		if !ready {
			writers = append(writers, newWriter(t, n, g.keyReader(i, interned[i])))
		}
	}
	for _, a := range g.l.readings {
		writers = append(writers, newWriter(typeOf(a, g.l), n, g.valueReader(a)))
	}
	err := g.fill(ctx, writers, 0, n)
	if err != nil {
		return nil, fmt.Errorf("group: Result: %w", err)
	}
	columns := make([]column.Column, 0, len(r.Keys)+len(r.Values))
	if ready {
		columns = append(columns, interned...)
	}
	for _, w := range writers {
		columns = append(columns, w.column())
	}
	copy(r.Keys, columns)
	copy(r.Values, columns[len(r.Keys):])
	if err := g.checkSums(r.Keys); err != nil {
		return nil, fmt.Errorf("group: Result: %w", err)
	}
	switch {
	case g.opts.Sorted:
		r, err = sorted(ctx, g.dev, r, r.Keys)
	case g.l.ordered:
		w := newWriter(column.Uint64, n, stateColumn{slot: g.l.sources[0].slots[0], source: -1}.reader())
		if err = g.fill(ctx, []*writer{w}, 0, n); err == nil {
			r, err = sorted(ctx, g.dev, r, []column.Column{w.column()})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("group: Result: %w", err)
	}
	return r, nil
}

// typeOf is the type of an aggregate.
func typeOf(r reading, l *layout) column.Type {
	if r.fn == Rows {
		return column.Int64
	}
	return resultType(r.fn, l.sources[r.source].typ)
}

// resultType is the type of a function of values of a type.
func resultType(f Func, t column.Type) column.Type {
	switch {
	case f == Rows || f == Count:
		return column.Int64
	case f == Mean:
		return column.Float64
	case f != Sum:
		return t
	case t.Signed():
		return column.Int64
	case t.Integer():
		return column.Uint64
	}
	return column.Float64
}

// checkSums looks for sums of more than 64 bits, and names the group of the first.
func (g *Groups) checkSums(keys []column.Column) error {
	if g.opts.WrapSums {
		return nil
	}
	group, agg := uint64(math.MaxUint64), 0
	for _, p := range g.parts() {
		for word := range p.carry {
			slot := int(word) % p.l.stride()
			order := p.orders[p.at(int(word)-slot)]
			for i, r := range g.l.readings {
				if r.fn == Sum && r.slot.at == slot && order < group {
					group, agg = order, i
				}
			}
		}
	}
	if group == math.MaxUint64 {
		return nil
	}
	s := g.l.sources[g.l.readings[agg].source]
	return &OverflowError{s.col, s.typ, keyText(keys, int(group))}
}

// keyText shows the key of a group.
func keyText(keys []column.Column, group int) string {
	s := "("
	for i, c := range keys {
		if i > 0 {
			s += ", "
		}
		switch v := c.Any(group).(type) {
		case nil:
			s += "null"
		case string:
			s += fmt.Sprintf("%q", v)
		default:
			s += fmt.Sprint(v)
		}
	}
	return s + ")"
}

// parts are those of both tables.
func (g *Groups) parts() []*part {
	return append(g.packed.parts[:len(g.packed.parts):len(g.packed.parts)], g.other.parts...)
}
