package slab

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/deal"
)

// cpuEngine runs on the cores of the host. K and V are the types of a batch's
// columns as unsigned integers, SK and SV those of a slot.
//
// Lookups read without locks. Changes need no atomic operations in slabs
// either: buckets are dealt out to the cores, and each core runs, in batch
// order, the operations on its buckets. Only units of the pool are taken and
// given back by atomic operations.
type cpuEngine[K, SK storedKey, V, SV storedVal] struct {
	dev   device.Host
	fixed bool
	gen   *generation

	deal deal.Dealer
}

func newCPUEngine[K storedKey, V storedVal, SK storedKey, SV storedVal](dev device.Host, g geometry, units int, fixed bool) (engine, error) {
	e := &cpuEngine[K, SK, V, SV]{dev: dev, fixed: fixed}
	gen, err := e.allocate(g, units)
	if err != nil {
		return nil, err
	}
	e.gen = gen
	return e, nil
}

// allocate makes an empty generation.
func (e *cpuEngine[K, SK, V, SV]) allocate(g geometry, units int) (*generation, error) {
	base, err := e.dev.Alloc(g.bytes())
	if err != nil {
		return nil, fmt.Errorf("table of %d bytes: %w", g.bytes(), err)
	}
	pool, err := newPool(e.dev, units, e.fixed)
	if err != nil {
		return nil, errors.Join(err, e.dev.Free(base))
	}
	gen := &generation{geometry: g, base: base, pool: pool, refs: 1, order: core.SpreadOver(g.buckets)}
	e.wipe(gen)
	return gen, nil
}

// wipe empties the base slabs of a generation.
func (e *cpuEngine[K, SK, V, SV]) wipe(g *generation) {
	words := batch.View[uint64](g.base.Host)
	e.dev.Parallel(len(words), 1<<17, func(lo, hi int) {
		part := words[lo:hi]
		for i := range part {
			part[i] = ^uint64(0)
		}
	})
	*countersOf(g) = counters{}
}

func countersOf(g *generation) *counters {
	return (*counters)(unsafe.Pointer(&g.base.Host[g.bytes()-slabBytes]))
}

func (e *cpuEngine[K, SK, V, SV]) geometry() geometry { return e.gen.geometry }

func (e *cpuEngine[K, SK, V, SV]) pool() *Alloc { return e.gen.pool }

func (e *cpuEngine[K, SK, V, SV]) counts(context.Context) (counters, error) {
	return *countersOf(e.gen), nil
}

func (e *cpuEngine[K, SK, V, SV]) settle(context.Context) error { return nil }

// lost is nothing: changeOn reports what found no room.
func (e *cpuEngine[K, SK, V, SV]) lost(context.Context) (int, error) { return 0, nil }

func (e *cpuEngine[K, SK, V, SV]) clear(ctx context.Context) error {
	if err := e.gen.pool.Clear(ctx); err != nil {
		return err
	}
	e.wipe(e.gen)
	return nil
}

func (e *cpuEngine[K, SK, V, SV]) hold() *generation {
	e.gen.refs++
	return e.gen
}

func (e *cpuEngine[K, SK, V, SV]) release(g *generation) error {
	if g.refs--; g.refs > 0 {
		return nil
	}
	return errors.Join(e.dev.Free(g.base), g.pool.Close())
}

func (e *cpuEngine[K, SK, V, SV]) close() error { return e.release(e.gen) }

func (e *cpuEngine[K, SK, V, SV]) widths() batch.Widths {
	var k K
	var v V
	var s slot[SK, SV]
	return batch.Widths{Key: int(unsafe.Sizeof(k)), Val: int(unsafe.Sizeof(v)), Slot: int(unsafe.Sizeof(s))}
}
