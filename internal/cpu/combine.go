package cpu

import (
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/op"
)

// Batches of reductions return nothing per row. So rows may be combined with each other first, and
// run in any order that keeps the order within a key. If a batch has few keys, or a few frequent
// ones, each core combines the rows of its part before the structure sees them. The rows of other
// batches are sorted by shares of the structure that fit a core's cache.

const (
	// maxReduceRows is the number of rows of a piece: ten milliseconds of work. Larger pieces use a
	// line of a share more often while it is in the cache.
	maxReduceRows = 1 << 19

	// minReduceRows is the minimum size of a batch for which this pays.
	minReduceRows = 1 << 16

	// shareBytes is the memory of a share: with the prefetched rows, half of a second-level cache.
	shareBytes = 1 << 18
	// maxShares is the number of shares that a core can write to concurrently.
	maxShares = 1 << 9
	// minShareRows is the minimum number of rows of a share: below, its keys are too sparse to meet
	// again.
	minShareRows = 1 << 10
	// maxShareRows is the maximum number of rows of a share. A core processes that many quickly,
	// even if all are at one place.
	maxShareRows = 1 << 14
)

// reducibleRows returns the number of rows of a piece from row done on, or 0 if they are few. It
// returns at most the number of free slots, so that searches stay short.
func (e *Engine) reducibleRows(b *batch.Batch, done int) int {
	n := min(maxReduceRows, b.N-done, e.freeSlots())
	if !b.Reduces() || n < minReduceRows {
		return 0
	}
	return n
}

// reduce runs a piece of rows that are combined. It returns false, and has done nothing, if the
// piece may keep a core busy for long.
func (e *Engine) reduce(b *batch.Batch, loops func(*batch.Batch) Loops, whole Share) (r Result, ok bool) {
	l := loops(b)
	if e.cores() == 1 || !l.Quick() {
		return r, false
	}
	bytes := e.Parts().(Generation).Memory().Bytes()
	n := min(max(bytes/shareBytes, b.N/maxShareRows, e.cores()*SharesPerCore), maxShares, b.N/minShareRows)
	rows, shares := e.Partitioner.PartitionRows(e.Device, whole.Hi-1, b, n, l.Locate)
	if skewed(shares, b.N) {
		return r, false
	}
	r = e.runShares(loops(rows), shares, whole)
	e.Partitioner.ToOriginals(r.Failed)
	slices.Sort(r.Failed)
	return r, true
}

// Combine implements [core.Combiner].
func (e *Engine) Combine(b *batch.Batch) *batch.Batch {
	if e.combiner.skip > 0 {
		e.combiner.skip--
		return nil
	}
	wide := func(r batch.Role) bool { return b.Columns[r].Width == 8 }
	var combined *batch.Batch
	switch {
	case wide(batch.Keys) && wide(batch.Vals):
		combined = combineAll[uint64, uint64](&e.combiner, e.Device, b)
	case wide(batch.Keys):
		combined = combineAll[uint64, uint32](&e.combiner, e.Device, b)
	case wide(batch.Vals):
		combined = combineAll[uint32, uint64](&e.combiner, e.Device, b)
	default:
		combined = combineAll[uint32, uint32](&e.combiner, e.Device, b)
	}
	// Each of the remaining rows may have to search all of a full table.
	if combined != nil && combined.N > max(e.freeSlots(), maxFullRows) {
		combined = nil
	}
	if combined == nil {
		e.combiner.skip = retryAfter
	}
	return combined
}

// maxFullRows is the number of rows that may search tables with as many slots.
const maxFullRows = 1 << 16

// retryAfter is the number of pieces to skip after a piece for which combining rows did not pay.
const retryAfter = 15

// combiner is the memory that rows are combined in.
type combiner struct {
	skip       int
	keys, vals []byte     // of the remaining rows; each part has its own place
	slots      [][]uint32 // by part, by hash: the number of the key's row there, from 1
}

