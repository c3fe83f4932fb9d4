package gpu

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Submit launches a change by the kernels of a structure. Reductions alone are for
// rows; those of a mixed batch for mixed, behind the rest. Both lie in an image that
// combining loads when they are needed.
func (c *Change) Submit(dev device.Device, w batch.Widths, change device.Kernel,
	combining func() (rows, mixed device.Kernel, err error), launch func(k device.Kernel, grid device.Dim) error) error {
	if w.Val == 0 || !c.Combines() {
		return launch(change, Grid(c.N))
	}
	rows, mixed, err := combining()
	if err != nil {
		return err
	}
	// Blocks stride over the batch: as many as fit the device.
	blocks := 4 // on a multiprocessor (gather.cuh)
	if w.Slot == 16 {
		blocks = 3
	}
	fit := dev.Properties().Units * blocks
	if !c.Reduces() {
		if err := launch(change, Grid(c.N)); err != nil {
			return err
		}
		return launch(mixed, device.Dim{X: min(Grid(c.N).X, fit)})
	}
	// Floats, which no atomic combines, get fewer, so that each has enough to gather.
	most := Grid(c.N).X
	if c.Flags&batch.Float != 0 {
		most = max(1, c.N/(GatherRows*BlockThreads))
	}
	return launch(rows, device.Dim{X: min(most, fit)})
}

// GatherRows is the number of rows of a thread from which on it gathers them.
const GatherRows = 8

// Cached is a flag beside those of batches: the table lies in the L2 cache.
const Cached = 256
