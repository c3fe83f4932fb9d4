package group

import (
	"math/bits"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
)

const (
	// fewGroups are combined by each core by itself: they fit its second-level cache.
	fewGroups = 1 << 13
	// manyParts is the number of parts where there are more; a core can write to as many
	// side by side.
	manyParts = 1 << 9
	// mostParts follow where parts of that number do not fit a cache.
	mostParts = 1 << 12
	// partGroups is how many groups of a part still fit.
	partGroups = 1 << 15
	// directRows are too few to wake other cores for.
	directRows = 1 << 12
	// windowRows for each core are combined before groups are counted; the first
	// window is a trial.
	firstWindow, windowRows = 1 << 15, 1 << 19
)

// table is groups in parts by the high bits of their mixed codes.
type table struct {
	l     *layout
	shift uint // of a mixed code, to its part
	parts []*part
	own   []*part // of cores, while there are few groups
}

func newTable(l *layout) *table {
	return &table{l: l, shift: 64, parts: []*part{newPart(l, 0)}}
}

// reserve makes an empty table fit for so many groups.
func (t *table) reserve(groups int) {
	n := 1
	if groups > fewGroups {
		n = manyParts
	}
	if groups > manyParts*partGroups {
		n = mostParts
	}
	t.cut(n, groups)
}

// cut makes so many parts, a power of two, with room for some groups together.
func (t *table) cut(n, groups int) {
	from := t.parts
	t.parts, t.shift = make([]*part, n), uint(64-bits.TrailingZeros(uint(n)))
	for i := range t.parts {
		t.parts[i] = newPart(t.l, groups/n)
	}
	for _, p := range from {
		for i := range p.n {
			t.parts[p.recs[p.rec(i)]>>t.shift].move(p, i)
		}
	}
	t.own = nil
}

func (t *table) groups() int {
	n := 0
	for _, p := range t.parts {
		n += p.n
	}
	return n
}

func (t *table) bytes() int64 {
	n := int64(0)
	for _, p := range t.parts {
		n += p.bytes()
	}
	for _, p := range t.own {
		n += p.bytes()
	}
	return n
}

// batch is rows on their way into a table.
type batch struct {
	codes  []uint64 // mixed
	rows   []uint32 // their numbers in the columns of values; nil: they count from base on
	base   int
	values []column.Column
}

// from is the rows from lo on.
func (b batch) from(lo int) batch { return b.sub(lo, len(b.codes)) }

func (b batch) sub(lo, hi int) batch {
	b.codes = b.codes[lo:hi]
	if b.rows != nil {
		b.rows = b.rows[lo:hi]
	}
	b.base += lo
	return b
}

// before is the rows with numbers less than n.
func (b batch) before(n int) batch {
	if b.rows != nil {
		n, _ = slices.BinarySearch(b.rows, uint32(n))
	}
	return b.sub(0, min(n, len(b.codes)))
}

// add adds rows.
func (t *table) add(dev device.Host, s *scratch, b batch) {
	if len(t.parts) == 1 {
		b = t.addFew(dev, s, b)
	}
	if len(b.codes) == 0 {
		return
	}
	switch n := t.groups(); {
	case len(t.parts) < manyParts:
		t.cut(manyParts, n)
	case len(t.parts) < mostParts && n > manyParts*partGroups:
		t.cut(mostParts, n)
	}
	t.deal(dev, s, b)
}

// addFew adds rows as long as there are few groups; left are those that it leaves.
func (t *table) addFew(dev device.Host, s *scratch, b batch) (left batch) {
	p, cores := t.parts[0], dev.Properties().Units
	for rows := firstWindow; len(b.codes) > 0 && p.n <= fewGroups; rows = min(2*rows, windowRows) {
		if cores == 1 || len(b.codes) < directRows {
			k := s.block()
			done := p.add(k, b.codes, b.rows, b.base, fewGroups+1, b.values)
			s.blocks.Put(k)
			return b.from(done)
		}
		window := b.sub(0, min(cores*rows, len(b.codes)))
		if !t.combine(dev, s, window) {
			break
		}
		b = b.from(len(window.codes))
	}
	return b
}

// combine has each core combine a share of rows, and merges what comes of it, in their order. It does
// nothing and reports false if there are too many groups.
func (t *table) combine(dev device.Host, s *scratch, b batch) bool {
	cores := dev.Properties().Units
	for len(t.own) < cores {
		t.own = append(t.own, newPart(t.l, 0))
	}
	share := (len(b.codes) + cores - 1) / cores
	few := make([]bool, cores)
	for i := range few {
		few[i] = true
	}
	dev.Parallel(len(b.codes), share, func(lo, hi int) {
		own, k := t.own[lo/share], s.block()
		own.reset()
		some := b.sub(lo, hi)
		few[lo/share] = own.add(k, some.codes, some.rows, some.base, fewGroups, some.values) == hi-lo
		s.blocks.Put(k)
	})
	for _, ok := range few {
		if !ok {
			return false
		}
	}
	k := s.block()
	for i := range (len(b.codes) + share - 1) / share {
		t.parts[0].merge(k, t.own[i])
	}
	s.blocks.Put(k)
	return true
}

// deal deals rows out to their parts, and has cores add those of a part each.
func (t *table) deal(dev device.Host, s *scratch, b batch) {
	n, parts := len(b.codes), len(t.parts)
	share := max((n+4*dev.Properties().Units-1)/(4*dev.Properties().Units), directRows)
	shares := (n + share - 1) / share
	places := s.places(shares * parts)
	dev.Parallel(n, share, func(lo, hi int) {
		count := places[lo/share*parts:][:parts]
		for _, code := range b.codes[lo:hi] {
			count[code>>t.shift]++
		}
	})
	begins := make([]uint32, parts+1)
	at := uint32(0)
	for p := range parts {
		begins[p] = at
		for i := range shares {
			count := &places[i*parts+p]
			*count, at = at, at+*count
		}
	}
	begins[parts] = at
	codes, rows := s.dealt(n)
	dev.Parallel(n, share, func(lo, hi int) {
		place := places[lo/share*parts:][:parts]
		for i := lo; i < hi; i++ {
			code := b.codes[i]
			p := &place[code>>t.shift]
			codes[*p], rows[*p] = code, uint32(rowOf(b.rows, b.base, i))
			*p++
		}
	})
	dev.Parallel(parts, max(1, parts*directRows/n/4), func(lo, hi int) {
		k := s.block()
		for p := lo; p < hi; p++ {
			if from, to := begins[p], begins[p+1]; from < to {
				t.parts[p].add(k, codes[from:to], rows[from:to], 0, allGroups(t.l), b.values)
			}
		}
		s.blocks.Put(k)
	})
}
