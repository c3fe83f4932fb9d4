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

// Batches whose values are combined return nothing for each row, so rows may be
// combined with each other first, and taken in any order that keeps that of a
// key. Where a batch has few keys, or a few often, each core combines the rows of
// its part before the structure sees them. Of others, the rows are sorted by
// shares of the structure that fit a core's cache.

const (
	// reducePiece is the number of rows of a piece: ten milliseconds' work. The
	// more, the more often a line of a share is used while it is in the cache.
	reducePiece = 1 << 19

	// reduceLeast is the size of a batch from which on this pays.
	reduceLeast = 1 << 16

	// shareBytes is the memory of a share: with the rows on their way, half of a
	// second-level cache.
	shareBytes = 1 << 18
	// mostShares are as many as a core can write to side by side.
	mostShares = 1 << 9
	// leastRows of a share: below, its keys are spread too thin to meet again.
	leastRows = 1 << 10
	// mostRows of a share do not keep a core for long, were they all at one place.
	mostRows = 1 << 14
)

// reducible is the number of rows of a piece from row done on, or 0 if they are few:
// no more than there are slots, so that searches stay short.
func (e *Engine) reducible(b *batch.Batch, done int) int {
	n := min(reducePiece, b.N-done, e.free())
	if !b.Reduces() || n < reduceLeast {
		return 0
	}
	return n
}

// reduce runs a piece of rows that are combined. It reports false, and has done
// nothing, if the piece may keep a core for long.
func (e *Engine) reduce(b *batch.Batch, loops func(*batch.Batch) Loops, whole Share) (r Result, ok bool) {
	l := loops(b)
	if e.cores() == 1 || !l.Quick() {
		return r, false
	}
	bytes := e.Parts().(Generation).Memory().Bytes()
	shares := min(max(bytes/shareBytes, b.N/mostRows, e.cores()*SharesPerCore), mostShares, b.N/leastRows)
	rows, dealt := e.Dealer.Rows(e.Device, whole.Hi-1, b, shares, l.Places)
	if crowded(dealt, b.N) {
		return r, false
	}
	r = e.run(loops(rows), dealt, whole)
	e.Dealer.Originals(r.Failed)
	slices.Sort(r.Failed)
	return r, true
}

// Combine is for [core.Combiner].
func (e *Engine) Combine(b *batch.Batch) *batch.Batch {
	if e.combiner.patience > 0 {
		e.combiner.patience--
		return nil
	}
	wide := func(r batch.Role) bool { return b.Columns[r].Width == 8 }
	var few *batch.Batch
	switch {
	case wide(batch.Keys) && wide(batch.Vals):
		few = combineAll[uint64, uint64](&e.combiner, e.Device, b)
	case wide(batch.Keys):
		few = combineAll[uint64, uint32](&e.combiner, e.Device, b)
	case wide(batch.Vals):
		few = combineAll[uint32, uint64](&e.combiner, e.Device, b)
	default:
		few = combineAll[uint32, uint32](&e.combiner, e.Device, b)
	}
	// Each of the rows left may have to search all of a full table.
	if few != nil && few.N > max(e.free(), wholeTable) {
		few = nil
	}
	if few == nil {
		e.combiner.patience = patience
	}
	return few
}

// wholeTable is the number of rows that may search tables of as many slots.
const wholeTable = 1 << 16

// patience is how many pieces follow one of which it did not pay to combine rows
// before that is tried again.
const patience = 15

// combiner is the memory that rows are combined in.
type combiner struct {
	patience   int
	keys, vals []byte     // of the rows that are left, of each part at its place
	at         [][]uint32 // by part, by hash: the row that a key has there, from 1
}

const (
	// combineSlots of a part's table: 128 KiB. A key lies in one of combineSteps.
	combineSlots, combineSteps = 1 << 15, 8
	// combineTrial is the number of rows of a part by which it is decided.
	combineTrial = 1 << 14
	// worthwhile is the share of rows that may be left.
	worthwhile = 0.75
)

// combineAll combines the rows of a piece by parts, one for each core.
func combineAll[K Key, V uint32 | uint64](c *combiner, dev device.Host, b *batch.Batch) *batch.Batch {
	keys, vals := batch.View[K](b.Columns[batch.Keys].Host), batch.View[V](b.Columns[batch.Vals].Host)
	parts := dev.Properties().Units
	if len(c.keys) < 8*b.N {
		c.keys, c.vals = make([]byte, 8*b.N), make([]byte, 8*b.N)
	}
	for len(c.at) < parts {
		c.at = append(c.at, make([]uint32, combineSlots))
	}
	toKeys, toVals := batch.View[K](c.keys), batch.View[V](c.vals)
	size := (b.N + parts - 1) / parts
	left := make([]int, (b.N+size-1)/size)
	var useless atomic.Bool
	dev.Parallel(b.N, size, func(lo, hi int) {
		clear(c.at[lo/size])
		p := part[K, V]{at: c.at[lo/size], flags: b.Flags, kind: b.Kind, keys: toKeys[lo:lo], vals: toVals[lo:lo]}
		for try := lo; try < hi && !useless.Load(); try += combineTrial {
			end := min(try+combineTrial, hi)
			p.add(keys[try:end], vals[try:end])
			if rows := end - lo; rows >= combineTrial && float64(len(p.keys)) > mostLeft(rows) {
				useless.Store(true)
			}
		}
		left[lo/size] = len(p.keys)
	})
	if useless.Load() {
		return nil
	}
	n := 0
	for i, rows := range left {
		copy(toKeys[n:], toKeys[i*size:i*size+rows])
		copy(toVals[n:], toVals[i*size:i*size+rows])
		n += rows
	}
	if float64(n) > worthwhile*float64(b.N) {
		return nil
	}
	few := *b
	few.N = n
	few.Columns[batch.Keys].Host = c.keys[:n*int(unsafe.Sizeof(keys[0]))]
	few.Columns[batch.Vals].Host = c.vals[:n*int(unsafe.Sizeof(vals[0]))]
	return &few
}

// mostLeft is how many of the first rows of a part may be left if it is to pay: a
// share of them, or as many as there are different ones where the table has a slot
// for each key.
func mostLeft(rows int) float64 {
	n := float64(rows)
	return max(worthwhile*n, -combineSlots*math.Expm1(-n/combineSlots))
}

// part is the rows of a part of a piece that are left.
type part[K Key, V uint32 | uint64] struct {
	at    []uint32
	flags batch.Flags
	kind  op.Kind
	keys  []K
	vals  []V
}

// add adds rows, or combines them with those that are there. Keys that find no
// place nearby, whoever chose them, stay rows of their own.
func (p *part[K, V]) add(keys []K, vals []V) {
	for i, k := range keys {
		h, free := slotOf(k), -1
		for range combineSteps {
			row := p.at[h]
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
			p.at[free] = uint32(len(p.keys))
		}
	}
}

func slotOf[K Key](k K) uint32 {
	if unsafe.Sizeof(k) == 4 {
		return hash.Uint32(uint32(k), combineSeed) % combineSlots
	}
	return uint32(hash.Uint64(uint64(k), combineSeed) % combineSlots)
}

// combineSeed is no table's: a share of a table's keys is spread here.
const combineSeed = 0x9b60933458e17d7d
