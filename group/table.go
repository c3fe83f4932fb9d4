package group

import (
	"math"
	"math/bits"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/hostmem"
)

const (
	// fewGroups are combined by each core by itself: they fit its second-level cache.
	fewGroups = 1 << 13
	// partGroups of a part do, too, beside the rows on their way. Where there are twice as many
	// parts are cut.
	partGroups = 1 << 13
	// leastParts is the number of parts where there are more groups, mostParts as
	// many as a core can write to side by side.
	leastParts, mostParts = 1 << 6, 1 << 12
	// directRows are too few to wake other cores for.
	directRows = 1 << 12
	// sampleRows tell how many groups there will be.
	sampleRows = 1 << 18
	// firstWindow and windowRows are the rows for each core that are combined before groups are counted; the
	// first window is a trial.
	firstWindow, windowRows = 1 << 15, 1 << 19
)

// table is groups in parts by the high bits of their mixed codes.
type table struct {
	l     *layout
	shift uint // of a mixed code, to its part
	parts []*part
	own   []*part       // of cores, while there are few groups
	pool  *hostmem.Pool // of byte strings; nil: the Go heap
	store *store        // the memory of parts that are full where it is; nil: they grow
	// scattered: keys do not lie close together.
	scattered bool
}

// newTable makes a table of one part. Byte strings are in memory outside of the Go heap, if asked.
func newTable(l *layout, offHeap bool) *table {
	t := &table{l: l, shift: 64, parts: []*part{newPart(l, 0)}}
	if offHeap {
		t.pool = new(hostmem.Pool)
		t.parts[0].texts.pool = t.pool
	}
	return t
}

// partsFor is a number of parts for so many groups, a power of two.
func partsFor(groups int) int {
	if groups <= fewGroups {
		return 1
	}
	n := leastParts
	for n < mostParts && groups > n*partGroups {
		n *= 2
	}
	return n
}

// cut makes so many parts, a power of two, with room for some groups together.
func (t *table) cut(n, groups int) {
	parts := make([]*part, n)
	for i := range parts {
		parts[i] = newPart(t.l, groups/n)
	}
	t.become(parts)
}

