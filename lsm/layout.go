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
//	values   value i is that of key i; of tombstones any
//	index    levels of keys (inorder.Keys)
//	deltas   by how many keys each entry makes the tree larger, a byte: 1 adds its key, 0 has
//	         another value for one that an older level adds, -1 is its tombstone
//	sums     of the deltas before each sixteenth entry, modulo 2^32
//	tally    the number of entries, in 32 bytes (core.Tally)
//
// Where the first three begin, inorder.Layout says, and the others behind them at multiples of 256
// bytes. Nothing of a level changes once lookups see it.
type level struct {
	buf  device.Buffer
	room int // entries that there is memory for
	slot int // how far down it is: capacity says how many entries it may have
	n    int // entries; on a GPU at most, unless they have been counted
	uses int // generations that have it; the pool's mutex guards it
}

// Memory is for [core.Spare], as is Room.
func (l *level) Memory() device.Buffer { return l.buf }

// Room is in entries.
func (l *level) Room() int { return l.room }

// A generation is a tree at one time: its levels, of which each newer one is smaller. It
// shares those that it has not changed with the generation before.
type generation struct {
	pool   *pool
	levels []*level // from the newest on
	tally  core.Tally
}

// mostLevels is the number of levels, at most (layout.cuh): of 2^32 entries, if the base is
// leastBase.
const (
	mostLevels = 30
	leastBase  = 16
)

// deltasAt and those that follow are where the arrays begin in memory for so many entries.
func (p *pool) deltasAt(room int) int { return p.IndexAt(room, inorder.MostLevels) }
func (p *pool) sumsAt(room int) int   { return p.deltasAt(room) + inorder.Aligned(room) }
func (p *pool) tallyAt(room int) int  { return p.sumsAt(room) + inorder.Aligned(4*(nodes(room)+1)) }
func (p *pool) size(room int) int     { return p.tallyAt(room) + inorder.TallyBytes }

// nodes is the number of sixteens that entries make.
func nodes(entries int) int { return (entries + inorder.Fan - 1) / inorder.Fan }

// capacity is how many entries a level may have.
func (p *pool) capacity(slot int) int { return p.base << slot }

// target is the slot that a run of n entries goes to: the first that has room for it and for the
// levels that are newer or there already, which it is merged with, and how many these are. total
// is the number of entries of all of them, at most.
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

// with is a generation in which one more level stands for the first ones; nil, for none.
func (g *generation) with(l *level, instead int) *generation {
	to := &generation{pool: g.pool}
	if l != nil {
		to.levels = append(to.levels, l)
	}
	to.levels = append(to.levels, g.levels[instead:]...)
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	for _, l := range to.levels {
		l.uses++
	}
	return to
}

// Free is for [core.Parts]: levels that no generation has any more are kept for the next ones.
func (g *generation) Free() error {
	p := g.pool
	var unused []*level
	p.mu.Lock()
	for _, l := range g.levels {
		if l.uses--; l.uses == 0 {
			unused = append(unused, l)
		}
	}
	p.mu.Unlock()
	return p.spare.Keep(unused...)
}

// entries is the number of entries of all levels.
func (g *generation) entries() (n int) {
	for _, l := range g.levels {
		n += l.n
	}
	return n
}

// sizes are those of the levels.
func (g *generation) sizes() []int {
	sizes := make([]int, len(g.levels))
	for i, l := range g.levels {
		sizes[i] = l.n
	}
	return sizes
}

// Tally is for engines: the counters of a generation.
func (g *generation) Tally() *core.Tally { return &g.tally }

// mostEntries is the largest number of entries: ranks and places are numbers of 32 bits.
const mostEntries = prim.MaxRows

// errLarge is the error of trees that would have more.
func errLarge(entries int) error {
	return fmt.Errorf("%w: %d entries; a tree has %d at most", op.ErrFull, entries, mostEntries)
}
