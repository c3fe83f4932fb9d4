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
	pool  *pool
	buf   device.Buffer
	room  int // capacity in pairs
	tally core.Tally
}

// tallyAt returns the offset of the counters in memory for room pairs.
func (p *pool) tallyAt(room int) int { return p.IndexAt(room, inorder.MostLevels) }
func (p *pool) size(room int) int    { return p.tallyAt(room) + inorder.TallyBytes }

// pool allocates the memory of generations. The memory of the one before last is kept for the next
// one, which is often about as large.
type pool struct {
	inorder.Layout
	spare core.Spare[*generation]
}

// Memory and Room implement what core.Spare requires.
func (g *generation) Memory() device.Buffer { return g.buf }

// Room returns the capacity in pairs.
func (g *generation) Room() int { return g.room }

// take returns memory with undefined content for that many pairs.
func (p *pool) take(pairs int) (*generation, error) {
	if g, ok := p.spare.Take(pairs, pairs+pairs/2+spareRoom); ok {
		return g, nil
	}
	if err := p.spare.Trim(); err != nil {
		return nil, err
	}
	room := pairs + pairs/spareShare
	buf, err := p.spare.Alloc(p.size(room))
	if errors.Is(err, device.ErrMemory) && room > pairs {
		room = pairs
		buf, err = p.spare.Alloc(p.size(room))
	}
	if err != nil {
		return nil, fmt.Errorf("%d pairs of %d and %d bytes: %w", pairs, p.Key, p.Val, err)
	}
	return &generation{pool: p, buf: buf, room: room}, nil
}

// A generation has memory for some more pairs, one in spareShare, so that the next but one fits it.
// Memory for up to spareRoom pairs more than needed is reused in any case.
const spareShare, spareRoom = 16, 1 << 10

// Free implements core.Parts.
func (g *generation) Free() error { return g.pool.spare.Keep(g) }

// Tally returns the counters of a generation, for engines.
func (g *generation) Tally() *core.Tally { return &g.tally }
