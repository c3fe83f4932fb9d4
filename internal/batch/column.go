package batch

import (
	"slices"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// Column is a sequence of rows with a fixed width, in host memory or on a device. It is an input of
// a batch, an output, or both. The zero Column is an absent column.
//
// A column with Offsets is an output with rows of variable length. Row i consists of the elements
// Offsets[i] to Offsets[i+1]-1, of Width bytes each. Host begins with element Offsets[0].
//
// A column with Data holds byte strings. Each row of Host is the [Span] of a string in Data. So
// code that selects rows handles both kinds of columns alike.
type Column struct {
	Host    []byte
	Ptr     device.Ptr
	Width   int
	Offsets []uint64
	Data    *[]byte

	dev      device.Device // owner of the memory that Ptr addresses
	rows     int
	extra    int // rows in addition to one per operation
	dir      direction
	optional bool
	anyRows  bool // the number of rows need not match the batch
}

type direction uint8

const (
	input direction = 1 << iota
	output
)

// Input returns a column that a batch reads.
func Input[T device.Elem](s []T) Column { return hostColumn(s, input, false) }

// Output returns a column that a batch writes.
func Output[T device.Elem](s []T) Column { return hostColumn(s, output, false) }

// Optional returns s as a column that a batch writes, or an absent column if s is nil.
func Optional[T device.Elem](s []T) Column { return hostColumn(s, output, true) }

func hostColumn[T device.Elem](s []T, dir direction, optional bool) Column {
	return Column{Host: device.Bytes(s), Width: size[T](), dir: dir, rows: len(s), optional: optional && s == nil}
}

// InputOn returns a column in device memory that a batch reads.
func InputOn[T device.Elem](s device.Slice[T]) Column { return deviceColumn(s, input, 0, false) }

// OutputOn returns a column in device memory that a batch writes.
func OutputOn[T device.Elem](s device.Slice[T]) Column { return deviceColumn(s, output, 0, false) }

// OptionalOn returns s as a column that a batch writes, or an absent column if s is empty.
func OptionalOn[T device.Elem](s device.Slice[T]) Column {
	return deviceColumn(s, output, 0, s.Len() == 0)
}

// OffsetsOn returns a column of offsets in device memory, one row longer than the batch.
func OffsetsOn(s device.Slice[uint64]) Column { return deviceColumn(s, output, 1, false) }

// OffsetsIn returns a column of offsets in host memory that a batch reads, one row longer than the
// batch.
func OffsetsIn(offsets []uint64) Column {
	c := hostColumn(offsets, input, false)
	c.extra = 1
	return c
}

// RowsOn returns a column in device memory that a batch fills with rows of variable size, as far as
// they fit.
func RowsOn[T device.Elem](s device.Slice[T]) Column {
	c := deviceColumn(s, output, 0, false)
	c.anyRows = true
	return c
}

func deviceColumn[T device.Elem](s device.Slice[T], dir direction, extra int, optional bool) Column {
	return Column{
		Ptr: s.Ptr(), Host: device.Bytes(s.Host()), Width: size[T](),
		dev: s.Device(), dir: dir, rows: s.Len(), extra: extra, optional: optional,
	}
}

// Span locates a byte string in the Data of its column. The last 20 bits are the length, the other
// bits the offset. The zero Span is an empty string.
type Span uint64

const spanBits = 20

// MaxSpan is the maximum length of a byte string in a column, in bytes.
const MaxSpan = 1<<spanBits - 1

// SpanOf returns the span of a byte string. length must be at most MaxSpan.
func SpanOf(offset, length uint64) Span { return Span(offset<<spanBits | length) }

// Shift returns the span of the same string after n bytes are inserted at the start of the data.
func (s Span) Shift(n int) Span { return s + Span(n)<<spanBits }

func (s Span) bytes(data []byte) []byte {
	lo, n := s>>spanBits, s&MaxSpan
	return data[lo : lo+n : lo+n]
}

// Strings returns a column of byte strings that a batch reads.
func Strings(data []byte, spans []Span) Column {
	c := Input(spans)
	c.Data = &data
	return c
}

// StringsTo returns a column of byte strings that a batch writes. The batch appends the strings to
// data.
func StringsTo(data *[]byte, spans []Span) Column {
	c := Output(spans)
	c.Data = data
	return c
}

// Row returns row i of a column in host memory.
func (c *Column) Row(i int) []byte {
	if c.Data != nil {
		return View[Span](c.Host)[i].bytes(*c.Data)
	}
	return c.Host[i*c.Width : (i+1)*c.Width]
}

// Extend appends size bytes to the data of a column and returns them for the caller to write. Row i
// becomes that byte string. Only one thread at a time may extend a column.
func (c *Column) Extend(i, size int) []byte {
	at := len(*c.Data)
	*c.Data = slices.Grow(*c.Data, size)[:at+size]
	View[Span](c.Host)[i] = SpanOf(uint64(at), uint64(size))
	return (*c.Data)[at:]
}

// WithWidth returns the same bytes as a column with rows of the given width.
func (c Column) WithWidth(width int) Column {
	c.rows, c.Width = c.rows*c.Width/width, width
	return c
}

// AsInput returns a copy of the column that is only an input.
func (c Column) AsInput() Column {
	c.dir = input
	return c
}

// WithPtr returns a copy of the column that lies at another device address.
func (c Column) WithPtr(to device.Ptr) Column {
	c.Host, c.Ptr = nil, to
	return c
}

// Given reports whether a batch has the column.
func (c *Column) Given() bool { return c.Ptr != 0 || c.Host != nil }

// Rows returns the number of rows of the column.
func (c *Column) Rows() int { return c.rows }

// IsInput reports whether the batch reads the column.
func (c *Column) IsInput() bool { return c.dir&input != 0 }

// IsOutput reports whether the batch writes the column.
func (c *Column) IsOutput() bool { return c.dir&output != 0 }

// Bytes returns the size of rows [lo,hi) in bytes.
func (c *Column) Bytes(lo, hi int) int {
	if c.Offsets != nil {
		return int(c.Offsets[hi]-c.Offsets[lo]) * c.Width
	}
	return (hi - lo + c.extra) * c.Width
}

func (c Column) sub(lo, hi int) Column {
	first, size := lo*c.Width, c.Bytes(lo, hi)
	if c.Offsets != nil {
		first = int(c.Offsets[lo]-c.Offsets[0]) * c.Width
		c.Offsets = c.Offsets[lo : hi+1]
	}
	c.rows = min(c.rows, hi-lo+c.extra)
	if c.Host != nil {
		c.Host = c.Host[first : first+size]
	}
	if c.Ptr != 0 {
		c.Ptr += device.Ptr(first)
	}
	return c
}

// View returns the bytes b as a slice of T. The address must be aligned for T.
func View[T any](b []byte) []T {
	var zero T
	if len(b) == 0 || unsafe.Sizeof(zero) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}
