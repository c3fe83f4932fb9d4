package linear

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// engine adds to core.Engine the methods that the policy calls. cpuEngine and gpuEngine implement
// it.
type engine interface {
	core.Engine
	// geometry describes the current table.
	geometry() geometry
	// rehash moves the live pairs to a table with the given number of lines. It returns
	// weft.ErrFull if pairs crowd there, so that some find no slot or all searches get long. If
	// thorough is set, it accepts more crowding. After an error the old table is unchanged.
	rehash(ctx context.Context, lines uint32, thorough bool) error
	// rehashInPlace drops dead slots within the table's memory; a GPU does not drop those of the
	// extra line. It returns false if iterations read that memory, or if no slot is empty. If ctx
	// ends, it stops between lines. The table is then valid, and no slot has become dead.
	rehashInPlace(ctx context.Context) (bool, error)
	// keepTable returns a lease on the current table. revert makes that table current again if it
	// has been replaced, and ends the lease.
	keepTable() *core.Lease
	revert(to *core.Lease) error
	// probeLengths returns the sum and the maximum, over all keys, of the number of slots before a
	// key on its path.
	probeLengths(ctx context.Context) (sum uint64, longest uint32, err error)
}

// newEngine returns an engine of Go code if the device is the host, and an engine of kernels for
// other devices.
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
