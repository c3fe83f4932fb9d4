package gpu

import "github.com/weftgo/weft/device"

// BlockThreads is the number of threads per block. Kernels use the same constant (tuning.cuh).
const BlockThreads = 256

// Block is the extent of every block.
var Block = device.Dim{X: BlockThreads}

// Grid returns the number of blocks that gives each of n items its own thread.
func Grid(n int) device.Dim { return device.Dim{X: (n + BlockThreads - 1) / BlockThreads} }

// Wave returns a grid that fills the device. Its threads stride over n items.
func Wave(dev device.Device, n int) device.Dim {
	return Resident(dev, n, 2048/BlockThreads)
}

// Resident returns a grid of the given number of blocks per multiprocessor, or of fewer blocks if n
// is small. Its threads stride over n items.
func Resident(dev device.Device, n, blocks int) device.Dim {
	return device.Dim{X: max(1, min(Grid(n).X, dev.Properties().Units*blocks))}
}

// MaxStrides is the maximum number of items per thread in a grid that [Strides] returns. The limit
// bounds how long the last block runs after the others have ended.
const MaxStrides = 32

// Strides returns a grid for a kernel that strides over the items of the given grid, which has one
// thread per item. Threads take more than one item only if the grid has more than the given number
// of blocks per multiprocessor.
func Strides(dev device.Device, grid device.Dim, blocks int) device.Dim {
	return device.Dim{X: min(grid.X, max(dev.Properties().Units*blocks, (grid.X+MaxStrides-1)/MaxStrides))}
}

// RetryOnce calls launch a second time if the first call fails. Use it for a launch that completes
// earlier ones, which cannot be undone.
func RetryOnce(launch func() error) error {
	if launch() == nil {
		return nil
	}
	return launch()
}

// Entry names a kernel to load, and points to the variable that receives the kernel. The name lacks
// the prefix of the image (see [device.Image.Entry]).
type Entry struct {
	Name string
	To   *device.Kernel
}

// Load loads an image onto a device and stores its kernels in the entries.
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
