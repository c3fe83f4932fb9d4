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
//	index    levels of keys: number i of a level is number 16*i+15 of the one below,
//	         the first of which is the keys; up to a level of fewer than 16
//	tally    counters (core.Tally), in 32 bytes
//
// Each begins at a multiple of 256 bytes. Where, depends on the number of pairs that there is
// memory for; how much of it holds something, on the number of pairs. Nothing of a generation
// changes once lookups see it.
type generation struct {
	pool  *pool
	buf   device.Buffer
	room  int // pairs that there is memory for
	tally core.Tally
}

// align is where arrays begin.
const align = 256

// tallyBytes is the size of the counters.
const tallyBytes = 32

func aligned(n int) int { return (n + align - 1) &^ (align - 1) }

// valsAt, indexAt and tallyAt are where the arrays begin in memory for so many pairs.
func (p *pool) valsAt(room int) int { return aligned(room * p.key) }

func (p *pool) indexAt(room, level int) int {
	at := p.valsAt(room) + aligned(room*p.val)
	for range level {
		room >>= inorder.FanBits
		at += aligned(room * p.key)
	}
	return at
}

func (p *pool) tallyAt(room int) int { return p.indexAt(room, inorder.MostLevels) }
func (p *pool) size(room int) int    { return p.tallyAt(room) + tallyBytes }

// pool is where generations have their memory from: that of the one before last is kept for
// the next one, which is often about as large.
type pool struct {
	key, val int // bytes
	spare    core.Spare[*generation]
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
		return nil, fmt.Errorf("%d pairs of %d and %d bytes: %w", pairs, p.key, p.val, err)
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
