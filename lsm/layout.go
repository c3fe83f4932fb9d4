package lsm

import (
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/inorder"
	"github.com/weftgo/weft/internal/op"
)

// A level is a sorted array of entries in one block of memory, the same on every device (see
// layout.cuh, and package sorted for the first three arrays):
//
//	keys     in ascending order, as unsigned numbers (core.Type.Order), without duplicates
//	values   value i belongs to key i; undefined for a tombstone
//	index    levels of keys (inorder.Keys)
//	deltas   number of keys that each entry adds to the tree, in a byte: 1 adds its key, 0 replaces
//	         the value that an older level has, -1 is a tombstone
//	sums     of the deltas before each sixteenth entry, modulo 2^32
//	tally    the number of entries, in 32 bytes (core.Tally)
//
// inorder.Layout defines where the first three begin. The others follow at multiples of 256 bytes.
// A level is immutable once lookups see it.
type level struct {
	buf      device.Buffer
	capacity int // capacity in entries
	slot     int // depth of the level, which sets its capacity
	n        int // number of entries; on a GPU an upper bound until they are counted
	refs     int // number of generations that contain the level; guarded by pool.mu
}

// Memory returns the memory of the level. core.Spare calls it.
func (l *level) Memory() device.Buffer { return l.buf }

// Capacity returns the capacity in entries. core.Spare calls it.
func (l *level) Capacity() int { return l.capacity }

// generation is the state of a tree between two changes: its levels. The newest level is the
// smallest. A generation shares unchanged levels with the previous one.
type generation struct {
	pool   *pool
	levels []*level // from the newest on
	tally  core.Tally
}

// maxLevels is the maximum number of levels (layout.cuh). A tree of 2^32 entries has that many if
// its base is minBase.
const (
	maxLevels = 30
	minBase   = 16
)

// deltasAt, sumsAt and tallyAt return offsets of arrays in memory with the given capacity. size
// returns the size of the memory.
func (p *pool) deltasAt(capacity int) int { return p.IndexAt(capacity, inorder.MostLevels) }
func (p *pool) sumsAt(capacity int) int   { return p.deltasAt(capacity) + inorder.Aligned(capacity) }
func (p *pool) tallyAt(capacity int) int {
	return p.sumsAt(capacity) + inorder.Aligned(4*(nodes(capacity)+1))
}
func (p *pool) size(capacity int) int { return p.tallyAt(capacity) + inorder.TallyBytes }

// nodes returns the number of groups of sixteen entries, rounded up.
func nodes(entries int) int { return (entries + inorder.Fan - 1) / inorder.Fan }

// capacity returns the maximum number of entries of the level in a slot.
func (p *pool) capacity(slot int) int { return p.base << slot }

// target returns the slot for a run of n entries. It is the first slot that has capacity for the
// run and all levels up to that slot. merged is the number of these levels, with which the run is
// merged. total is the maximum number of entries of the result.
func (p *pool) target(levels []*level, n int) (slot, merged, total int) {
	total = n
	for slot = 0; ; slot++ {
		if merged < len(levels) && levels[merged].slot == slot {
			total += levels[merged].n
			merged++
		}
		if total <= p.capacity(slot) {
			return slot, merged, total
		}
	}
}

// withLevel returns a generation in which l replaces the given number of newest levels. If l is
// nil, these levels are only dropped.
func (g *generation) withLevel(l *level, replaced int) *generation {
	to := &generation{pool: g.pool}
	if l != nil {
		to.levels = append(to.levels, l)
	}
	to.levels = append(to.levels, g.levels[replaced:]...)
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	for _, l := range to.levels {
		l.refs++
	}
	return to
}

// Free implements core.Parts. The memory of levels that no generation contains is kept for new
// levels.
func (g *generation) Free() error {
	p := g.pool
	var unused []*level
	p.mu.Lock()
	for _, l := range g.levels {
		if l.refs--; l.refs == 0 {
			unused = append(unused, l)
		}
	}
	p.mu.Unlock()
	return p.spare.Release(unused...)
}

func (g *generation) entries() (n int) {
	for _, l := range g.levels {
		n += l.n
	}
	return n
}

func (g *generation) sizes() []int {
	sizes := make([]int, len(g.levels))
	for i, l := range g.levels {
		sizes[i] = l.n
	}
	return sizes
}

// Tally returns the counters of keys and entries.
func (g *generation) Tally() *core.Tally { return &g.tally }

// maxEntries is the maximum number of entries, since ranks and positions have 32 bits.
const maxEntries = prim.MaxRows

// errLarge returns the error for a tree that would exceed maxEntries.
func errLarge(entries int) error {
	return fmt.Errorf("%w: %d entries; a tree has %d at most", op.ErrFull, entries, maxEntries)
}
