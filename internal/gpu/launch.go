package gpu

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// BlockThreads is the size of every block; kernels use the same (tuning.cuh).
const BlockThreads = 256

// Block is the extent of every block.
var Block = device.Dim{X: BlockThreads}

// Grid is a launch of one thread per item.
func Grid(n int) device.Dim { return device.Dim{X: (n + BlockThreads - 1) / BlockThreads} }

// Wave is a launch that fills the device and strides over n items.
func Wave(dev device.Device, n int) device.Dim {
	return device.Dim{X: max(1, min(Grid(n).X, dev.Properties().Units*2048/BlockThreads))}
}

// RowsGrid is a launch whose blocks go through the rows of a batch that combines
// values (gather.cuh), as many as fit a multiprocessor. Floats, which no atomic
// combines, get fewer, so that each has enough of them to gather.
func RowsGrid(dev device.Device, b *batch.Batch, w batch.Widths) device.Dim {
	blocks, most := 4, Grid(b.N).X
	if w.Slot == 16 {
		blocks = 3
	}
	if b.Flags&batch.Float != 0 {
		most = b.N / (gatherRows * BlockThreads)
	}
	return device.Dim{X: max(1, min(most, dev.Properties().Units*blocks))}
}

// gatherRows is the number of rows of a thread from which on it gathers.
const gatherRows = 8

// Cached is a flag beside those of batches: the table lies in the L2 cache.
const Cached = 1 << 30

// Entry is a kernel to be found: its name without what it owes to its image (see
// [device.Image.Entry]), and where to put it.
type Entry struct {
	Name string
	To   *device.Kernel
}

// Load loads an image and finds kernels in it.
func Load(dev device.Device, img *device.Image, entries []Entry) error {
	mod, err := dev.Load(img)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if *e.To, err = mod.Kernel(img.Entry(e.Name)); err != nil {
			return err
		}
	}
	return nil
}
