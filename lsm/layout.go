package lsm

import (
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/inorder"
	"github.com/weftgo/weft/internal/op"
)

// A level is a sorted array of entries in one block of memory, the same on every device (twins:
// layout.cuh, and package sorted for the first three arrays):
//
//	keys     in ascending order, as unsigned numbers (core.Type.Order), each once
//	values   value i is that of key i; undefined for a tombstone
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
	n        int // entries; on a GPU the maximum until they are counted
	refs     int // generations that have it; guarded by the pool's mutex
}

// Memory and Room implement what core.Spare requires.
func (l *level) Memory() device.Buffer { return l.buf }

// Capacity returns the capacity in entries.
func (l *level) Capacity() int { return l.capacity }

// A generation is a tree as of a time: its levels, the newest of which is the smallest. It shares
// the unchanged ones with the previous generation.
type generation struct {
	pool   *pool
	levels []*level // from the newest on
	tally  core.Tally
}

// maxLevels is the maximum number of levels (layout.cuh), that of 2^32 entries with base
// minBase.
const (
	maxLevels = 30
	minBase   = 16
)

// deltasAt and the methods that follow return the offsets of the arrays in memory for capacity
// entries.
func (p *pool) deltasAt(capacity int) int { return p.IndexAt(capacity, inorder.MostLevels) }
func (p *pool) sumsAt(capacity int) int   { return p.deltasAt(capacity) + inorder.Aligned(capacity) }
func (p *pool) tallyAt(capacity int) int {
	return p.sumsAt(capacity) + inorder.Aligned(4*(nodes(capacity)+1))
}
func (p *pool) size(capacity int) int { return p.tallyAt(capacity) + inorder.TallyBytes }

// nodes returns the number of groups of sixteen entries.
func nodes(entries int) int { return (entries + inorder.Fan - 1) / inorder.Fan }

// capacity returns the maximum number of entries of a level.
func (p *pool) capacity(slot int) int { return p.base << slot }

// target returns the slot for a run of n entries: the first with capacity for the run and for all
// levels up to that slot. merged is the number of these levels, with which the run is merged. total
// is the maximum number of entries of the result.
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

// withLevel returns a generation in which level l, or none if l is nil, replaces the first levels.
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

// Free implements core.Parts. Levels that no generation has anymore are kept for the next ones.
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

// entries returns the number of entries of all levels.
func (g *generation) entries() (n int) {
	for _, l := range g.levels {
		n += l.n
	}
	return n
}

// sizes returns the sizes of the levels.
func (g *generation) sizes() []int {
	sizes := make([]int, len(g.levels))
	for i, l := range g.levels {
		sizes[i] = l.n
	}
	return sizes
}

// Tally returns the counters of a generation, for engines.
func (g *generation) Tally() *core.Tally { return &g.tally }

// maxEntries is the maximum number of entries, since ranks and positions have 32 bits.
const maxEntries = prim.MaxRows

// errLarge returns the error of trees that would have more.
func errLarge(entries int) error {
	return fmt.Errorf("%w: %d entries; a tree has %d at most", op.ErrFull, entries, maxEntries)
}
