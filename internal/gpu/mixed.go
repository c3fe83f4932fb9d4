package gpu

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// MixedKernels are those of batches that mix operations or combine values. They lie
// in an image of their own, which is loaded when they are needed.
type MixedKernels struct {
	Change       device.Kernel // mixed batches but for their reductions
	Reduce, Rows device.Kernel // those, and batches of nothing else: not of sets
}

// Entries are the kernels to be found, with what is appended to their names.
func (k *MixedKernels) Entries(suffix string, w batch.Widths) []Entry {
	entries := []Entry{{"change" + suffix, &k.Change}}
	if w.Val > 0 {
		entries = append(entries, Entry{"reduce" + suffix, &k.Reduce}, Entry{"rows" + suffix, &k.Rows})
	}
	return entries
}

// Submit launches a change by the kernels of a structure: change, in a grid, if the
// batch is of one kind and combines nothing; and else what mix loads, of a mixed batch
// the reductions behind the rest.
func (c *Change) Submit(dev device.Device, w batch.Widths, change device.Kernel, grid device.Dim,
	mix func() (*MixedKernels, error), launch func(k device.Kernel, grid device.Dim) error) error {
	if !c.Combines() {
		return launch(change, grid)
	}
	mixed, err := mix()
	if err != nil {
		return err
	}
	blocks := 4 // on a multiprocessor (gather.cuh)
	if w.Slot == 16 {
		blocks = 3
	}
	if c.Reduces() {
		rows := c.N
		if c.Flags&batch.Float != 0 { // no atomic combines them: fewer blocks, each with enough to gather
			rows /= GatherRows
		}
		return launch(mixed.Rows, Resident(dev, rows, blocks))
	}
	if err := launch(mixed.Change, Grid(c.N)); err != nil || w.Val == 0 {
		return err
	}
	return launch(mixed.Reduce, Resident(dev, c.N, blocks))
}

// GatherRows is the number of rows of a thread from which on it gathers them.
const GatherRows = 8

// Cached is a flag beside those of batches: the table lies in the L2 cache.
const Cached = 256
