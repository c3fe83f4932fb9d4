package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// reservation implements [device.Range] with the driver's virtual memory: a range of addresses, to
// which pieces of memory are mapped one after another.
type reservation struct {
	dev     *Device
	base    uintptr
	size    int // bytes of addresses, a multiple of granule
	granule int // smallest size that the GPU maps

	mu     sync.Mutex
	pieces []piece // contiguous, beginning at base
	mapped int     // total bytes of pieces
	freed  bool
}

// piece is memory that is mapped and unmapped as one unit.
type piece struct {
	handle uintptr // CUmemGenericAllocationHandle
	size   int
}

// maxPiece bounds the size of a piece. An H200 maps 16 GiB in 348 ms with pieces of 2 MiB, in 12 ms
// with 64 MiB, and in 1.7 ms with 1 GiB (2026-11-22).
const maxPiece = 1 << 30

// allocationProp is the driver's CUmemAllocationProp.
type allocationProp struct {
	kind, handles int32
	location      location
	_             [2]uint64 // metadata for Windows; flags
}

// location is the driver's CUmemLocation.
type location struct{ kind, id int32 }

// accessDesc is the driver's CUmemAccessDesc.
type accessDesc struct {
	location location
	flags    int32
}

// Reserve implements [device.Device]. A range grows in steps of 2 MiB or more. Close of the device
// frees the ranges that are left.
func (d *Device) Reserve(size int) (device.Range, error) {
	if size <= 0 {
		return nil, invalid("Reserve of %d bytes", size)
	}
	r := &reservation{dev: d}
	err := d.do(func(fr *frame) error {
		if err := r.reserve(fr, size); err != nil {
			return fmt.Errorf("reserving %d bytes of addresses: %w", size, err)
		}
		if err := d.addChild(r); err != nil {
			return errors.Join(err, fr.call(symMemAddressFree, r.base, uintptr(r.size)))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *reservation) reserve(fr *frame, size int) (err error) {
	if r.granule, err = fr.granularity(r.dev.location()); err != nil {
		return err
	}
	if size > math.MaxInt-r.granule {
		return device.ErrMemory
	}
	r.size = r.roundUp(size)
	const alignment, at, flags = 0, 0, 0
	err = fr.call(symMemAddressReserve, fr.result(0), uintptr(r.size), alignment, at, flags)
	if codeOf(err) == invalidValue { // only the size can be invalid
		return fmt.Errorf("%w: %w", device.ErrMemory, err)
	}
	r.base = uintptr(fr.out[0])
	return err
}

func (r *reservation) roundUp(n int) int { return (n + r.granule - 1) / r.granule * r.granule }

func (d *Device) location() location { return location{memLocationDevice, int32(d.handle)} }

func newProp(l location) *allocationProp { return &allocationProp{kind: memTypePinned, location: l} }

// granularity returns the unit of the sizes and addresses of pieces.
func (fr *frame) granularity(l location) (int, error) {
	prop := newProp(l)
	fr.held = prop
	err := fr.call(symMemGetAllocationGranularity, fr.result(0), uintptr(unsafe.Pointer(prop)), granularityMinimum)
	return int(fr.out[0]), err
}

func (r *reservation) Ptr() device.Ptr { return device.Ptr(r.base) }

func (r *reservation) Mapped() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mapped
}

func (r *reservation) Buffer() device.Buffer {
	return device.Buffer{Ptr: r.Ptr(), Size: r.Mapped()}
}

func (r *reservation) Resize(n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.freed:
		return closed("range")
	case n < 0 || n > r.size:
		return invalid("Resize to %d bytes of a range of %d", n, r.size)
	case n > r.mapped:
		return r.dev.do(func(fr *frame) error {
			if err := r.grow(fr, r.roundUp(n)); err != nil {
				return fmt.Errorf("growing a range from %d to %d bytes: %w", r.mapped, n, err)
			}
			return nil
		})
	case r.piecesFor(n) == len(r.pieces):
		return r.dev.checkUsable()
	}
	if err := r.dev.Sync(context.Background()); err != nil {
		return err
	}
	return r.dev.do(func(fr *frame) error {
		if err := r.shrink(fr, r.piecesFor(n)); err != nil {
			return fmt.Errorf("shrinking a range to %d bytes: %w", n, err)
		}
		return nil
	})
}

// piecesFor returns the number of pieces that hold the first n bytes.
func (r *reservation) piecesFor(n int) int {
	i := 0
	for ; n > 0; i++ {
		n -= r.pieces[i].size
	}
	return i
}

// grow maps the bytes from r.mapped to n. A failure changes nothing.
func (r *reservation) grow(fr *frame, n int) error {
	var added []piece
	end := r.mapped
	var err error
	for err == nil && end < n {
		// Each piece is as large as all before it. So there are few pieces, and shrinking to any
		// size still releases most of the rest.
		p := piece{size: min(max(end, r.granule), maxPiece, n-end)}
		if p.handle, err = fr.newPiece(r.dev.location(), r.base+uintptr(end), p.size); err == nil {
			added, end = append(added, p), end+p.size
		}
	}
	if err == nil {
		err = fr.setAccess(r.dev.location(), r.base+uintptr(r.mapped), end-r.mapped)
	}
	if err == nil {
		r.pieces, r.mapped = append(r.pieces, added...), end
		return nil
	}
	for i := len(added) - 1; i >= 0; i-- {
		end -= added[i].size
		err = errors.Join(err, fr.call(symMemUnmap, r.base+uintptr(end), uintptr(added[i].size)), fr.call(symMemRelease, added[i].handle))
	}
	return err
}

// newPiece allocates size bytes of the GPU's memory and maps them at the given address.
func (fr *frame) newPiece(l location, at uintptr, size int) (handle uintptr, err error) {
	const flags, offset = 0, 0
	prop := newProp(l)
	fr.held = prop
	if err := fr.call(symMemCreate, fr.result(0), uintptr(size), uintptr(unsafe.Pointer(prop)), flags); err != nil {
		return 0, err
	}
	handle = uintptr(fr.out[0])
	if err := fr.call(symMemMap, at, uintptr(size), offset, handle, flags); err != nil {
		return 0, errors.Join(err, fr.call(symMemRelease, handle))
	}
	return handle, nil
}

// setAccess makes mapped memory accessible to the GPU.
func (fr *frame) setAccess(l location, at uintptr, size int) error {
	desc := &accessDesc{l, memAccessReadWrite}
	fr.held = desc
	const count = 1
	return fr.call(symMemSetAccess, at, uintptr(size), uintptr(unsafe.Pointer(desc)), count)
}

// shrink releases all pieces except the first ones; keep is their number. It stops at a piece that
// it cannot unmap, because later calls release only the last piece.
func (r *reservation) shrink(fr *frame, keep int) error {
	var errs []error
	for len(r.pieces) > keep {
		if err := r.unmapLast(fr); err != nil {
			return errors.Join(append(errs, err)...)
		}
		errs = append(errs, r.dropLast(fr))
	}
	return errors.Join(errs...)
}

func (r *reservation) unmapLast(fr *frame) error {
	p := r.pieces[len(r.pieces)-1]
	return fr.call(symMemUnmap, r.base+uintptr(r.mapped-p.size), uintptr(p.size))
}

func (r *reservation) dropLast(fr *frame) error {
	p := r.pieces[len(r.pieces)-1]
	r.pieces, r.mapped = r.pieces[:len(r.pieces)-1], r.mapped-p.size
	return fr.call(symMemRelease, p.handle)
}

// Free implements [device.Range]. On a lost device it releases what the driver can still release.
func (r *reservation) Free() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.freed {
		return nil
	}
	r.freed = true
	r.dev.removeChild(r)
	waited := r.dev.Sync(context.Background())
	freed := r.dev.release(func(fr *frame) error {
		var errs []error
		for len(r.pieces) > 0 {
			errs = append(errs, r.unmapLast(fr), r.dropLast(fr))
		}
		return errors.Join(append(errs, fr.call(symMemAddressFree, r.base, uintptr(r.size)))...)
	})
	if waited != nil {
		return waited
	}
	return freed
}

// Close implements child.
func (r *reservation) Close() error { return r.Free() }
