package gpu

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// MixedKernels are the kernels for batches that mix operations or combine values. They are in a
// separate image, which is loaded on first use.
type MixedKernels struct {
	Change device.Kernel // mixed batches, except their reductions
	// reductions of a mixed batch, and batches of reductions only; nil for sets
	Reduce, Rows device.Kernel
}

// Entries returns the kernels to load. The kernels' names end in suffix.
func (k *MixedKernels) Entries(suffix string, w batch.Widths) []Entry {
	entries := []Entry{{"change" + suffix, &k.Change}}
	if w.Val > 0 {
		entries = append(entries, Entry{"reduce" + suffix, &k.Reduce}, Entry{"rows" + suffix, &k.Rows})
	}
	return entries
}

// Submit launches the kernels that run a change. A batch of one kind that combines no values runs
// the kernel change in the given grid. Other batches run the kernels that mix returns. In a mixed
// batch, reductions run after all other operations.
func (c *Change) Submit(dev device.Device, w batch.Widths, change device.Kernel, grid device.Dim,
	mix func() (*MixedKernels, error), launch func(k device.Kernel, grid device.Dim) error) error {
	if !c.Combines() {
		return launch(change, grid)
	}
	mixed, err := mix()
	if err != nil {
		return err
	}
	blocks := 4 // blocks per multiprocessor (gather.cuh)
	if w.Slot == 16 {
		blocks = 3
	}
	if c.Reduces() {
		rows := c.N
		// Float values are not combined atomically, so use fewer blocks that gather more rows each.
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

// GatherRows is the minimum number of rows per thread at which threads gather rows before they
// access the table.
const GatherRows = 8

// Cached is a flag of a change that extends batch.Flags. It states that the table fits in the L2
// cache.
const Cached = 256
