package gpu

import "github.com/weftgo/weft/device"

// BlockThreads is the size of every block; kernels use the same constant (tuning.cuh).
const BlockThreads = 256

// Block is the extent of every block.
var Block = device.Dim{X: BlockThreads}

// Grid returns a launch of one thread per item.
func Grid(n int) device.Dim { return device.Dim{X: (n + BlockThreads - 1) / BlockThreads} }

// Wave returns a launch that fills the device and strides over n items.
func Wave(dev device.Device, n int) device.Dim {
	return Resident(dev, n, 2048/BlockThreads)
}

// Resident returns a launch of the given number of blocks per multiprocessor, which stride over n
// items, or of fewer blocks for few items.
func Resident(dev device.Device, n, blocks int) device.Dim {
	return device.Dim{X: max(1, min(Grid(n).X, dev.Properties().Units*blocks))}
}

// MaxStrides is the maximum number of items per thread of a launch that strides over a large batch
// ([Strides]). After that the next block begins, which bounds how late a block ends.
const MaxStrides = 32

// Strides returns the launch of a kernel that strides over the items of a grid with one thread per
// item. It has the given number of blocks per multiprocessor before threads get more than one item.
func Strides(dev device.Device, grid device.Dim, blocks int) device.Dim {
	return device.Dim{X: min(grid.X, max(dev.Properties().Units*blocks, (grid.X+MaxStrides-1)/MaxStrides))}
}

// RetryOnce retries a launch once if it fails, for a launch that follows others that cannot be
// undone.
func RetryOnce(launch func() error) error {
	if launch() == nil {
		return nil
	}
	return launch()
}

// Entry names a kernel to load, without the prefix of its image (see [device.Image.Entry]), and the
// variable that receives it.
type Entry struct {
	Name string
	To   *device.Kernel
}

// Load loads an image and looks up kernels in it.
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
