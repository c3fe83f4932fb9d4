package sorted

import (
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/inorder"
)

// A generation is arrays, the same on every device (twin: array.cuh):
//
//	keys     in ascending order, as unsigned numbers (core.Type.Order)
//	values   value i is that of key i
//	index    levels of keys (inorder.Keys)
//	tally    counters (core.Tally), in 32 bytes
//
// inorder.Layout defines where each begins. A generation is immutable once lookups see it.
type generation struct {
	pool     *pool
	buf      device.Buffer
	capacity int // capacity in pairs
	tally    core.Tally
}

// tallyAt returns the offset of the counters in memory for capacity pairs.
func (p *pool) tallyAt(capacity int) int { return p.IndexAt(capacity, inorder.MostLevels) }
func (p *pool) size(capacity int) int    { return p.tallyAt(capacity) + inorder.TallyBytes }

// pool allocates the memory of generations. The memory of the one before last is kept for the next
// one, which is often about as large.
type pool struct {
	inorder.Layout
	spare core.Spare[*generation]
}

// Memory and Room implement what core.Spare requires.
func (g *generation) Memory() device.Buffer { return g.buf }

// Capacity returns the capacity in pairs.
func (g *generation) Capacity() int { return g.capacity }

// alloc returns memory with undefined content for that many pairs.
func (p *pool) alloc(pairs int) (*generation, error) {
	if g, ok := p.spare.Acquire(pairs, pairs+pairs/2+spareSlack); ok {
		return g, nil
	}
	if err := p.spare.Trim(); err != nil {
		return nil, err
	}
	capacity := pairs + pairs/spareShare
	buf, err := p.spare.Alloc(p.size(capacity))
	if errors.Is(err, device.ErrMemory) && capacity > pairs {
		capacity = pairs
		buf, err = p.spare.Alloc(p.size(capacity))
	}
	if err != nil {
		return nil, fmt.Errorf("%d pairs of %d and %d bytes: %w", pairs, p.Key, p.Val, err)
	}
	return &generation{pool: p, buf: buf, capacity: capacity}, nil
}

// A generation has memory for some more pairs, one in spareShare, so that the next but one fits it.
// Memory for up to spareSlack pairs more than needed is reused in any case.
const spareShare, spareSlack = 16, 1 << 10

// Free implements core.Parts.
func (g *generation) Free() error { return g.pool.spare.Release(g) }

// Tally returns the counters of a generation, for engines.
func (g *generation) Tally() *core.Tally { return &g.tally }
