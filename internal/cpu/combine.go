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

// A batch of reductions returns no result per row. So rows with equal keys may be combined first,
// and rows with different keys may run in any order. If a batch has few distinct keys, or some very
// frequent ones, each core combines the rows of its part before the table is accessed. The rows of
// other batches are sorted by shares of the table that fit in a core's cache.

const (
	// maxReduceRows is the maximum number of rows of a piece. Such a piece takes ten milliseconds.
	// In larger pieces, more rows access a line of a share while the line is in the cache.
	maxReduceRows = 1 << 19

	// minReduceRows is the minimum number of rows for which sorting by shares pays.
	minReduceRows = 1 << 16

	// shareBytes is the target size of a share of the table, in bytes. Together with the prefetched
	// rows it fills half of a second-level cache.
	shareBytes = 1 << 18
	// maxShares is the maximum number of shares to which a core can write rows at the same time.
	maxShares = 1 << 9
	// minShareRows is the minimum mean number of rows per share. With fewer rows, a share's lines
	// are seldom accessed twice.
	minShareRows = 1 << 10
	// maxShareRows is the target maximum of rows per share. A core processes that many quickly,
	// even if all have the same place.
	maxShareRows = 1 << 14
)

// reducibleRows returns the number of rows of the next piece, which begins at row done, or 0 if it
// would have too few. It returns at most the number of free slots, so that searches stay short.
func (e *Engine) reducibleRows(b *batch.Batch, done int) int {
	n := min(maxReduceRows, b.N-done, e.freeSlots())
	if !b.Reduces() || n < minReduceRows {
		return 0
	}
	return n
}

// reduce runs a piece of reductions sorted by shares. ok is false, and nothing has been done, if
// the piece might keep one core busy for long.
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
	// Each remaining row may have to search the whole table if it is full.
	if combined != nil && combined.N > max(e.freeSlots(), maxFullRows) {
		combined = nil
	}
	if combined == nil {
		e.combiner.skip = retryAfter
	}
	return combined
}

// maxFullRows is the maximum number of combined rows that run even if too few slots are free.
const maxFullRows = 1 << 16

// retryAfter is the number of pieces to skip after a piece for which combining rows did not pay.
const retryAfter = 15

// combiner holds the memory in which rows are combined.
type combiner struct {
	skip       int
	keys, vals []byte     // keys and values of the remaining rows, each part in its own range
	slots      [][]uint32 // slots[part][hash] is 1 plus the key's row in the part, or 0
}

const (
	// combineSlots is the number of slots in a part's hash table, which takes 128 KiB. A key lies
	// in one of combineSteps slots.
	combineSlots, combineSteps = 1 << 15, 8
	// combineTrial is the number of rows of a part after which it is checked again whether
	// combining pays.
	combineTrial = 1 << 14
	// maxRemainingRatio is the maximum fraction of rows that may remain for combining to pay.
	maxRemainingRatio = 0.75
)

// combineAll combines the rows of a piece. Each core combines the rows of one part. It returns nil
// if combining does not pay.
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

// maxRemaining returns how many rows may remain when the first rows of a part have been combined,
// if combining is to pay. The limit is a fraction of these rows or, if larger, the expected number
// of occupied slots for random keys.
func maxRemaining(rows int) float64 {
	n := float64(rows)
	return max(maxRemainingRatio*n, -combineSlots*math.Expm1(-n/combineSlots))
}

// part holds the rows of one part of a piece that remain after rows with equal keys are combined.
type part[K Key, V uint32 | uint64] struct {
	slots []uint32
	flags batch.Flags
	kind  op.Kind
	keys  []K
	vals  []V
}

// add appends each row, or combines it with the row of the same key. If other keys occupy the slots
// of a key, its rows stay separate, so that keys chosen to collide cost few steps.
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

// combineSeed differs from every table's seed, so that the keys of a share are spread over the
// slots.
const combineSeed = 0x9b60933458e17d7d
