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
	// maxSinglePart is the maximum number of groups in a table of one part. Larger tables have
	// several parts, so that cores can work on them in parallel.
	maxSinglePart = 1 << 11
	// partGroups is a number of groups that fits a core's second-level cache next to chunks of
	// rows. A table with twice as many groups per part is cut into more parts.
	partGroups = 1 << 13
	// minParts is the least number of parts of a table with several. maxParts is the maximum number
	// of parts that a core can write to in turn.
	minParts, maxParts = 1 << 6, 1 << 12
	// directRows is the number of rows below which a call does not wake other cores.
	directRows = 1 << 12
	// localBytes is the maximum size of a local part. It may exceed the second-level cache: with
	// 10^5 groups, waits for the third-level cache take less time than distributing rows.
	localBytes = 9 << 20
	// Rows are distributed distributedRows × groups at a time, within minDistributed and
	// maxDistributed. More rows use the records of a part more often while a cache holds them.
	// Fewer rows need less memory for chunks.
	distributedRows, minDistributed, maxDistributed = 2, 1 << 21, 1 << 23
	// combinedRows is the least number of rows per group in a share that local parts combine before
	// they are merged. A new group costs as much as some ten rows.
	combinedRows = 12
	// trialRows is the maximum number of rows per core that serve to estimate the number of groups.
	trialRows = 1 << 15
)

// table holds groups in parts. The high bits of a group's mixed code select its part.
type table struct {
	l              *layout
	shift          uint // shifts a mixed code to the index of its part
	parts          []*part
	localParts     []*part // one per core, for its share of a batch
	maxLocalGroups int     // maximum number of groups in each local part
	capacity       int     // number of groups that parts hold before they grow
	// memory of byte strings, and of growing parts if memory is not bounded
	pool  *hostmem.Pool
	store *fixedStore // memory of parts that do not grow; nil if they grow
	// bounded: memory is counted, and parts that grow are on the Go heap.
	bounded bool
	// sparse: a search found that keys do not lie close together.
	sparse bool
}

// newTable makes a table of one part. Each local part takes at most maxLocal bytes.
func newTable(l *layout, bounded bool, maxLocal int) *table {
	t := &table{l: l, shift: 64, bounded: bounded}
	t.maxLocalGroups = maxLocal / (8*l.stride() + 8 + 2*4*localLoad + 8*len(l.sources) + 24*l.texts)
	t.parts = t.newParts(1, 0)
	return t
}

// newParts makes n parts in a new pool, each with capacity for the given number of groups.
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

func newLocalPart(l *layout) *part {
	p := newPart(l, nil, 0)
	p.local = true
	return p
}

// partsFor returns the number of parts, a power of two, for a number of groups.
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

// repartition moves all groups to n new parts. n is a power of two. The parts together have
// capacity for the given number of groups.
func (t *table) repartition(dev device.Host, n, groups int) {
	pool := t.pool
	t.capacity = groups
	t.replaceParts(dev, t.newParts(n, groups/n))
	pool.Free()
}

// replaceParts moves all groups to the given parts. Their number is a power of two and does not
// decrease.
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

// batch is a range of rows to add to a table or to a part.
type batch struct {
	l      *layout // layout of the values
	n      int
	codes  []uint64 // mixed codes; nil: computed from keys
	keys   *encoder
	rows   []uint32 // row numbers in values; nil: base, base+1, …
	base   int
	values []column.Column
	// words holds, by source, values that moved with distributed rows, in the order of codes. The
	// value for codes[0] is at base. It is nil for a source that did not move.
	words [][]uint64
}

// encoder computes codes of key columns on demand. Codes of a block of rows can stay in the cache,
// and keys that lie close together need no mixing.
type encoder struct {
	*coder
	keys []column.Column
	seed uint64
	// bytes is the size of the scratch that a batch with codes needs.
	bytes int
}

// encoded returns the batch with all its codes computed.
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

// add adds rows. remaining is the number of rows that will follow.
//
// Each core has a share of the rows and combines them in a local part while their groups fit. If
// there are more groups, it distributes rows to chunks by the parts of their groups. Then each part
// belongs to one core, which adds the rows of all shares, one share after another. Rows of a group
// thus meet without locks and in their order.
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

// splitParts cuts a growing table into more parts if the number of groups needs them. It doubles
// the capacity of a table that exceeds it, because parts that grow by themselves abandon their
// earlier memory.
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

// estimateGroups estimates the number of groups in the given rows. found is the number of groups in
// the first sample rows. It assumes that all groups are equally frequent. After few rows, the
// estimate is sometimes 50% too high.
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

// tryDense makes a part search for keys that lie close together, unless an earlier search failed.
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
