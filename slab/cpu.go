package slab

import (
	"context"
	"unsafe"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// cpuEngine runs operations on all cores of a host. K and V are the types of a batch's columns as
// unsigned integers. SK and SV are the types of a slot.
//
// Lookups read without locks. Changes need no atomic operations in slabs either: each core owns a
// part of the buckets and runs the operations on them in batch order. Only allocating and freeing
// units is atomic.
type cpuEngine[K, SK cpu.Key, V, SV cpu.Val] struct {
	cpu.Engine
	fixed bool
}

func newCPUEngine[K cpu.Key, V cpu.Val, SK cpu.Key, SV cpu.Val](dev device.Host, g geometry, units int, fixed bool) (engine, *core.Leases, error) {
	e := &cpuEngine[K, SK, V, SV]{cpu.Engine{Device: dev, SlotsPerLine: slotsIn(int(unsafe.Sizeof(cpu.Slot[SK, SV]{})))}, fixed}
	gen, err := allocate(dev, g, units, fixed)
	if err != nil {
		return nil, nil, err
	}
	leases, err := e.Start(gen)
	return e, leases, err
}

func (e *cpuEngine[K, SK, V, SV]) geometry() geometry { return e.Parts().(*generation).geometry }

func (e *cpuEngine[K, SK, V, SV]) units() *alloc.Owner { return e.Parts().(*generation).units }

// Clear implements core.Engine.
func (e *cpuEngine[K, SK, V, SV]) Clear(ctx context.Context) error {
	// Clear the slabs first, so that no chain leads to a free unit.
	if err := e.Engine.Clear(ctx); err != nil {
		return err
	}
	e.Parts().(*generation).long.Store(false)
	return e.units().Clear(ctx)
}
