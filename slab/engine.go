package slab

import (
	"context"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// engine extends core.Engine with the operations that the policy needs. Its implementations are
// cpuEngine and gpuEngine.
type engine interface {
	core.Engine
	core.Expander
	// geometry describes the current table, units its chained slabs.
	geometry() geometry
	units() *alloc.Owner
	// rehash moves the live pairs to a table with the given number of buckets and a pool of at
	// least the given units. The pairs of a key keep their order. On an error the old table is
	// unchanged.
	rehash(ctx context.Context, buckets uint32, units int) error
	// flush drops dead slots bucket by bucket, keeps the order of the others, and frees the slabs
	// that this empties (FLUSH).
	flush(ctx context.Context) error
	// chains counts the buckets by their number of slabs. The last class counts all longer chains,
	// too.
	chains(ctx context.Context) ([chainLengths]uint64, error)
}

// chainLengths is the number of classes that chains distinguishes.
const chainLengths = 32

// newEngine returns the CPU engine for a host device and the GPU engine for any other. The pool has
// at least the given number of units; a light (fixed) pool never grows.
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
