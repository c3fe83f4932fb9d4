package slab

import (
	"context"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// engine extends core.Engine with operations for the policy. cpuEngine and gpuEngine implement it.
type engine interface {
	core.Engine
	core.Expander
	// geometry and units describe the current table: its buckets and its chained slabs.
	geometry() geometry
	units() *alloc.Owner
	// rehash moves the live pairs to a table with the given number of buckets and a pool with at
	// least the given number of units. The pairs of a key keep their order. After an error nothing
	// has changed.
	rehash(ctx context.Context, buckets uint32, units int) error
	// flush drops the dead slots of each bucket, keeps the order of the other slots, and frees the
	// slabs that become empty (the paper's FLUSH).
	flush(ctx context.Context) error
	// chains counts the buckets by number of slabs. The last class includes all longer chains.
	chains(ctx context.Context) ([chainLengths]uint64, error)
}

// chainLengths is the number of classes that chains returns.
const chainLengths = 32

// newEngine returns a CPU engine for a host device, and a GPU engine for any other device. The pool
// has at least the given number of units. If fixed is true, the pool is light and never grows.
func newEngine(dev device.Device, w batch.Widths, g geometry, units int, fixed, multi bool) (engine, *core.Leases, error) {
	host, ok := dev.(device.Host)
	if !ok {
		return newGPUEngine(dev, w, g, units, fixed, multi)
	}
	open, err := cpu.Choose(w,
		newCPUEngine[uint32, uint32, uint32, uint32], newCPUEngine[uint32, uint64, uint64, uint64],
		newCPUEngine[uint64, uint32, uint64, uint64], newCPUEngine[uint64, uint64, uint64, uint64],
		newCPUEngine[uint32, struct{}, uint32, struct{}], newCPUEngine[uint64, struct{}, uint64, struct{}])
	if err != nil {
		return nil, nil, err
	}
	return open(host, g, units, fixed)
}
