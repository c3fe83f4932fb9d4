package group

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/spill"
)

// ErrOverflow is the error of a sum of integers that needs more than 64 bits.
var ErrOverflow = errors.New("sum does not fit 64 bits")

// OverflowError wraps [ErrOverflow] and identifies the sum.
type OverflowError struct {
	Column int // index of the value column
	Type   column.Type
	Key    string // key of the group, as text
}

func (e *OverflowError) Unwrap() error { return ErrOverflow }

func (e *OverflowError) Error() string {
	return fmt.Sprintf("%v: of value column %d, %v, in the group of key %s; Options.WrapSums lets it wrap", ErrOverflow, e.Column, e.Type, e.Key)
}

// Result holds groups as columns of equal length: one for each key, and one for each aggregate. The
// columns share no memory with groups.
type Result struct {
	Keys, Values []column.Column
}

// Len returns the number of groups.
func (r *Result) Len() int { return length(r.Keys, r.Values) }

// Result returns the aggregates of all groups so far. More rows may be added afterwards. Before the
// first batch it returns no key columns, and columns without a type for aggregates. A sum of
// integers that needs more than 64 bits is an [OverflowError], which names its group.
//
// If groups went to the temporary file, Result reads all groups from there. They then have the
// order of partitions, unless they are sorted or their rows have ordinals.
func (g *Groups) Result(ctx context.Context) (*Result, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.prepareRead(ctx)
	var r *Result
	if err == nil {
		r, err = g.result(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("group: Result: %w", err)
	}
	return r, nil
}

func (g *Groups) result(ctx context.Context) (*Result, error) {
	if g.l == nil {
		return &Result{Values: make([]column.Column, len(g.aggs))}, nil
	}
	var pieces []*Result
	err := g.visit(ctx, func(t *Groups) error {
		r, err := t.read(ctx, t.interned(), 0, t.resident)
		pieces = append(pieces, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	r, err := concat(pieces)
	if err == nil && (g.opts.Sorted || g.l.ordered) {
		r, err = sorted(ctx, g.dev, r, g.sortKeys())
	}
	if err != nil {
		return nil, err
	}
	return g.withoutOrdinals(r), nil
}

// withoutOrdinals removes the column of ordinals that read appends.
func (g *Groups) withoutOrdinals(r *Result) *Result {
	return &Result{Keys: r.Keys, Values: r.Values[:len(g.aggs)]}
}

// read returns the groups in memory at places lo to hi-1. If rows have ordinals, a column with the
// least ordinal of each group follows the values.
func (g *Groups) read(ctx context.Context, k internedKeys, lo, hi int) (*Result, error) {
	keys, writers := g.keys(k, lo, hi)
	r := &Result{Keys: keys}
	for _, a := range g.l.readings {
		writers = append(writers, newWriter(typeOf(a, g.l), hi-lo, g.valueReader(a)))
	}
	if g.l.ordered {
		ordinal := stateColumn{slot: g.l.sources[0].slots[0], source: -1}
		writers = append(writers, newWriter(column.Uint64, hi-lo, ordinal.reader()))
	}
	if err := g.writeColumns(ctx, writers, lo, hi-lo); err != nil {
		return nil, err
	}
	for _, w := range writers {
		if len(r.Keys) < len(g.l.keys) {
			r.Keys = append(r.Keys, w.column())
		} else {
			r.Values = append(r.Values, w.column())
		}
	}
	return r, g.checkSums(r.Keys, lo, hi)
}

// concat returns the groups of all results, one result after another.
func concat(pieces []*Result) (*Result, error) {
	pages := make([][]column.Column, len(pieces))
	for i, r := range pieces {
		pages[i] = slices.Concat(r.Keys, r.Values)
	}
	all, err := spill.Join(pages)
	if err != nil {
		return nil, err
	}
	keys := len(pieces[0].Keys)
	return &Result{Keys: all[:keys:keys], Values: all[keys:]}, nil
}

// typeOf returns the type of an aggregate.
func typeOf(r reading, l *layout) column.Type {
	if r.fn == Rows {
		return column.Int64
	}
	return resultType(r.fn, l.sources[r.source].typ)
}

// resultType returns the type of a function of values of type t.
func resultType(f Func, t column.Type) column.Type {
	switch {
	case f == Rows || f == Count:
		return column.Int64
	case f == Mean || f.isSpread():
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

// checkSums returns an error if a sum of the groups at places lo to hi-1 needs more than 64 bits.
// keys are the keys of these groups. The error names the first such group.
func (g *Groups) checkSums(keys []column.Column, lo, hi int) error {
	if g.opts.WrapSums {
		return nil
	}
	group, agg := uint64(math.MaxUint64), 0
	for _, p := range g.parts() {
		for word := range p.carry {
			slot := int(word) % p.l.stride()
			order := p.orders[p.at(int(word)-slot)]
			for i, r := range g.l.readings {
				if r.fn == Sum && r.slot.offset == slot && order < group && order >= uint64(lo) &&
					order < uint64(hi) {
					group, agg = order, i
				}
			}
		}
	}
	if group == math.MaxUint64 {
		return nil
	}
	s := g.l.sources[g.l.readings[agg].source]
	return &OverflowError{s.col, s.typ, keyText(keys, int(group)-lo)}
}

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

func (g *Groups) parts() []*part {
	return append(g.packed.parts[:len(g.packed.parts):len(g.packed.parts)], g.numbered.parts...)
}