const (
	// combineSlots is the size of a part's table: 128 KiB. A key lies in one of combineSteps slots.
	combineSlots, combineSteps = 1 << 15, 8
	// combineTrial is the number of rows of a part after which the gain is checked.
	combineTrial = 1 << 14
	// maxRemainingRatio is the maximum share of rows that may remain.
	maxRemainingRatio = 0.75
)

// combineAll combines the rows of a piece by parts, one per core.
func combineAll[K Key, V uint32 | uint64](c *combiner, dev device.Host, b *batch.Batch) *batch.Batch {
	keys, vals := batch.View[K](b.Columns[batch.Keys].Host), batch.View[V](b.Columns[batch.Vals].Host)
	parts := dev.Properties().Units
	if len(c.keys) < 8*b.N {
		c.keys, c.vals = make([]byte, 8*b.N), make([]byte, 8*b.N)
	}
	for len(c.slots) < parts {
		c.slots = append(c.slots, make([]uint32, combineSlots))
	}
	toKeys, toVals := batch.View[K](c.keys), batch.View[V](c.vals)
	size := (b.N + parts - 1) / parts
	remaining := make([]int, (b.N+size-1)/size)
	var useless atomic.Bool
	dev.Parallel(b.N, size, func(lo, hi int) {
		clear(c.slots[lo/size])
		p := part[K, V]{slots: c.slots[lo/size], flags: b.Flags, kind: b.Kind, keys: toKeys[lo:lo], vals: toVals[lo:lo]}
		for try := lo; try < hi && !useless.Load(); try += combineTrial {
			end := min(try+combineTrial, hi)
			p.add(keys[try:end], vals[try:end])
			if rows := end - lo; rows >= combineTrial && float64(len(p.keys)) > maxRemaining(rows) {
				useless.Store(true)
			}
		}
		remaining[lo/size] = len(p.keys)
	})
	if useless.Load() {
		return nil
	}
	n := 0
	for i, rows := range remaining {
		copy(toKeys[n:], toKeys[i*size:i*size+rows])
		copy(toVals[n:], toVals[i*size:i*size+rows])
		n += rows
	}
	if float64(n) > maxRemainingRatio*float64(b.N) {
		return nil
	}
	combined := *b
	combined.N = n
	combined.Columns[batch.Keys].Host = c.keys[:n*int(unsafe.Sizeof(keys[0]))]
	combined.Columns[batch.Vals].Host = c.vals[:n*int(unsafe.Sizeof(vals[0]))]
	return &combined
}

// maxRemaining returns the maximum number of the first rows of a part that may remain if combining
// is to pay. It is a share of the rows, or the expected number of distinct keys if the table has a
// slot for each key.
func maxRemaining(rows int) float64 {
	n := float64(rows)
	return max(maxRemainingRatio*n, -combineSlots*math.Expm1(-n/combineSlots))
}

// part holds the remaining rows of a part of a piece.
type part[K Key, V uint32 | uint64] struct {
	slots []uint32
	flags batch.Flags
	kind  op.Kind
	keys  []K
	vals  []V
}

// add adds rows, or combines them with existing ones. Keys without a place nearby stay separate
// rows, even if they were chosen to collide.
func (p *part[K, V]) add(keys []K, vals []V) {
	for i, k := range keys {
		h, free := slotOf(k), -1
		for range combineSteps {
			row := p.slots[h]
			if row == 0 {
				free = int(h)
				break
			}
			if p.keys[row-1] == k {
				reduce(p.flags, p.kind, &p.vals[row-1], vals[i])
				h = combineSlots
				break
			}
			h = (h + 1) % combineSlots
		}
		if h == combineSlots {
			continue
		}
		p.keys, p.vals = append(p.keys, k), append(p.vals, vals[i])
		if free >= 0 {
			p.slots[free] = uint32(len(p.keys))
		}
	}
}

func slotOf[K Key](k K) uint32 {
	if unsafe.Sizeof(k) == 4 {
		return hash.Uint32(uint32(k), combineSeed) % combineSlots
	}
	return uint32(hash.Uint64(uint64(k), combineSeed) % combineSlots)
}

// combineSeed differs from the seed of every table, so that the keys of a share spread here.
const combineSeed = 0x9b60933458e17d7d
