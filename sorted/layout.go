package sorted

import (
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/inorder"
)

// A generation is arrays, the same on every device (twin: sorted.cuh):
//
//	keys     in ascending order, as unsigned numbers (core.Type.Order)
//	values   value i is that of key i
//	index    levels of keys (inorder.Keys)
//	tally    counters (core.Tally), in 32 bytes
//
// Where each begins, inorder.Layout says. Nothing of a generation changes once lookups see it.
type generation struct {
	pool  *pool
	buf   device.Buffer
	room  int // pairs that there is memory for
	tally core.Tally
}

// tallyAt is where the counters begin in memory for so many pairs.
func (p *pool) tallyAt(room int) int { return p.IndexAt(room, inorder.MostLevels) }
func (p *pool) size(room int) int    { return p.tallyAt(room) + inorder.TallyBytes }

// pool is where generations have their memory from: that of the one before last is kept for
// the next one, which is often about as large.
type pool struct {
	inorder.Layout
	spare core.Spare[*generation]
}

// Memory is for [core.Spare], as is Room.
func (g *generation) Memory() device.Buffer { return g.buf }

// Room is in pairs.
func (g *generation) Room() int { return g.room }

// take is memory for so many pairs, whose content is undefined.
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

// A generation has memory for some more pairs, so that the next but one finds it large
// enough: one in spareShare. Memory for spareRoom pairs more than needed is kept in any case.
const spareShare, spareRoom = 16, 1 << 10

// Free is for [core.Parts].
func (g *generation) Free() error { return g.pool.spare.Keep(g) }

// Tally is for engines: the counters of a generation.
func (g *generation) Tally() *core.Tally { return &g.tally }
