package slab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/internal/hash"
)

// graphImage is the memory of a graph as bytes. It follows the description in layout.go and
// graph_layout.go, and shares only the hash with the engines.
type graphImage struct {
	*image
	entries    []vertex
	owners     []uint32
	live, dead uint64
	chained    int
}

// checkMemory reports the first violation of these rules:
//
//   - each base slab belongs to at most one vertex, and a base slab without owner is empty,
//   - a vertex has as many neighbors as its degree, each once and in its bucket, and no incoming
//     arcs,
//   - no slot after an empty slot is in use, and no slab follows an empty slot,
//   - exactly the units in a chain are taken, each in one chain,
//   - counters and the dictionary's numbers match the content.
func (g *graph) checkMemory() error {
	ctx := context.Background()
	// Work on the stream clears the counts of a refused batch.
	if e, ok := g.policy.engine.(*gpuGraph); ok {
		if err := e.LastChange().Sync(ctx); err != nil {
			return err
		}
	}
	t := table{g.core, &policy{}}
	im, err := t.image()
	if err != nil {
		return err
	}
	d := g.policy.engine.dict()
	m := &graphImage{image: im, entries: make([]vertex, d.n), owners: make([]uint32, im.buckets+1)}
	s, err := g.core.Device.NewStream()
	if err != nil {
		return err
	}
	if d.n > 0 {
		err = s.CopyOut(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&m.entries[0])), vertexBytes*d.n), d.vertices.Ptr)
	}
	err = errors.Join(err, s.CopyOut(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&m.owners[0])), 4*len(m.owners)), d.owners.Ptr), s.Close())
	if err != nil {
		return err
	}
	kept := uint32(0)
	for u, v := range m.entries {
		if err := m.vertex(uint32(u), v); err != nil {
			return fmt.Errorf("vertex %d, %+v: %w", u, v, err)
		}
		kept += v.slabs
	}
	for b, u := range m.owners {
		if slab := m.base[128*b:][:128]; u == noOwner && !bytes.Equal(slab, emptySlab) {
			return fmt.Errorf("base slab %d is nobody's, and has %x", b, slab)
		} else if u != noOwner {
			kept--
		}
	}
	if sum := m.slabs(); sum != d.ownedSlabs || d.nextSlab > im.buckets {
		return fmt.Errorf("vertices have %d base slabs, and are said to have %d; the next is %d of %d", sum, d.ownedSlabs, d.nextSlab, im.buckets)
	}
	taken := 0
	for _, b := range m.blocks {
		for _, word := range b.bitmap {
			for ; word != 0; word &= word - 1 {
				taken++
			}
		}
	}
	now, err := g.core.Engine.ReadCounters(ctx)
	if kept != 0 || taken != m.chained || now.Live != m.live || now.Used != m.live+m.dead {
		return fmt.Errorf("base slabs of vertices that are not there: %d; %d units taken, %d in chains; %+v, want %d live and %d dead: %w", int32(kept), taken, m.chained, now, m.live, m.dead, err)
	}
	return err
}

// slabs returns the number of base slabs that vertices own.
func (m *graphImage) slabs() (n uint32) {
	for _, v := range m.entries {
		n += v.slabs
	}
	return n
}

func (m *graphImage) vertex(u uint32, v vertex) error {
	seen := map[uint32]bool{}
	for b := v.first; b < v.first+v.slabs; b++ {
		if m.owners[b] != u {
			return fmt.Errorf("base slab %d is that of %d", b, m.owners[b])
		}
		slab, ended := m.base[128*int(b):][:128], false
		for {
			for at := 0; at+m.Slot <= 120; at += m.Slot {
				key := binary.LittleEndian.Uint32(slab[at+m.Slot-4:])
				switch {
				case key == ^uint32(0):
					ended = true
				case ended:
					return fmt.Errorf("bucket %d: %d behind an empty slot", b, key)
				case key == ^uint32(0)-1:
					m.dead++
				case seen[key]:
					return fmt.Errorf("bucket %d: %d for the second time", b, key)
				case v.first+hash.Reduce32(hash.Uint32(key, m.seed), v.slabs) != b:
					return fmt.Errorf("bucket %d: %d belongs elsewhere", b, key)
				default:
					seen[key] = true
				}
			}
			next := binary.LittleEndian.Uint32(slab[124:])
			if next == noUnit {
				break
			}
			unit, taken, err := m.unit(next)
			if err != nil || !taken || ended {
				return fmt.Errorf("bucket %d: slab %#x, taken %v, behind a full one %v: %w", b, next, taken, !ended, err)
			}
			slab = unit
			m.chained++
		}
	}
	m.live += uint64(len(seen))
	if len(seen) != int(v.degree) || v.incoming != 0 {
		return fmt.Errorf("%d neighbors", len(seen))
	}
	return nil
}
