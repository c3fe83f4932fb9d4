// Package prim implements data-parallel primitives on a GPU: prefix sums ([Scan]), stable radix
// sort and partition of rows ([Sort]), boundaries between equal keys ([Group]), and sums, minima
// and maxima of segments ([Reduce]).
//
// An operation is a struct that describes the work and its columns in device memory. Its method
// ScratchBytes returns the size of the scratch memory that the operation needs. The method of
// [Kernels] with the same name submits the operation to a stream and does not wait. Columns and
// scratch memory must therefore stay valid until the stream has finished. Operations on the same
// stream may share scratch memory.
//
// A scan reads its input once and writes its output once, as does each pass of a sort. Decoupled
// look-back makes this possible. A block publishes the sum of its tile at once, and adds up the
// sums of earlier tiles while their blocks still run (Merrill and Garland, "Single-pass Parallel
// Prefix Scan with Decoupled Look-back", 2016). The radix sort looks back per digit (Adinets and
// Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs", 2022). The reduction
// divides values and segments together into equal tiles, as merge-based SpMV does (Merrill and
// Garland, "Merge-based Parallel Sparse Matrix-Vector Multiplication", 2016).
//
// A block waits only for blocks that began earlier, because an atomic counter numbers each tile
// when its block begins.
package prim

import (
	"fmt"
	"sync"

	"github.com/weftgo/weft/device"
)

// MaxRows is the maximum number of rows of an operation. Positions up to the end of the last tile
// must fit in 32 bits.
const MaxRows = 1<<32 - 1<<16

// Kernels runs primitives on one device. It is safe for concurrent use.
type Kernels struct {
	dev    device.Device
	mu     sync.Mutex
	loaded map[string]device.Kernel
}

// Load returns the primitives for a device. Further images are loaded on first use. Load returns
// device.ErrNoKernels if the device runs no kernels.
func Load(dev device.Device) (*Kernels, error) {
	k := &Kernels{dev: dev, loaded: make(map[string]device.Kernel)}
	_, err := k.kernel(&scanImage, "scan_64")
	return k, err
}

func (k *Kernels) kernel(img *device.Image, name string) (device.Kernel, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if kernel, ok := k.loaded[name]; ok {
		return kernel, nil
	}
	mod, err := k.dev.Load(img)
	if err != nil {
		return nil, err
	}
	kernel, err := mod.Kernel(name)
	if err != nil {
		return nil, err
	}
	k.loaded[name] = kernel
	return kernel, nil
}

func launch[P any](k *Kernels, s *device.Stream, img *device.Image, name string, blocks, threads int, params *P) error {
	kernel, err := k.kernel(img, name)
	if err != nil {
		return err
	}
	return device.Launch(s, kernel, device.Dim{X: blocks}, device.Dim{X: threads}, params)
}

// resident returns a grid of at most the given number of blocks, with perUnit blocks per
// multiprocessor.
func (k *Kernels) resident(perUnit, blocks int) int {
	return max(1, min(blocks, perUnit*k.dev.Properties().Units))
}

func tiles(n, tile int) int { return (n + tile - 1) / tile }

// scratchAlign is the alignment of the arrays in scratch memory.
const scratchAlign = 256

// Carve divides memory into aligned arrays. Its value is the address of the next array, a multiple
// of scratchAlign. A Carve that starts at 0 measures the total size.
type Carve device.Ptr

// Alloc returns the address of an array of the given size and advances c past it.
func (c *Carve) Alloc(bytes int) device.Ptr {
	at := device.Ptr(*c)
	*c += Carve((bytes + scratchAlign - 1) &^ (scratchAlign - 1))
	return at
}

// column is the address of an array that an operation needs, with items of width bytes.
type column struct {
	name  string
	ptr   device.Ptr
	width int
}

// check returns ErrInvalid if the number of rows, the scratch memory or an address is invalid.
func check(name string, n, needed int, scratch device.Buffer, columns ...column) error {
	if n < 0 || n > MaxRows {
		return invalid("%s of %d rows; 0 to %d are possible", name, n, MaxRows)
	}
	if scratch.Size < needed || scratch.Ptr%scratchAlign != 0 {
		return invalid("%s of %d rows with %d bytes of scratch memory at %#x; it needs %d, aligned to %d", name, n, scratch.Size, uint64(scratch.Ptr), needed, scratchAlign)
	}
	for _, c := range columns {
		if c.ptr == 0 || c.ptr%device.Ptr(c.width) != 0 {
			return invalid("%s with %s at %#x; the address must be a multiple of %d, and not 0", name, c.name, uint64(c.ptr), c.width)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("prim: %w: "+format, append([]any{device.ErrInvalid}, args...)...)
}
