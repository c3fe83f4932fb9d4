package slab

import (
	"context"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// engine is what the policy needs of a machine beside what all engines do.
// There are two, cpuEngine and gpuEngine.
type engine interface {
	core.Engine
	core.Expander
	// geometry describes the table in use, units its chained slabs.
	geometry() geometry
	units() *alloc.Owner
	// rehash moves the live pairs to a table of that many buckets, those of a
	// key in their order, with a pool of at least that many units. On an error
	// the old one is unchanged.
	rehash(ctx context.Context, buckets uint32, units int) error
	// flush drops dead slots bucket by bucket, keeps the order of the others,
	// and gives back the slabs this empties (FLUSH).
	flush(ctx context.Context) error
	// chains counts the buckets by their number of slabs, the last count being
	// of those with more.
	chains(ctx context.Context) ([chainLengths]uint64, error)
}

// chainLengths is the number of classes that chains distinguishes.
const chainLengths = 32

// newEngine chooses the engine: Go on a device that is the host, kernels on
// any other. The pool has at least that many units; a light one never grows.
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
