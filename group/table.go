package group

import (
	"math"
	"math/bits"
	"runtime"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/hostmem"
)

const (
	// maxSinglePart is the maximum number of groups in one part. Beyond it, cores work on several
	// parts.
	maxSinglePart = 1 << 11
	// partGroups groups of a part fit a core's second-level cache, beside chunks of rows. Tables of
	// twice as many are cut into more parts.
	partGroups = 1 << 13
	// minParts is the number of parts for many groups. maxParts is the maximum number of parts
	// that a core can write to in turn.
	minParts, maxParts = 1 << 6, 1 << 12
	// directRows is the number of rows below which a call does not wake other cores.
	directRows = 1 << 12
	// localBytes is the maximum size of a core's part. A second-level cache need not hold all of
	// it: with 10^5 groups the core's waits for the third are shorter than distributing rows.
	localBytes = 9 << 20
	// distributedRows for each present group are distributed at a time, within bounds. More rows
	// use a part's records more often while they are in a cache. Fewer rows take less memory of
	// chunks.
	distributedRows, minDistributed, maxDistributed = 2, 1 << 21, 1 << 23
	// combinedRows of a share for each group, or more, are combined before they are merged with
	// others: a new group costs as much as some ten rows.
	combinedRows = 12
	// trialRows of each core, or fewer of a small batch, give an estimate of the number of groups.
	trialRows = 1 << 15
)

// table holds groups in parts by the high bits of their mixed codes.
type table struct {
	l              *layout
	shift          uint // from a mixed code to its part
	parts          []*part
	localParts     []*part // of cores, for their shares of a batch
	maxLocalGroups int     // groups of each
	capacity       int     // groups that parts hold before they grow
	// of byte strings, and of parts that grow where memory has no bound
	pool  *hostmem.Pool
	store *fixedStore // the memory of parts that do not grow; nil: they grow
	// bounded: memory is counted, and parts that grow are on the Go heap.
	bounded bool
	// sparse: keys do not lie close together.
	sparse bool
}

// newTable makes a table of one part. The local parts of cores take at most maxLocal bytes each.
func newTable(l *layout, bounded bool, maxLocal int) *table {
	t := &table{l: l, shift: 64, bounded: bounded}
	t.maxLocalGroups = maxLocal / (8*l.stride() + 8 + 2*4*localLoad + 8*len(l.sources) + 24*l.texts)
	t.parts = t.newParts(1, 0)
	return t
}

// newParts makes parts with capacity for some groups each, in a new pool.
func (t *table) newParts(n, groups int) []*part {
	t.pool = new(hostmem.Pool)
	runtime.AddCleanup(t, (*hostmem.Pool).Free, t.pool) // if free is not called
	mem := t.pool
	if t.bounded {
		mem = nil
	}
	parts := make([]*part, n)
	for i := range parts {
		parts[i] = newPart(t.l, mem, groups)
		parts[i].texts.pool = t.pool
	}
	return parts
}

// newLocalPart makes the part of a core.
func newLocalPart(l *layout) *part {
	p := newPart(l, nil, 0)
	p.local = true
	return p
}

// partsFor returns the number of parts of a table of some groups, a power of two.
func partsFor(groups int) int {
	if groups <= maxSinglePart {
		return 1
	}
	n := minParts
	for n < maxParts && groups > n*partGroups {
		n *= 2
	}
	return n
}

// repartition makes n parts, a power of two, with capacity for some groups together.
func (t *table) repartition(dev device.Host, n, groups int) {
	pool := t.pool
	t.capacity = groups
	t.replaceParts(dev, t.newParts(n, groups/n))
	pool.Free()
}

// replaceParts moves all groups to other parts. Their number is a power of two, and not less than
// before.
func (t *table) replaceParts(dev device.Host, parts []*part) {
	from := t.parts
	t.parts, t.shift = parts, uint(64-bits.TrailingZeros(uint(len(parts))))
	dev.Parallel(len(from), 1, func(lo, hi int) {
		for i, p := range from[lo:hi] {
			if len(from) == len(parts) && t.l.texts == 0 {
				parts[lo+i].moveRecords(p)
				continue
			}
			for i := range p.n {
				t.parts[p.recs[p.rec(i)]>>t.shift].moveRecord(p, i)
			}
		}
	})
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
	for _, p := range t.localParts {
		n += p.bytes()
	}
	return n
}

// batch is rows to add to a table, or to a part.
type batch struct {
	l      *layout // of the values
	n      int
	codes  []uint64 // mixed; nil: computed from keys
	keys   *encoder
	rows   []uint32 // their numbers in the columns of values; nil: they count from base on
	base   int
	values []column.Column
	// words holds, for rows that have been distributed, the values of some sources in the order of
	// codes. That of the first code is at base. It is nil for other sources.
	words [][]uint64
}

