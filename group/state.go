package group

import (
	"context"

	"github.com/weftgo/weft/column"
)

// stateColumn is a column of the state of groups. The state is all that another table needs to
// continue with the groups. It is a page of columns with a row for each group:
//
//	keys     as in a result
//	rows     uint64, the number of rows
//	ordinal  uint64, the least ordinal of the rows; only if rows have ordinals
//
// Then, for each value column that aggregates name, in the order in which they first name it:
//
//	nulls    uint64, the number of rows with a null value
//
// and for each slot of the column, as kindOf lists the kinds:
//
//	sum      int64 or uint64, and int64: the multiple of 2^64 to add. Sums have 128 bits.
//	         float64 for floats
//	min max  int64, uint64 or float64, for any width of the values; bytes
//	var      of integers: uint64 five times, the sum and the sum of squares, the lowest word first;
//	         of floats: float64 six times, three terms each
//	first    uint64, the word of a record, or bytes; then uint64, the ordinal, if rows have one
//	last     like first
//
// First, last, and extremes of bytes are null if all values of the group are null.
type stateColumn struct {
	typ    column.Type
	slot   slot // slot that adds a value to the record of a group
	source int  // the column is null if all values of this source are; -1: never
	// ordinal is set if the column holds the ordinals of the previous column, which has the same
	// slot.
	ordinal bool
}

// stateColumns lists the columns that follow the keys in a page of state.
func (l *layout) stateColumns() []stateColumn {
	all := []stateColumn{{typ: column.Uint64, slot: slot{kind: addRows, offset: wordRows}, source: -1}}
	for i, s := range l.sources {
		if !l.ordered || i > 0 {
			all = append(all, stateColumn{typ: column.Uint64, slot: slot{kind: addNulls, offset: i},
				source: -1})
		}
		for _, x := range s.slots {
			all = append(all, stateOf(i, x)...)
		}
	}
	return all
}

// stateOf lists the state columns of a slot.
func stateOf(source int, x slot) []stateColumn {
	col := stateColumn{typ: column.Uint64, slot: x, source: -1}
	switch x.kind {
	case sumSigned, minSigned, maxSigned:
		col.typ = column.Int64
	case sumFloat, minFloat, maxFloat:
		col.typ = column.Float64
	case minBytes, maxBytes, firstBytes, lastBytes:
		col.typ, col.source = column.Bytes, source
	case first, last:
		col.source = source
	}
	if x.kind.isMoments() {
		return momentsState(x)
	}
	all := []stateColumn{col}
	switch {
	case x.kind == sumSigned || x.kind == sumUnsigned:
		all = append(all, stateColumn{typ: column.Int64, slot: slot{kind: addCarry, offset: x.offset},
			source: -1})
	case x.ord > 0:
		all = append(all, stateColumn{typ: column.Uint64, slot: x, source: -1, ordinal: true})
	}
	return all
}

// newMergeLayout returns the layout of rows that are states. It uses the slots of l.
func (l *layout) newMergeLayout() *layout {
	m := &layout{keys: l.keys, ofStates: true}
	for i, c := range l.stateColumns() {
		m.values = append(m.values, c.typ)
		if !c.ordinal {
			m.sources = append(m.sources, source{col: i, typ: c.typ, slots: []slot{c.slot},
				ord: i + 1})
		}
	}
	return m
}

// statePage returns the state of the groups at places lo to hi-1.
func (g *Groups) statePage(ctx context.Context, k internedKeys, lo, hi int) ([]column.Column, error) {
	page, writers := g.keys(k, lo, hi)
	for _, c := range g.l.stateColumns() {
		writers = append(writers, newWriter(c.typ, hi-lo, c.reader()))
	}
	if err := g.writeColumns(ctx, writers, lo, hi-lo); err != nil {
		return nil, err
	}
	for _, w := range writers {
		page = append(page, w.column())
	}
	return page, nil
}

func (c stateColumn) reader() reader {
	if c.typ == column.Bytes {
		return textReader(c.source, c.slot.offset)
	}
	at := c.slot.offset
	if c.ordinal {
		at = c.slot.ord
	}
	return reader{words: func(r *run, b *readBuffer) bool {
		for j := range r.n {
			switch c.slot.kind {
			case addNulls:
				b.words[j] = r.p.nullCount(at, r.lo+j)
			case addCarry:
				b.words[j] = uint64(r.p.carry[uint32(r.p.rec(r.lo+j)+at)])
			default:
				b.words[j] = r.p.recs[r.p.rec(r.lo+j)+at]
			}
		}
		return c.source >= 0 && r.nulls(c.source, b)
	}}
}

// addPage adds a page of state. New groups come after the present ones.
func (g *Groups) addPage(ctx context.Context, page []column.Column) error {
	keys := len(g.l.keys)
	return g.addAll(ctx, g.mergeLayout, page[:keys], page[keys:], page[keys].Len())
}
