package gpu

import "github.com/weftgo/weft/device"

// BlockThreads is the size of every block; kernels use the same (tuning.cuh).
const BlockThreads = 256

// Block is the extent of every block.
var Block = device.Dim{X: BlockThreads}

// Grid is a launch of one thread per item.
func Grid(n int) device.Dim { return device.Dim{X: (n + BlockThreads - 1) / BlockThreads} }

// Wave is a launch that fills the device and strides over n items.
func Wave(dev device.Device, n int) device.Dim {
	return Resident(dev, n, 2048/BlockThreads)
}

// Resident is a launch of so many blocks on each multiprocessor, which stride over n
// items, or of fewer for few items.
func Resident(dev device.Device, n, blocks int) device.Dim {
	return device.Dim{X: max(1, min(Grid(n).X, dev.Properties().Units*blocks))}
}

// MostStrides is how many items threads have at most where a launch strides over a large batch ([Strides]):
// then the next block begins, so that none is late by much.
const MostStrides = 32

// Strides is the launch of a kernel whose threads stride over what another grid has a thread for each of: so
// many blocks on each multiprocessor, before threads have more than one of those.
func Strides(dev device.Device, grid device.Dim, blocks int) device.Dim {
	return device.Dim{X: min(grid.X, max(dev.Properties().Units*blocks, (grid.X+MostStrides-1)/MostStrides))}
}

// Twice tries a launch once more if it fails: for one behind others that cannot be taken back.
func Twice(launch func() error) error {
	if launch() == nil {
		return nil
	}
	return launch()
}

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
