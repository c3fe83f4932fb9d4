package shard

import (
	"math"
	"slices"

	"github.com/weftgo/weft"
)

// combining is the way to combine rows of a hot key to one row before the exchange.
type combining uint8

const (
	combineNone   combining = iota
	combineAny              // any row represents all, and all have its answer
	combineFirst            // the first row represents all
	combineLast             // the last row represents all
	combineValues           // one row has the values of all
)

// A sample of the rows shows which keys are hot: those with minHits rows of it. They are combined
// if together they have 1/hotShare of the sample. maxHot keys and their table stay in the
// first-level caches. Of 2^23 rows of a Zipf distribution with exponent 1, this combines about a
// half.
const (
	maxSample = 1 << 13
	sampleOne = 32 // a row of 32
	minHits   = 4
	maxHot    = maxSample / minHits
	hotShare  = 8
	hotTable  = 4 * maxHot

	// hotRoute is larger than all ranks. Routes from here on are hot keys.
	hotRoute = 1 << 15
)

// noRow is no row of a batch.
const noRow = math.MaxUint32

// hotKeys holds the keys of a batch with many rows.
type hotKeys struct {
	n     int
	table []uint16 // by hash: the number of a key, from 1
	words []uint64 // of keys
	rows  []uint32 // the row that represents the key
	ranks []uint16
	place []uint32 // in send order
	seen  []uint32 // by share and key: the row that represents it, or noRow

	sample []sampled
}

// sampled is a key of the sample.
type sampled struct {
	word uint64
	row  uint32
	hits uint32
}

// places returns the places of hot keys in send order.
func (h *hotKeys) places() []uint32 { return h.place[:h.n] }

// hotAt returns final bits of a hash. The choice of ranks does not depend on them, except for very
// many ranks.
func hotAt(h uint64) uint64 { return h >> 36 }

// findHot finds hot keys in a sample of the rows.
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

// keep makes the table of hot keys of the sample.
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

// find returns the number of a hot key.
func (h *hotKeys) find(hash, word uint64) (i int, ok bool) {
	for at := hotAt(hash) % hotTable; h.table[at] != 0; at = (at + 1) % hotTable {
		if i := int(h.table[at]) - 1; h.words[i] == word {
			return i, true
		}
	}
	return 0, false
}

// routeHot finds the ranks of a share of rows, and the rows of hot keys among them.
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

// count finds the row that represents each hot key, and counts it for its rank.
func (h *hotKeys) count(p *owners, counts []uint32, combine combining) {
	for i := range h.n {
		rank := p.of(h.words[i], keyHash(slotStart, h.words[i]), len(counts))
		h.ranks[i] = uint16(rank)
		counts[rank]++
	}
	for at, row := range h.seen { // shares ascend
		if i := at % h.n; row != noRow && (combine == combineLast || row < h.rows[i]) {
			h.rows[i] = row
		}
	}
}

// write sets the places of hot keys.
func (h *hotKeys) write(next []uint32) {
	for i, rank := range h.ranks[:h.n] {
		h.place[i] = next[rank]
		next[rank]++
	}
}

// sendReduced is sendColumn of values that are combined.
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

// combine returns the combination of two values. Bits of floats have none.
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