// become moves all groups to other parts, a power of two of them, and no fewer than there are.
func (t *table) become(parts []*part) {
	from, pool := t.parts, t.pool
	if pool != nil {
		t.pool = new(hostmem.Pool)
		for _, p := range parts {
			p.texts.pool = t.pool
		}
	}
	t.parts, t.shift, t.own = parts, uint(64-bits.TrailingZeros(uint(len(parts)))), nil
	for _, p := range from {
		for i := range p.n {
			t.parts[p.recs[p.rec(i)]>>t.shift].move(p, i)
		}
	}
	pool.Free()
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

// batch is rows on their way into a table, or into a part.
type batch struct {
	l      *layout // of the values
	n      int
	codes  []uint64 // mixed; nil: keys make them
	keys   *encoder
	rows   []uint32 // their numbers in the columns of values; nil: they count from base on
	base   int
	values []column.Column
	// words, where rows have been dealt out, are the values of some sources in the order of codes, of which
	// the first has number base there; nil for others.
	words [][]uint64
}

// encoder makes codes of key columns once somebody asks for them: where there are few groups, those of a block of rows
// need not leave the cache, and where keys lie close together they need not be mixed.
type encoder struct {
	*coder
	keys []column.Column
	seed uint64
	// bytes is the scratch of all that is done with a batch whose codes are there.
	bytes int
}

// encoded is a batch with its codes.
func (b batch) encoded(dev device.Host, s *scratch) batch {
	if b.keys == nil {
		return b
	}
	e := b.keys
	s.fit(e.bytes)
	b.codes, b.keys = lend[uint64](s, b.n), nil
	dev.Parallel(b.n, encodeRows, func(lo, hi int) { e.encode(b.codes[lo:hi], e.keys, b.base+lo, e.seed) })
	return b
}

// from is the rows from lo on.
func (b batch) from(lo int) batch { return b.sub(lo, b.n) }

func (b batch) sub(lo, hi int) batch {
	if b.codes != nil {
		b.codes = b.codes[lo:hi]
	}
	if b.rows != nil {
		b.rows = b.rows[lo:hi]
	}
	b.n = hi - lo
	b.base += lo
	return b
}

// before is the rows with numbers less than n.
func (b batch) before(n int) batch {
	if b.rows != nil {
		n, _ = slices.BinarySearch(b.rows, uint32(n))
	}
	return b.sub(0, min(n, b.n))
}

// add adds rows, behind which so many more will come.
func (t *table) add(dev device.Host, s *scratch, b batch, coming int) {
	if len(t.parts) == 1 {
		b = t.addFew(dev, s, b)
	}
	if b.n == 0 {
		return
	}
	b = b.encoded(dev, s)
	n := t.groups()
	if len(t.parts) == 1 && t.store == nil {
		t.cut(partsFor(max(t.sample(b.codes, b.n+coming), n, fewGroups+1)), n)
	} else if t.store == nil && n > 2*partGroups*len(t.parts) && len(t.parts) < mostParts {
		t.cut(partsFor(n), 2*n) // they were as many before, and will be again
	}
	t.deal(dev, s, b, coming)
}

// addFew adds rows as long as there are few groups, and returns those that it leaves.
func (t *table) addFew(dev device.Host, s *scratch, b batch) (left batch) {
	p, cores := t.parts[0], dev.Properties().Units
	rows := firstWindow
	if p.n > 0 { // it is no trial
		rows = windowRows
	}
	for ; b.n > 0 && p.n <= fewGroups; rows = min(2*rows, windowRows) {
		if cores == 1 || b.n < directRows {
			k := s.block()
			t.mayBeClose(p, b)
			done := p.add(k, b, fewGroups+1)
			s.blocks.Put(k)
			return b.from(done)
		}
		window := b.sub(0, min(cores*rows, b.n))
		if !t.combine(dev, s, window) {
			break
		}
		b = b.from(window.n)
	}
	return b
}

// groupsOf is how many groups so many rows have, of which some have a number of groups, if
// all groups come as often. If few rows have been seen, the guess is high by a half at times.
func groupsOf(found, some, rows int) int {
	if found >= some {
		return rows
	}
	lo, hi := float64(found), float64(some)*float64(some)
	for range 64 {
		mid := (lo + hi) / 2
		if -mid*math.Expm1(-float64(some)/mid) < float64(found) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return int(-hi * math.Expm1(-float64(rows)/hi))
}

// sample is how many groups rows have that begin with those of some codes: of a quarter of the groups, a sample tells more
// than as many rows of all.
func (t *table) sample(codes []uint64, rows int) int {
	p, some := newPart(t.l, 0), 0
	for _, code := range codes[:min(len(codes), sampleRows)] {
		if code>>62 == 0 {
			p.search(code, 0, allGroups(t.l))
			some++
		}
	}
	return 4 * groupsOf(p.n, some, rows/4)
}

// combine has each core combine a share of rows, and merges what comes of it, in their order. If there
// are too many groups it does nothing.
func (t *table) combine(dev device.Host, s *scratch, b batch) (ok bool) {
	cores := dev.Properties().Units
	for len(t.own) < cores {
		t.own = append(t.own, newPart(t.l, 0))
	}
	share := (b.n + cores - 1) / cores
	shares := (b.n + share - 1) / share
	done := make([]int, shares)
	for _, own := range t.own[:shares] {
		own.roomy = true
		t.mayBeClose(own, b)
	}
	dev.Parallel(b.n, share, func(lo, hi int) {
		own, k := t.own[lo/share], s.block()
		own.reset()
		done[lo/share] = own.add(k, b.sub(lo, hi), fewGroups)
		s.blocks.Put(k)
	})
	for i, n := range done {
		if n < min(share, b.n-i*share) {
			return false
		}
	}
	k := s.block()
	for _, own := range t.own[:shares] {
		t.parts[0].merge(k, own)
	}
	s.blocks.Put(k)
	return true
}

// mayBeClose has a part look for keys of a batch that lie close together, unless others have not.
func (t *table) mayBeClose(p *part, b batch) {
	if b.keys == nil {
		return
	}
	if p.close == nil && p.tried {
		t.scattered = true
	}
	if p.close == nil && !t.scattered && b.n >= closeSpan {
		p.close, p.tried = new(closeKeys), true
	}
}
