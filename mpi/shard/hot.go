package shard

import (
	"math"
	"slices"

	"github.com/weftgo/weft"
)

// combining selects how the rows of a hot key become one row before the exchange.
type combining uint8

const (
	combineNone   combining = iota
	combineAny              // send any row; its answer is the answer for all rows
	combineFirst            // send the first row
	combineLast             // send the last row
	combineValues           // send the combined values of all rows
)

// A key is hot if a sample of the rows contains it minHits times. Hot keys are combined if they
// make up 1/hotShare of the sample. maxHot is small enough for the keys and their table to stay in
// first-level caches. For 2^23 rows of a Zipf distribution with exponent 1, about half of the rows
// are combined.
const (
	maxSample = 1 << 13
	sampleOne = 32 // one of 32 rows is sampled
	minHits   = 4
	maxHot    = maxSample / minHits
	hotShare  = 8
	hotTable  = 4 * maxHot

	// Routes from hotRoute on stand for hot keys. hotRoute is larger than all ranks.
	hotRoute = 1 << 15
)

// noRow marks a hot key without a row.
const noRow = math.MaxUint32

type hotKeys struct {
	n     int
	table []uint16 // hash table of indexes of keys, plus 1
	words []uint64 // keys
	rows  []uint32 // row that is sent for each key
	ranks []uint16
	place []uint32 // index of each key in send order
	seen  []uint32 // row that represents each key in each share, or noRow

	sample []sampled
}

type sampled struct {
	word uint64
	row  uint32
	hits uint32
}

func (h *hotKeys) places() []uint32 { return h.place[:h.n] }

// hotAt returns the bits from 36 on of a hash that keyHash returned, because lower bits are not
// final. Tables use the low bits of the result, up to hash bit 50. The rank depends on higher bits
// only, unless ranks are very many.
func hotAt(h uint64) uint64 { return h >> 36 }

func findHot[K weft.Key](x *exchange, keys []K, combine combining) {
	h := &x.hot
	h.n, h.seen = 0, h.seen[:0]
	sample := min(len(keys)/sampleOne, maxSample)
	if combine == combineNone || sample < maxSample/16 {
		return
	}
	if h.sample == nil {
		h.sample = make([]sampled, 4*maxSample)
	}
	clear(h.sample)
	stride, hits, found := len(keys)/sample, 0, 0
	for i := range sample {
		row := i * stride
		word := uint64(keys[row])
		at := hotAt(keyHash(slotStart, word)) % uint64(len(h.sample))
		for h.sample[at].hits > 0 && h.sample[at].word != word {
			at = (at + 1) % uint64(len(h.sample))
		}
		s := &h.sample[at]
		s.word, s.row = word, uint32(row)
		switch s.hits++; {
		case s.hits == minHits:
			hits, found = hits+minHits, found+1
		case s.hits > minHits:
			hits++
		}
	}
	if hits*hotShare < sample {
		return
	}
	h.keep(found)
	if combine == combineFirst || combine == combineLast {
		shares := len(x.next)/x.r.size - 1
		h.seen = slices.Grow(h.seen, shares*h.n)[:shares*h.n]
		fill(h.seen, noRow)
	}
}

// keep stores the n hot keys of the sample in the table.
func (h *hotKeys) keep(n int) {
	if h.table == nil {
		h.table = make([]uint16, hotTable)
	}
	clear(h.table)
	h.words, h.rows = slices.Grow(h.words[:0], n)[:0], slices.Grow(h.rows[:0], n)[:0]
	for i := range h.sample {
		s := &h.sample[i]
		if s.hits < minHits {
			continue
		}
		at := hotAt(keyHash(slotStart, s.word)) % hotTable
		for h.table[at] != 0 {
			at = (at + 1) % hotTable
		}
		h.words, h.rows = append(h.words, s.word), append(h.rows, s.row)
		h.table[at] = uint16(len(h.words))
	}
	h.n = len(h.words)
	h.ranks = slices.Grow(h.ranks[:0], h.n)[:h.n]
	h.place = slices.Grow(h.place[:0], h.n)[:h.n]
}

func (h *hotKeys) find(hash, word uint64) (i int, ok bool) {
	for at := hotAt(hash) % hotTable; h.table[at] != 0; at = (at + 1) % hotTable {
		if i := int(h.table[at]) - 1; h.words[i] == word {
			return i, true
		}
	}
	return 0, false
}

// routeHot routes rows lo to hi-1 of a batch that has hot keys. It counts the rows with other keys
// for each rank.
func routeHot[K weft.Key](x *exchange, keys []K, lo, hi int, counts []uint32, combine combining) {
	h, size := &x.hot, x.r.size
	var seen []uint32
	if len(h.seen) > 0 {
		seen = h.seen[lo/x.share*h.n:][:h.n]
	}
	for i := lo; i < hi; i++ {
		word := uint64(keys[i])
		hash := keyHash(slotStart, word)
		if k, ok := h.find(hash, word); ok {
			x.route[i] = hotRoute | uint16(k)
			if combine == combineLast || combine == combineFirst && seen[k] == noRow {
				seen[k] = uint32(i)
			}
			continue
		}
		rank := x.owners.of(word, hash, size)
		x.route[i] = uint16(rank)
		counts[rank]++
	}
}

// count sets the rank of each hot key and the row that represents it, and counts that row for the
// rank.
func (h *hotKeys) count(p *owners, counts []uint32, combine combining) {
	for i := range h.n {
		rank := p.of(h.words[i], keyHash(slotStart, h.words[i]), len(counts))
		h.ranks[i] = uint16(rank)
		counts[rank]++
	}
	for at, row := range h.seen { // in ascending order of shares
		if i := at % h.n; row != noRow && (combine == combineLast || row < h.rows[i]) {
			h.rows[i] = row
		}
	}
}

func (h *hotKeys) write(next []uint32) {
	for i, rank := range h.ranks[:h.n] {
		h.place[i] = next[rank]
		next[rank]++
	}
}

// sendReduced sends a column of values. The values of each hot key are combined by op.
func sendReduced[V weft.Value](x *exchange, out int, vals []V, op weft.Reduction) []V {
	if x.err != nil || x.hot.n == 0 {
		return sendColumn(x, out, vals)
	}
	h := &x.hot
	type sum struct {
		val V
		set bool
	}
	sums := make([]sum, (len(x.next)/x.r.size-1)*h.n)
	add := func(to *sum, val V) {
		if !to.set {
			*to = sum{val, true}
			return
		}
		to.val = combine(op, to.val, val)
	}
	x.r.dev.Parallel(x.n, x.share, func(lo, hi int) {
		sums := sums[lo/x.share*h.n:][:h.n]
		for i, route := range x.route[lo:hi] {
			if route >= hotRoute {
				add(&sums[route-hotRoute], vals[lo+i])
			}
		}
	})
	send := buffer[V](x, out, x.sentSum)
	scatter(x, vals, send)
	for at, s := range sums[h.n:] {
		if s.set {
			add(&sums[at%h.n], s.val)
		}
	}
	for i, place := range h.places() {
		send[place] = sums[i].val
	}
	return exchangeColumn(x, send, x.sent, buffer[V](x, out+1, x.receivedSum), x.received)
}

// combine combines two values. And and Or are not defined for floats.
func combine[V weft.Value](op weft.Reduction, a, b V) V {
	switch op {
	case weft.Sum:
		return a + b
	case weft.Min:
		return min(a, b)
	case weft.Max:
		return max(a, b)
	case weft.And:
		return V(uint64(a) & uint64(b))
	}
	return V(uint64(a) | uint64(b))
}
