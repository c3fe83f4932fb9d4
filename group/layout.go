package group

import (
	"fmt"
	"math"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/op"
)

// A group is a record of 64-bit words: its mixed code, the number of its rows, and the state of its
// aggregates. All values of fixed size are words in records: integers are sign- or zero-extended,
// floats are float64, and booleans are 0 and 1.
const (
	wordCode  = 0
	wordRows  = 1
	wordSlots = 2
)

// slotKind selects what a slot stores of the values of a column.
type slotKind uint8

const (
	sumSigned slotKind = iota
	sumUnsigned
	sumFloat
	minSigned
	minUnsigned
	minFloat
	maxSigned
	maxUnsigned
	maxFloat
	first // the value; without ordinals, also a word that is 1 if it is set
	last
	momentsSigned // moments.go
	momentsUnsigned
	momentsFloat
	minBytes // kinds from here on store byte strings, outside the record
	maxBytes
	firstBytes
	lastBytes
	addRows // kinds from here on add the state of another record: see state.go
	addNulls
	addCarry
	addLimb1 // to a word of a moment; the number is how many words take the carry
	addLimb2
	addLimb3
	addTerm1
	addTerm2
	addTerm3
)

func (k slotKind) isText() bool { return k >= minBytes && k <= lastBytes }

// isPositional reports whether the slot stores the first or the last value.
func (k slotKind) isPositional() bool {
	return k == first || k == last || k == firstBytes || k == lastBytes
}

// slot is the location of a value in a record: a word, or a byte string outside the record.
type slot struct {
	kind   slotKind
	offset int
	// ord is the word of the ordinal of the first or last value, or 0 if rows come in order.
	ord int
}

// source is a value column that aggregates read.
type source struct {
	col   int
	typ   column.Type
	slots []slot
	ord   int // column of ordinals, read only if a slot needs it
}

// reading describes how to read an aggregate from a record.
type reading struct {
	fn     Func
	source int  // not used by Rows
	slot   slot // not used by Rows and Count
}

// layout is the layout of a record. The first batch fixes it.
type layout struct {
	keys, values []column.Type
	sources      []source
	readings     []reading // by aggregate
	init         []uint64  // the record of a group without values
	texts        int       // number of byte strings per record
	// ordered: rows have ordinals, in a column after the values. Source 0 stores the least ordinal
	// of each group.
	ordered bool
	// ofStates: the values are states of groups, and the slots come from another layout.
	ofStates bool
}

func (l *layout) stride() int { return len(l.init) }

// newLayout returns the layout of records for aggregates. keys and values are the types of the
// columns. ordered is set if rows have ordinals.
func newLayout(aggs []Aggregate, keys, values []column.Type, ordered bool) (*layout, error) {
	l := &layout{keys: keys, values: values, init: make([]uint64, wordSlots), ordered: ordered}
	if ordered {
		l.sources = append(l.sources, source{col: len(values), typ: column.Uint64})
		l.slot(&l.sources[0], minUnsigned)
	}
	for i, t := range keys {
		if t == column.None {
			return nil, fmt.Errorf("%w: key column %d has no type", op.ErrOptions, i)
		}
	}
	for i, a := range aggs {
		r := reading{fn: a.Func}
		if a.Func == Rows {
			l.readings = append(l.readings, r)
			continue
		}
		if a.Column >= len(values) {
			return nil, fmt.Errorf("%w: aggregate %d is the %v of value column %d, but there are %d", op.ErrOptions, i, a.Func, a.Column, len(values))
		}
		r.source = l.source(a.Column)
		typ := values[a.Column]
		switch {
		case typ == column.None:
			return nil, fmt.Errorf("%w: value column %d has no type", op.ErrOptions, a.Column)
		case a.Func.numeric() && !typ.Integer() && !typ.Float():
			return nil, fmt.Errorf("%w: the %v of value column %d, which has %v; only integers and floats have one", op.ErrOptions, a.Func, a.Column, typ)
		case (a.Func == AnyTrue || a.Func == AllTrue) && typ != column.Bool:
			return nil, fmt.Errorf("%w: the %v of value column %d, which has %v; only bools have one",
				op.ErrOptions, a.Func, a.Column, typ)
		case a.Func != Count:
			r.slot = l.slot(&l.sources[r.source], kindOf(a.Func, typ))
		}
		l.readings = append(l.readings, r)
	}
	return l, nil
}

// source returns the index of the source for a column, and adds the source if it is missing.
func (l *layout) source(col int) int {
	for i, s := range l.sources {
		if s.col == col {
			return i
		}
	}
	l.sources = append(l.sources, source{col: col, typ: l.values[col], ord: len(l.values)})
	return len(l.sources) - 1
}

// slot returns the slot of a kind, and adds it if it is missing. Aggregates share slots.
func (l *layout) slot(s *source, kind slotKind) slot {
	for _, x := range s.slots {
		if x.kind == kind {
			return x
		}
	}
	added := slot{kind: kind, offset: len(l.init)}
	if kind.isText() {
		added.offset = l.texts
		l.texts++
	} else {
		l.init = append(l.init, initial(kind))
	}
	switch {
	case kind.isMoments():
		l.init = append(l.init, make([]uint64, len(momentsState(added))-1)...)
	case !kind.isPositional():
	case l.ordered:
		added.ord = len(l.init)
		l.init = append(l.init, latest(kind))
	case kind == first:
		l.init = append(l.init, 0)
	}
	s.slots = append(s.slots, added)
	return added
}

// kindOf returns the kind of slot for a function of values of a type.
func kindOf(f Func, t column.Type) slotKind {
	text := t == column.Bytes
	of := func(signed slotKind) slotKind { // kinds are in the order signed, unsigned, float
		switch {
		case t.Signed():
			return signed
		case t.Float():
			return signed + 2
		}
		return signed + 1
	}
	switch {
	case f == Sum || f == Mean:
		return of(sumSigned)
	case f.isSpread():
		return of(momentsSigned)
	case f == AnyTrue:
		return maxUnsigned
	case f == AllTrue:
		return minUnsigned
	case f == Min && text:
		return minBytes
	case f == Max && text:
		return maxBytes
	case (f == First || f == Any) && text:
		return firstBytes
	case f == Last && text:
		return lastBytes
	case f == Min:
		return of(minSigned)
	case f == Max:
		return of(maxSigned)
	case f == First || f == Any:
		return first
	}
	return last
}

// initial returns the word of a slot before the first value: the neutral element of the kind.
func initial(kind slotKind) uint64 {
	switch kind {
	case minSigned:
		return math.MaxInt64
	case minUnsigned:
		return math.MaxUint64
	case minFloat:
		return math.Float64bits(math.Inf(1))
	case maxSigned:
		return 1 << 63
	case maxFloat:
		return math.Float64bits(math.Inf(-1))
	}
	return 0
}

// latest returns the initial ordinal of a slot. Every other ordinal replaces it.
func latest(kind slotKind) uint64 {
	if kind == first || kind == firstBytes {
		return math.MaxUint64
	}
	return 0
}
