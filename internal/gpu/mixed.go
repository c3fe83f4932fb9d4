package gpu

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// MixedKernels are the kernels of batches that mix operations or combine values. They are in a
// separate image, which is loaded on first use.
type MixedKernels struct {
	Change       device.Kernel // mixed batches without their reductions
	Reduce, Rows device.Kernel // those reductions, and batches of reductions only; not for sets
}

// Entries returns the kernels to load; suffix is appended to their names.
func (k *MixedKernels) Entries(suffix string, w batch.Widths) []Entry {
	entries := []Entry{{"change" + suffix, &k.Change}}
	if w.Val > 0 {
		entries = append(entries, Entry{"reduce" + suffix, &k.Reduce}, Entry{"rows" + suffix, &k.Rows})
	}
	return entries
}

// Submit launches a change by the kernels of a structure. A batch of one kind that combines nothing
// runs change in a grid. Other batches run the kernels that mix loads; reductions of a mixed batch
// run after the rest.
func (c *Change) Submit(dev device.Device, w batch.Widths, change device.Kernel, grid device.Dim,
	mix func() (*MixedKernels, error), launch func(k device.Kernel, grid device.Dim) error) error {
	if !c.Combines() {
		return launch(change, grid)
	}
	mixed, err := mix()
	if err != nil {
		return err
	}
	blocks := 4 // per multiprocessor (gather.cuh)
	if w.Slot == 16 {
		blocks = 3
	}
	if c.Reduces() {
		rows := c.N
		// not combined atomically: fewer blocks, each with enough to gather
		if c.Flags&batch.Float != 0 {
			rows /= GatherRows
		}
		return launch(mixed.Rows, Resident(dev, rows, blocks))
	}
	if err := launch(mixed.Change, Grid(c.N)); err != nil || w.Val == 0 {
		return err
	}
	return launch(mixed.Reduce, Resident(dev, c.N, blocks))
}

// GatherRows is the minimum number of rows per thread for which a thread gathers them.
const GatherRows = 8

// Cached is a flag in addition to those of batches: the table fits in the L2 cache.
const Cached = 256
