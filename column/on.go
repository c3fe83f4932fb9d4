package column

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// On is a column in device memory: values of one type of fixed size, which may be null. The zero
// value has no rows.
type On struct {
	typ    Type
	n      int
	dev    device.Device
	values device.Buffer
	free   func() error // frees the memory of Upload and MakeOn; otherwise nil

	valid  device.Slice[uint8] // a bit for each value, from index offset on
	offset int
}

// OfSlice returns a column over device memory, which the caller still owns.
func OfSlice[T Fixed](values device.Slice[T]) On {
	b := device.Buffer{Ptr: values.Ptr(), Size: values.Len() * TypeOf[T]().Size(), Host: device.Bytes(values.Host())}
	return On{typ: TypeOf[T](), n: values.Len(), dev: values.Device(), values: b}
}

// WithValid returns the same column, with null in place of each value whose bit is not set. Bits
// have Arrow's order, as in [Bitmap]. Bit number offset belongs to the first value. WithValid
// panics if bits is too short.
func (c On) WithValid(bits device.Slice[uint8], offset int) On {
	if offset < 0 || c.n > 8*bits.Len()-offset {
		panic(fmt.Sprintf("column: %d bits from %d on in %d bytes", c.n, offset, bits.Len()))
	}
	c.valid, c.offset = bits, offset
	return c
}

// Upload copies a column to the device of a stream. The caller must free the result. For byte
// strings it returns device.ErrUnsupported, but package intern can replace them by ids.
func Upload(s *device.Stream, c Column) (On, error) {
	if c.typ == None || c.typ == Bytes {
		return On{}, fmt.Errorf("column: %w: a column of %v on a device", device.ErrUnsupported, c.typ)
	}
	on, err := MakeOn(s.Device(), c.typ, c.n, c.HasNulls())
	if err != nil {
		return On{}, err
	}
	if err := on.copyFrom(s, c); err != nil {
		return On{}, errors.Join(err, on.Free())
	}
	return on, nil
}

func (c *On) copyFrom(s *device.Stream, from Column) error {
	if c.n == 0 {
		return nil
	}
	err := s.CopyIn(c.values.Ptr, from.Raw())
	if err != nil || !from.HasNulls() {
		return err
	}
	bits := make([]byte, c.valid.Len())
	for i := range from.n {
		if from.valid.At(i) {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return c.valid.CopyFrom(s, bits)
}

// MakeOn allocates a column of n values of a type of fixed size, with undefined contents. If nulls
// is set, the column has a bitmap of whole 32-bit words. The caller must free the column.
func MakeOn(dev device.Device, t Type, n int, nulls bool) (On, error) {
	memory, err := device.Make[uint64](dev, (n*t.Size()+7)/8)
	if err != nil {
		return On{}, err
	}
	c := On{typ: t, n: n, dev: dev, values: device.Buffer{Ptr: memory.Ptr(), Size: 8 * memory.Len(), Host: device.Bytes(memory.Host())}, free: memory.Free}
	if !nulls {
		return c, nil
	}
	bits, err := device.Make[uint32](dev, (n+31)/32)
	if err != nil {
		return On{}, errors.Join(err, c.Free())
	}
	c.free = func() error { return errors.Join(memory.Free(), bits.Free()) }
	b := device.Buffer{Ptr: bits.Ptr(), Size: 4 * bits.Len(), Host: device.Bytes(bits.Host())}
	if c.valid, err = device.Wrap[uint8](dev, b, b.Size); err != nil {
		return On{}, errors.Join(err, c.Free())
	}
	return c, nil
}

// Free frees the memory of a column that [Upload] or [MakeOn] made. The memory of other columns
// belongs to their makers. Work that uses the memory must have completed. If a column was copied,
// free only one of the copies. Free is idempotent.
func (c *On) Free() error {
	if c.free == nil {
		return nil
	}
	err := c.free()
	*c = On{typ: c.typ, dev: c.dev}
	return err
}

// Type returns the type of the values.
func (c On) Type() Type { return c.typ }

// Len returns the number of values, including nulls.
func (c On) Len() int { return c.n }

// Device returns the device of the values, or nil for the zero value.
func (c On) Device() device.Device { return c.dev }

// Buffer returns the memory of the values.
func (c On) Buffer() device.Buffer { return c.values }

// Valid returns the bitmap of the values that are not null, if HasNulls. Bit number offset belongs
// to the first value.
func (c On) Valid() (bits device.Slice[uint8], offset int) { return c.valid, c.offset }

// HasNulls reports whether values may be null.
func (c On) HasNulls() bool { return c.valid.Len() > 0 }

// Slice returns the values lo to hi-1, in the same memory. Free on a slice does nothing.
func (c On) Slice(lo, hi int) On {
	if lo < 0 || lo > hi || hi > c.n {
		panic(fmt.Sprintf("column: values %d to %d of %d", lo, hi, c.n))
	}
	at := lo * c.typ.Size()
	c.values.Ptr += device.Ptr(at)
	c.values.Size -= at
	if c.values.Host != nil {
		c.values.Host = c.values.Host[at:]
	}
	c.n, c.offset, c.free = hi-lo, c.offset+lo, nil
	return c
}

// SliceOf returns the memory of a column's values. The values of nulls are undefined. If T is not
// the column's type, SliceOf panics.
func SliceOf[T Fixed](c On) device.Slice[T] {
	if t := TypeOf[T](); t != c.typ {
		panic(fmt.Sprintf("column: values of %v requested from a column of %v on a device", t,
			c.typ))
	}
	s, err := device.Wrap[T](c.dev, c.values, c.n)
	if err != nil {
		panic(err) // cannot happen: device and length are right
	}
	return s
}

// Download copies a column to host memory, and waits until the copy is complete.
func (c On) Download(ctx context.Context, s *device.Stream) (Column, error) {
	memory := make([]uint64, (c.n*c.typ.Size()+7)/8)
	local := Column{typ: c.typ, n: c.n, fixed: unsafe.Pointer(unsafe.SliceData(memory))}
	if c.n == 0 {
		return local, nil
	}
	if err := s.CopyOut(ctx, local.Raw(), c.values.Ptr); err != nil {
		return Column{}, err
	}
	if !c.HasNulls() {
		return local, nil
	}
	lo, hi := c.offset/8, (c.offset+c.n+7)/8
	bits := make([]byte, hi-lo)
	if err := c.valid.Sub(lo, hi).CopyTo(ctx, s, bits); err != nil {
		return Column{}, err
	}
	return local.WithValid(OfBits(bits, c.offset%8, c.n)), nil
}

// Host returns the column as a Column over the same memory. The device must be one of the host.
func (c On) Host() Column {
	if c.n == 0 {
		return Column{typ: c.typ}
	}
	local := Column{typ: c.typ, n: c.n, fixed: unsafe.Pointer(unsafe.SliceData(c.values.Host))}
	if c.HasNulls() {
		local = local.WithValid(OfBits(c.valid.Host(), c.offset, c.n))
	}
	return local
}
