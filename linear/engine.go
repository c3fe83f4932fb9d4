package linear

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// engine is what the policy needs of a machine beside what all engines do.
// There are two, cpuEngine and gpuEngine.
type engine interface {
	core.Engine
	// geometry describes the table in use.
	geometry() geometry
	// rehash moves the live pairs to a table of that many lines. If they crowd
	// there, so that some find no slot or all take long, that is weft.ErrFull;
	// thorough gives up later. On an error the old table is unchanged.
	rehash(ctx context.Context, lines uint32, thorough bool) error
	// rehashInPlace drops the dead slots within the memory that the table has; a
	// GPU leaves those of the extra line. It reports false if it can't: iterations
	// read that memory, or no slot is empty. Between lines it stops when ctx ends;
	// then the table is as good as before, and no slot has come to be dead.
	rehashInPlace(ctx context.Context) (bool, error)
	// hold keeps the table in use; revert goes back to it, if it has been replaced
	// since, and ends the hold.
	hold() *core.Lease
	revert(to *core.Lease) error
	// probeLengths are the sum and the maximum over all keys of how many slots
	// lie before a key on its path.
	probeLengths(ctx context.Context) (sum uint64, longest uint32, err error)
}

// newEngine chooses the engine: Go on a device that is the host, kernels on
// any other.
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
