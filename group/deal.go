package group

import (
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
)

// mostDealt is how many sources move with their rows; values of others are read where they are,
// a cache line for each.
const mostDealt = 4

// deal deals rows out to their parts, and has cores add those of a part each.
func (t *table) deal(dev device.Host, s *scratch, b batch, coming int) {
	n, parts, cores := b.n, len(t.parts), dev.Properties().Units
	share := max((n+4*cores-1)/(4*cores), directRows)
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
	to := batch{
		l: b.l, n: n, codes: lend[uint64](s, n), rows: lend[uint32](s, n), values: b.values, words: s.words(b.l, b),
	}
	dev.Parallel(n, share, func(lo, hi int) {
		k, place := s.block(), places[lo/share*parts:][:parts]
		for ; lo < hi; lo += blockRows {
			t.dealBlock(k, place, b.sub(lo, min(lo+blockRows, hi)), to)
		}
		s.blocks.Put(k)
	})
	expected := 0
	add := func(lo, hi int) {
		k := s.block()
		for i, p := range t.parts[lo:hi] {
			if expected > 2*p.n && t.store == nil {
				p.reserve(expected)
			}
			if from, end := int(begins[lo+i]), int(begins[lo+i+1]); from < end {
				p.add(k, to.sub(from, end), allGroups(t.l))
			}
		}
		s.blocks.Put(k)
	}
	// The first part tells how many groups there will be in others, which then need not grow.
	add(0, 1)
	rows := int(begins[1])
	expected = groupsOf(t.parts[0].n, rows, rows+rows*coming/n)
	expected += expected / 16
	dev.Parallel(parts-1, max(1, parts*directRows/n/4), func(lo, hi int) { add(lo+1, hi+1) })
}

// dealBlock moves rows to the next places of their parts.
func (t *table) dealBlock(k *block, place []uint32, b, to batch) {
	ats := k.ids[:b.n]
	for i, code := range b.codes {
		p := &place[code>>t.shift]
		at := *p
		*p = at + 1
		to.codes[at], ats[i] = code, at
	}
	for i, at := range ats {
		to.rows[at] = uint32(rowOf(b.rows, b.base, i))
	}
	for i, dealt := range to.words {
		if dealt == nil {
			continue
		}
		words := load(k.words[:len(ats)], b.values[b.l.sources[i].col], b.rows, b.base)
		for j, at := range ats {
			dealt[at] = words[j]
		}
	}
}

// words are places for the values of sources that move with their rows.
func (s *scratch) words(l *layout, b batch) [][]uint64 {
	words, n := make([][]uint64, len(l.sources)), 0
	for i, x := range l.sources {
		if n < mostDealt && len(x.slots) > 0 && x.typ != column.Bytes && !b.values[x.col].HasNulls() {
			words[i] = lend[uint64](s, b.n)
			n++
		}
	}
	return words
}