// encoder computes codes of key columns when they are needed. Those of a block of rows need not
// leave the cache, and those of keys that lie close together need not be mixed.
type encoder struct {
	*coder
	keys []column.Column
	seed uint64
	// bytes is the scratch of all work on a batch with codes.
	bytes int
}

// encoded returns a batch with its codes.
func (b batch) encoded(dev device.Host, s *scratch) batch {
	if b.keys == nil {
		return b
	}
	e := b.keys
	s.reserve(e.bytes)
	b.codes, b.keys = allocScratch[uint64](s, b.n), nil
	dev.Parallel(b.n, encodeRows, func(lo, hi int) { e.encode(b.codes[lo:hi], e.keys, b.base+lo, e.seed) })
	return b
}

// rowsFrom returns the rows from lo on.
func (b batch) rowsFrom(lo int) batch { return b.slice(lo, b.n) }

func (b batch) slice(lo, hi int) batch {
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

// rowsBelow returns the rows with numbers less than n.
func (b batch) rowsBelow(n int) batch {
	if b.rows != nil {
		n, _ = slices.BinarySearch(b.rows, uint32(n))
	}
	return b.slice(0, min(n, b.n))
}

// add adds rows. coming is the number of rows that will follow.
//
// Each core has a share of the rows. It combines them in a local part as long as they fit.
// If there are more groups, it distributes rows to chunks by the parts of their groups. Then each
// part belongs to one core, which adds the rows of all shares, one share after another. So rows of
// a group meet without locks and in their order.
func (t *table) add(dev device.Host, s *scratch, b batch, remaining int) {
	if len(t.parts) == 1 && b.n < directRows {
		k := blocks.Get().(*block)
		b = b.rowsFrom(t.parts[0].add(k, b, maxSinglePart+1))
		blocks.Put(k)
	}
	cores, groups := dev.Properties().Units, t.groups()
	for b.n > 0 {
		share := b.n / cores
		n, combine := b.n, groups == 0 || groups <= t.maxLocalGroups && combinedRows*groups <= share
		switch {
		case groups == 0:
			n = min(n, cores*max(directRows, min(share/32, trialRows)))
		case !combine:
			n = min(n, min(max(distributedRows*groups, minDistributed), maxDistributed))
			n = (b.n + (b.n+n-1)/n - 1) / ((b.n + n - 1) / n)
		}
		d := t.newDistributor(dev, s, b.slice(0, n))
		b = b.rowsFrom(n)
		if combine {
			groups = d.combine(dev, remaining+b.n)
		}
		groups = max(groups, t.groups())
		t.splitParts(dev, groups)
		d.distribute(dev)
		d.addParts(dev, remaining+b.n)
		groups = max(groups, t.groups())
	}
	if groups > t.maxLocalGroups {
		t.localParts = nil
	}
}

// splitParts cuts a growing table into more parts, if the number of groups needs them. A table with
// more groups than its capacity gets twice the capacity: parts that grow by themselves abandon
// their earlier memory.
func (t *table) splitParts(dev device.Host, groups int) {
	if t.store != nil {
		return
	}
	n, current := partsFor(groups), t.groups()
	switch {
	case len(t.parts) == 1 && n > 1:
		t.repartition(dev, n, current)
	case len(t.parts) > 1 && (current > t.capacity ||
		n > len(t.parts) && groups > 2*partGroups*len(t.parts)):
		t.repartition(dev, max(n, len(t.parts)), 2*current)
	}
}

// estimateGroups estimates the number of groups of some rows from the groups found in the first
// ones, if all groups are equally frequent. After few rows, the estimate is sometimes high by a
// half.
func estimateGroups(found, sample, rows int) int {
	if found >= sample {
		return rows
	}
	lo, hi := float64(found), float64(sample)*float64(sample)
	for range 64 {
		mid := (lo + hi) / 2
		if -mid*math.Expm1(-float64(sample)/mid) < float64(found) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return int(-hi * math.Expm1(-float64(rows)/hi))
}

// tryDense makes a part search for keys of a batch that lie close together, unless earlier
// batches had none.
func (t *table) tryDense(p *part, b batch) {
	if b.keys == nil {
		return
	}
	if p.dense == nil && p.triedDense {
		t.sparse = true
	}
	if p.dense == nil && !t.sparse && b.n >= denseSpan {
		p.dense, p.triedDense = new(denseKeys), true
	}
}
