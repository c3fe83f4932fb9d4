// Package prim implements primitives of data-parallel work on a GPU, with its own kernels: prefix
// sums ([Scan]), stable radix sort and partition of rows ([Sort]), the rows that have the same key
// ([Group]), and sums, minima and maxima of segments ([Reduce]).
//
// An operation is a struct that describes the work and its columns of device memory. Its
// ScratchBytes returns the size of the scratch memory that it needs. The method of [Kernels] of the
// same name submits it to a stream and waits for nothing, so columns and scratch must stay valid
// until the stream has done the work. Operations on one stream may share scratch memory.
//
// A scan reads its input once and writes its output once, and so does a pass of a sort. Decoupled
// look-back makes this possible: a block publishes the sum of its tile at once and adds up those of
// the tiles before it while these are still running (Merrill and Garland, "Single-pass Parallel
// Prefix Scan with Decoupled Look-back", 2016). Radix sort does so for each digit (Adinets and
// Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs", 2022). The reduction
// cuts values and segments together into equal tiles, as merge-based SpMV does (Merrill and
// Garland, "Merge-based Parallel Sparse Matrix-Vector Multiplication", 2016).
//
// Blocks wait only for blocks that have begun before them: tiles are numbered by an atomic when a
// block begins.
package prim

import (
	"fmt"
	"sync"

	"github.com/weftgo/weft/device"
)

// MaxRows is the maximum number of rows of an operation: places are numbers of 32 bits, up to the
// end of the last tile.
const MaxRows = 1<<32 - 1<<16

// Kernels are the primitives of one device. They are safe for concurrent use.
type Kernels struct {
	dev    device.Device
	mu     sync.Mutex
	loaded map[string]device.Kernel
}

// Load returns the primitives of a device. An image is loaded on first use. Load returns
// device.ErrNoKernels on a device that runs Go code only.
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

// launch submits a kernel by name.
func launch[P any](k *Kernels, s *device.Stream, img *device.Image, name string, blocks, threads int, params *P) error {
	kernel, err := k.kernel(img, name)
	if err != nil {
		return err
	}
	return device.Launch(s, kernel, device.Dim{X: blocks}, device.Dim{X: threads}, params)
}

// resident returns the number of blocks that fill the device, at most blocks.
func (k *Kernels) resident(perUnit, blocks int) int {
	return max(1, min(blocks, perUnit*k.dev.Properties().Units))
}

// tiles returns the number of tiles of n items.
func tiles(n, tile int) int { return (n + tile - 1) / tile }

// scratchAlign is the alignment of parts of scratch memory.
const scratchAlign = 256

// Carve cuts memory into parts with the alignment of scratch memory. It starts at a multiple of
// that alignment. From 0 on it measures the total size.
type Carve device.Ptr

// Alloc returns the next part.
func (c *Carve) Alloc(bytes int) device.Ptr {
	at := device.Ptr(*c)
	*c += Carve((bytes + scratchAlign - 1) &^ (scratchAlign - 1))
	return at
}

// column is a pointer that an operation needs, to items of width bytes.
type column struct {
	name  string
	ptr   device.Ptr
	width int
}

// check returns ErrInvalid for arguments that no operation accepts.
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
