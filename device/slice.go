package device

import (
	"context"
	"fmt"
	"math"
	"unsafe"
)

// Elem lists the element types of a [Slice]. They have a fixed size and contain no pointers.
type Elem interface {
	~bool | ~uint8 | ~int8 | ~uint16 | ~int16 | ~uint32 | ~int32 | ~uint64 | ~int64 | ~uint | ~int | ~float32 | ~float64
}

// Slice is typed memory on a device. The zero Slice is empty. A Slice made by [Make] owns its
// memory. Slices that [Slice.Sub] and [Wrap] return share memory that they do not own.
type Slice[T Elem] struct {
	dev  Device
	buf  Buffer // freed by Free; zero if the slice does not own its memory
	ptr  Ptr
	host []T
	n    int
}

// Make allocates n elements on dev. Their contents are undefined.
func Make[T Elem](dev Device, n int) (Slice[T], error) {
	var zero T
	size := int(unsafe.Sizeof(zero))
	if n < 0 || n > math.MaxInt/size {
		return Slice[T]{}, fmt.Errorf("device: %w: slice of %d elements", ErrInvalid, n)
	}
	if n == 0 {
		return Slice[T]{dev: dev}, nil
	}
	buf, err := dev.Alloc(n * size)
	if err != nil {
		return Slice[T]{}, err
	}
	s := view[T](dev, buf, n)
	s.buf = buf
	return s, nil
}

// Wrap returns a slice of the first n elements of b, without taking ownership of the memory. b may
// lie in a [Range], in mapped host memory, or in memory that another library allocated on the same
// device. The slice is valid until that memory is freed. Its Free does nothing.
//
// Wrap returns ErrInvalid if b is too small or misaligned for n elements, or if dev finds that b is
// not its memory (see [Prober]). On a [Host] device it also checks b.Host.
//
// device/cuda accepts memory that the CUDA runtime allocated in this process, for example in a
// library called by cgo or purego:
//
//	var address uintptr // by cudaMalloc, 4*n bytes
//	keys, err := device.Wrap[uint32](dev, device.Buffer{Ptr: device.Ptr(address), Size: 4 * n}, n)
//	…
//	err = m.GetOn(stream, keys, vals, found)
//
// Weft does not order its work with the other library's work on other streams. Before a call, wait
// for the library's work. After the call, let the library wait for stream.
//
// On device/cpu, structures accept any host memory: Buffer.Host has its bytes, Buffer.Ptr its
// address. Copies by streams require that the memory is mapped ([Device.Map]).
func Wrap[T Elem](dev Device, b Buffer, n int) (Slice[T], error) {
	var zero T
	size := int(unsafe.Sizeof(zero))
	if n < 0 || n > math.MaxInt/size {
		return Slice[T]{}, fmt.Errorf("device: %w: Wrap of %d elements", ErrInvalid, n)
	}
	if n == 0 {
		return Slice[T]{dev: dev}, nil
	}
	if n*size > b.Size {
		return Slice[T]{}, fmt.Errorf("device: %w: Wrap of %d elements of %d bytes in a buffer of %d bytes", ErrInvalid, n, size, b.Size)
	}
	if b.Ptr == 0 || b.Ptr%Ptr(size) != 0 {
		return Slice[T]{}, fmt.Errorf("device: %w: Wrap of elements of %d bytes at %#x; the address must be a multiple of that, and not 0", ErrInvalid, size, uint64(b.Ptr))
	}
	if _, ok := dev.(Host); !ok {
		if prober, ok := dev.(Prober); ok {
			if err := prober.Probe(b.Ptr, n*size); err != nil {
				return Slice[T]{}, fmt.Errorf("device: Wrap of %d elements of %d bytes: %w", n, size, err)
			}
		}
		b.Host = nil
		return view[T](dev, b, n), nil
	}
	if len(b.Host) < n*size {
		return Slice[T]{}, fmt.Errorf("device: %w: Wrap of %d elements of %d bytes with %d bytes in Buffer.Host, which this device uses", ErrInvalid, n, size, len(b.Host))
	}
	if at := uintptr(unsafe.Pointer(unsafe.SliceData(b.Host))); at%uintptr(size) != 0 {
		return Slice[T]{}, fmt.Errorf("device: %w: Wrap of elements of %d bytes with Buffer.Host at %#x; its address must be a multiple of that", ErrInvalid, size, at)
	}
	return view[T](dev, b, n), nil
}

// view returns a slice of n elements that shares the memory of b.
func view[T Elem](dev Device, b Buffer, n int) Slice[T] {
	s := Slice[T]{dev: dev, ptr: b.Ptr, n: n}
	if b.Host != nil {
		s.host = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b.Host))), n)
	}
	return s
}

// Upload allocates a slice on the device of s and fills it from src.
func Upload[T Elem](s *Stream, src []T) (Slice[T], error) {
	d, err := Make[T](s.Device(), len(src))
	if err != nil {
		return d, err
	}
	if err := d.CopyFrom(s, src); err != nil {
		d.Free()
		return Slice[T]{}, err
	}
	return d, nil
}

// Len returns the number of elements.
func (d Slice[T]) Len() int { return d.n }

// Ptr returns the address of the first element, or 0 for an empty slice.
func (d Slice[T]) Ptr() Ptr { return d.ptr }

// Device returns the device that holds the memory, or nil for the zero Slice.
func (d Slice[T]) Device() Device { return d.dev }

// Host returns the same memory as a Go slice on a [Host] device, or nil elsewhere. The Go slice
// must not be used after Free.
func (d Slice[T]) Host() []T { return d.host }

// Sub returns the elements [lo,hi) of d. The result shares memory with d and must not be freed.
func (d Slice[T]) Sub(lo, hi int) Slice[T] {
	if lo < 0 || hi < lo || hi > d.n {
		panic(fmt.Sprintf("device: slice bounds [%d:%d] of %d elements", lo, hi, d.n))
	}
	var zero T
	sub := Slice[T]{dev: d.dev, ptr: d.ptr + Ptr(lo)*Ptr(unsafe.Sizeof(zero)), n: hi - lo}
	if d.host != nil {
		sub.host = d.host[lo:hi:hi]
	}
	return sub
}

// CopyFrom copies src to the first len(src) elements of d. src may be changed after the call.
func (d Slice[T]) CopyFrom(s *Stream, src []T) error {
	if len(src) > d.n {
		panic(fmt.Sprintf("device: copy of %d elements to a slice of %d", len(src), d.n))
	}
	if len(src) == 0 {
		return nil
	}
	return s.CopyIn(d.ptr, Bytes(src))
}

// CopyTo copies the first len(dst) elements of d to dst and waits for the copy.
func (d Slice[T]) CopyTo(ctx context.Context, s *Stream, dst []T) error {
	if len(dst) > d.n {
		panic(fmt.Sprintf("device: copy of %d elements from a slice of %d", len(dst), d.n))
	}
	if len(dst) == 0 {
		return nil
	}
	return s.CopyOut(ctx, Bytes(dst), d.ptr)
}

// Free releases the memory. Work that uses the memory must have completed. Free does nothing if d
// is empty or does not own its memory.
func (d *Slice[T]) Free() error {
	if d.buf.Size == 0 {
		return nil
	}
	err := d.dev.Free(d.buf)
	*d = Slice[T]{dev: d.dev}
	return err
}

// Bytes returns the memory of s as bytes, without a copy.
func Bytes[T Elem](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}
