package linear

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// engine is what the policy requires of an engine beyond core.Engine. cpuEngine and gpuEngine
// implement it.
type engine interface {
	core.Engine
	// geometry describes the table in use.
	geometry() geometry
	// rehash moves the live pairs to a table of lines lines. It returns weft.ErrFull if the pairs
	// crowd there, so that some find no slot or all take long; thorough makes it give up later. On
	// an error the old table is unchanged.
	rehash(ctx context.Context, lines uint32, thorough bool) error
	// rehashInPlace drops the dead slots within the table's memory; a GPU leaves those of the extra
	// line. It reports false if iterations read that memory, or if no slot is empty. When ctx ends,
	// it stops between lines; then the table is as good as before, and no slot has become dead.
	rehashInPlace(ctx context.Context) (bool, error)
	// keepTable keeps the table in use. revert returns to it, if it has been replaced since, and
	// ends that use.
	keepTable() *core.Lease
	revert(to *core.Lease) error
	// probeLengths returns the sum and the maximum, over all keys, of the number of slots before a
	// key on its path.
	probeLengths(ctx context.Context) (sum uint64, longest uint32, err error)
}

// newEngine chooses the engine: Go code on a device that is the host, kernels on any other.
func newEngine(dev device.Device, w batch.Widths, g geometry, fixed bool) (engine, *core.Leases, error) {
	host, ok := dev.(device.Host)
	if !ok {
		return newGPUEngine(dev, w, g, fixed)
	}
	open, err := cpu.Choose(w,
		newCPUEngine[uint32, uint32, uint32, uint32], newCPUEngine[uint32, uint64, uint64, uint64],
		newCPUEngine[uint64, uint32, uint64, uint64], newCPUEngine[uint64, uint64, uint64, uint64],
		newCPUEngine[uint32, struct{}, uint32, struct{}], newCPUEngine[uint64, struct{}, uint64, struct{}])
	if err != nil {
		return nil, nil, err
	}
	return open(host, g, fixed)
}
