// Package prim has the primitives of data-parallel work on a GPU, with kernels
// of its own: prefix sums ([Scan]), stable radix sort and partition of rows
// ([Sort]), the rows that have the same key ([Group]), and sums, minima and
// maxima of segments ([Reduce]).
//
// An operation is a struct that says what to do with which columns of device
// memory. Its ScratchBytes says how much scratch memory it needs; the method of
// [Kernels] of the same name submits it to a stream and waits for nothing, so
// that columns and scratch must stay until the stream has done the work.
// Operations on one stream may share scratch memory.
//
// A scan reads its input once and writes its output once, and so does a pass of
// a sort, which decoupled look-back makes possible: a block publishes the sum of
// its tile at once and adds up those of the tiles before it while these are
// still under way (Merrill and Garland, "Single-pass Parallel Prefix Scan with
// Decoupled Look-back", 2016). Radix sort does so for each digit (Adinets and
// Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs",
// 2022). The reduction cuts values and segments together into equal tiles, as
// merge-based SpMV does (Merrill and Garland, "Merge-based Parallel Sparse
// Matrix-Vector Multiplication", 2016).
//
// Blocks wait for blocks, but only for such as have begun before them: tiles
// are numbered by an atomic when a block begins.
package prim

import (
	"fmt"
	"sync"

	"github.com/weftgo/weft/device"
)

// MaxRows is the largest number of rows of an operation: places are numbers of
// 32 bits, up to the end of the last tile.
const MaxRows = 1<<32 - 1<<16

// Kernels are the primitives of one device. They are safe for concurrent use.
type Kernels struct {
	dev   device.Device
	mu    sync.Mutex
	found map[string]device.Kernel
}

// Load makes the primitives of a device. An image is loaded when something
// needs it first. device.ErrNoKernels on a device that runs Go code only.
func Load(dev device.Device) (*Kernels, error) {
	k := &Kernels{dev: dev, found: make(map[string]device.Kernel)}
	_, err := k.kernel(&scanImage, "scan_64")
	return k, err
}

func (k *Kernels) kernel(img *device.Image, name string) (device.Kernel, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if kernel, ok := k.found[name]; ok {
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
	k.found[name] = kernel
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

// resident is how many blocks fill the device, at most as many as there are.
func (k *Kernels) resident(perUnit, blocks int) int {
	return max(1, min(blocks, perUnit*k.dev.Properties().Units))
}

// tiles is how many tiles n items make.
func tiles(n, tile int) int { return (n + tile - 1) / tile }

// scratchAlign is what parts of scratch memory are aligned to.
const scratchAlign = 256

// Carve cuts memory into parts, as aligned as scratch memory must be, from a multiple of that
// on. From 0 on it measures how much.
type Carve device.Ptr

// Take is the next part.
func (c *Carve) Take(bytes int) device.Ptr {
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

// check is ErrInvalid for what no operation takes.
func check(what string, n, need int, scratch device.Buffer, columns ...column) error {
	if n < 0 || n > MaxRows {
		return invalid("%s of %d rows; 0 to %d are possible", what, n, MaxRows)
	}
	if scratch.Size < need || scratch.Ptr%scratchAlign != 0 {
		return invalid("%s of %d rows with %d bytes of scratch memory at %#x; it needs %d, aligned to %d", what, n, scratch.Size, uint64(scratch.Ptr), need, scratchAlign)
	}
	for _, c := range columns {
		if c.ptr == 0 || c.ptr%device.Ptr(c.width) != 0 {
			return invalid("%s with %s at %#x; the address must be a multiple of %d, and not 0", what, c.name, uint64(c.ptr), c.width)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("prim: %w: "+format, append([]any{device.ErrInvalid}, args...)...)
}
