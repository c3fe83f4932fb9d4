package sorted

import (
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/inorder"
)

// A generation consists of arrays, the same on every device (see array.cuh):
//
//	keys     in ascending order, as unsigned numbers (core.Type.Order)
//	values   value i belongs to key i
//	index    levels of keys (inorder.Keys)
//	tally    counters (core.Tally), in 32 bytes
//
// inorder.Layout defines where each array begins. A generation is immutable once lookups see it.
type generation struct {
	pool     *pool
	buf      device.Buffer
	capacity int // capacity in pairs
	tally    core.Tally
}

// tallyAt returns the offset of the tally in memory with the given capacity.
func (p *pool) tallyAt(capacity int) int { return p.IndexAt(capacity, inorder.MostLevels) }
func (p *pool) size(capacity int) int    { return p.tallyAt(capacity) + inorder.TallyBytes }

// pool allocates the memory of generations. The memory of a replaced generation is kept for the
// next one, which often has about the same size.
type pool struct {
	inorder.Layout
	spare core.Spare[*generation]
}

// Memory returns the memory of the generation. core.Spare calls it.
func (g *generation) Memory() device.Buffer { return g.buf }

// Capacity returns the capacity in pairs. core.Spare calls it.
func (g *generation) Capacity() int { return g.capacity }

// alloc returns memory for the given number of pairs. Its content is undefined.
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

// New memory has 1/spareShare more pairs than needed, so that a later generation fits it. Memory
// for up to spareSlack pairs more than needed is always reused.
const spareShare, spareSlack = 16, 1 << 10

// Free implements core.Parts.
func (g *generation) Free() error { return g.pool.spare.Release(g) }

// Tally returns the counters of pairs.
func (g *generation) Tally() *core.Tally { return &g.tally }
