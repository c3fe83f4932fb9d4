// Package batch is how a structure hands operations to its engines: columns of
// bytes, in host memory or on the device, without their types. What a
// structure decides about a batch is written once for all types of keys and
// values; engines read the columns as types again.
package batch

import (
	"context"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Batch is a set of operations in columns. Each column lies in host memory or,
// for batches on the device, there; a column that is not there is empty.
type Batch struct {
	N     int
	Kind  weft.OpKind // of all operations, unless Kinds is there
	Flags Flags
	Load  float64 // of the structure, as far as known: a hint

	Keys  Column // K
	Vals  Column // V; written by lookups, read by changes
	Kinds Column // weft.OpKind
	Out   Column // V; written by changes: what OpGet and OpPutNew found
	OK    Column // bool

	Counts Column // uint32; written by changes: pairs removed by OpDeleteAll
}

// Flags are the choices of a change; kernels use the same values (order.cuh).
type Flags uint32

const (
	// Reuse lets inserts take the slots of deleted keys: the batch deletes
	// nothing.
	Reuse Flags = 1 << iota
	// Order gives duplicates the outcome of batch order.
	Order
)

// Widths are the sizes in bytes of a key and of a value in a batch, and of a
// slot of the structure. A set has Val 0.
type Widths struct{ Key, Val, Slot int }

// MapWidths are those of a map: two 32-bit halves share an 8-byte slot,
// everything else takes 16 bytes.
func MapWidths[K weft.Key, V weft.Value]() Widths {
	var k K
	var v V
	w := Widths{Key: int(unsafe.Sizeof(k)), Val: int(unsafe.Sizeof(v)), Slot: 16}
	if w.Key == 4 && w.Val == 4 {
		w.Slot = 8
	}
	return w
}

// SetWidths are those of a set, whose slots hold bare keys.
func SetWidths[K weft.Key]() Widths {
	var k K
	return Widths{Key: int(unsafe.Sizeof(k)), Slot: int(unsafe.Sizeof(k))}
}

// Column is a number of values of fixed width, in host memory or on a device.
type Column struct {
	Host []byte
	Ptr  device.Ptr
	Dev  device.Device // where Ptr points
}

// Host is a slice of the caller as a column.
func Host[T device.Elem](s []T) Column { return Column{Host: device.Bytes(s)} }

// On is a slice on a device as a column.
func On[T device.Elem](s device.Slice[T]) Column {
	return Column{Ptr: s.Ptr(), Host: device.Bytes(s.Host()), Dev: s.Device()}
}

// There tells whether a batch has the column.
func (c Column) There() bool { return c.Ptr != 0 || c.Host != nil }

// Sub is rows [lo,hi) of a column whose rows are width bytes wide.
func (c Column) Sub(lo, hi, width int) Column {
	switch {
	case c.Host != nil:
		c.Host = c.Host[lo*width : hi*width]
	case c.Ptr != 0:
		c.Ptr += device.Ptr(lo * width)
	}
	return c
}

// Sub is operations [lo,hi) of a batch.
func (b *Batch) Sub(lo, hi int, w Widths) *Batch {
	part := *b
	part.N = hi - lo
	part.Keys = b.Keys.Sub(lo, hi, w.Key)
	part.Vals = b.Vals.Sub(lo, hi, w.Val)
	part.Kinds = b.Kinds.Sub(lo, hi, 1)
	part.Out = b.Out.Sub(lo, hi, w.Val)
	part.OK = b.OK.Sub(lo, hi, 1)
	part.Counts = b.Counts.Sub(lo, hi, 4)
	return &part
}

// Inserts tells whether a batch can need room.
func (b *Batch) Inserts() bool {
	return b.Kinds.There() || b.Kind == weft.OpPut || b.Kind == weft.OpPutNew
}

// Insertions counts the operations that may insert. If the batch is mixed and
// lies on a device that the host cannot read, it waits for a copy of the kinds.
func (b *Batch) Insertions(ctx context.Context, s *device.Stream) (n int, err error) {
	switch {
	case !b.Inserts():
		return 0, nil
	case !b.Kinds.There():
		return b.N, nil
	}
	kinds := View[weft.OpKind](b.Kinds.Host)
	if kinds == nil {
		kinds = make([]weft.OpKind, b.N)
		if err := s.CopyOut(ctx, device.Bytes(kinds), b.Kinds.Ptr); err != nil {
			return 0, err
		}
	}
	for _, k := range kinds {
		if k == weft.OpPut || k == weft.OpPutNew {
			n++
		}
	}
	return n, nil
}

// Ordered tells whether duplicates have to be settled.
func (b *Batch) Ordered() bool { return b.Flags&Order != 0 && !b.Kinds.There() }

// View reads host bytes as values of a type of the right width.
func View[T any](b []byte) []T {
	var zero T
	if len(b) == 0 || unsafe.Sizeof(zero) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}
