package spill

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/seal"
)

// DecodePage returns the columns of a page. The values equal those written bit for bit, including
// NaN payloads and signs of zero. The form of a column, such as a dictionary, may differ.
//
// Byte strings, bitmaps, and numbers stored at full width alias data. Other values are copies in
// the Go heap. The data must thus not change while the columns are in use. DecodePage copies data
// whose address is not a multiple of 8.
//
// If data is damaged, the error wraps weft.ErrFormat and contains the offset of the damage. Even
// for hostile data, DecodePage allocates less than 32*len(data) bytes + 64 KiB.
func DecodePage(data []byte) ([]column.Column, error) { return decode(data, nil) }

// Decoder decodes pages into memory that it reuses. The zero value is ready. Only one goroutine may
// use a Decoder at a time.
type Decoder struct {
	words  []uint64
	needed int // words needed for the last page
}

// Decode decodes a page as [DecodePage] does, but the columns are valid only until the next call.
// In loops over many pages, Decode saves allocations, which take longer than decoding.
func (d *Decoder) Decode(data []byte) ([]column.Column, error) {
	if d.needed > len(d.words) {
		d.words = make([]uint64, d.needed)
	}
	d.needed = 0
	return decode(data, d)
}

// allocate returns n values with undefined contents.
func allocate[T number](from *Decoder, n int) []T {
	if from == nil {
		return make([]T, n)
	}
	size := int(unsafe.Sizeof(*new(T)))
	at := from.needed
	from.needed += (n*size + 7) / 8
	if from.needed > len(from.words) {
		return make([]T, n)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&from.words[at])), n)
}

func decode(data []byte, from *Decoder) ([]column.Column, error) {
	if len(data) < pageHeader {
		return nil, damage(len(data), "a page ends in its header")
	}
	le := binary.LittleEndian
	if string(data[:3]) != pageMagic {
		return nil, damage(0, "a page cannot begin with %q", data[:3])
	}
	if data[3] != pageVersion {
		return nil, damage(3, "a page of version %d, want %d", data[3], pageVersion)
	}
	if n := le.Uint64(data[8:]); n != uint64(len(data)) || n%8 != 0 {
		return nil, damage(8, "a page of %d bytes in %d", n, len(data))
	}
	if sum := crc32.Checksum(data[8:], seal.Castagnoli); sum != le.Uint32(data[4:]) {
		return nil, damage(4, "the CRC of bytes 8 to %d is %08x, not %08x",
			len(data), sum, le.Uint32(data[4:]))
	}
	rows, n := le.Uint32(data[16:]), le.Uint32(data[20:])
	if rows < 1 || rows > MaxRows {
		return nil, damage(16, "a page of %d rows", rows)
	}
	if n < 1 || int64(n)*columnHeader > int64(len(data)) {
		return nil, damage(20, "%d columns in %d bytes", n, len(data))
	}
	if uintptr(unsafe.Pointer(unsafe.SliceData(data)))%8 != 0 {
		words := allocate[uint64](from, len(data)/8)
		to := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(data))
		copy(to, data)
		data = to
	}
	d := decoder{page: data, at: pageHeader, from: from}
	columns := make([]column.Column, n)
	for i := range columns {
		var err error
		if columns[i], err = d.column(int(rows), false); err != nil {
			return nil, err
		}
	}
	if d.at != len(data) {
		return nil, damage(d.at, "%d bytes after the last column", len(data)-d.at)
	}
	return columns, nil
}

func damage(offset int, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	return fmt.Errorf("spill: %w: offset %d: %s", op.ErrFormat, offset, text)
}

// decoder reads the columns of one page.
type decoder struct {
	page     []byte
	at       int
	unbacked int64 // see encoder.unbacked
	from     *Decoder
}

// next returns the next n bytes, and skips to the next multiple of 8.
func (d *decoder) next(n uint64) ([]byte, error) {
	if n > uint64(len(d.page)-d.at) {
		return nil, damage(d.at, "%d bytes in a page that has %d more", n, len(d.page)-d.at)
	}
	b := d.page[d.at : d.at+int(n) : d.at+int(n)]
	d.at = min((d.at+int(n)+7)&^7, len(d.page))
	return b, nil
}

// addUnbacked counts n decoded bytes that take no bytes in the page, for a column at offset at. It
// returns an error if too many such bytes precede that offset.
func (d *decoder) addUnbacked(at int, n int64) error {
	if d.unbacked += n; d.unbacked > unbackedBytes+unbackedFactor*int64(at) {
		return damage(at, "%d bytes of values that take no bytes in the page, after %d bytes",
			d.unbacked, at)
	}
	return nil
}

// column reads a column of n rows, or the values of a dictionary.
func (d *decoder) column(n int, dict bool) (c column.Column, err error) {
	at := d.at
	b, err := d.next(columnHeader)
	if err != nil {
		return c, err
	}
	h := header{
		typ: column.Type(b[0]), encoding: b[1], width: int(b[2]), nulls: b[3] == flagNulls,
		dict: int(binary.LittleEndian.Uint32(b[4:])), min: binary.LittleEndian.Uint64(b[8:]),
	}
	size := h.typ.Size()
	if h.typ == column.Bytes {
		size = 8 // of a length
	}
	wanted := byte(encFrame)
	switch h.typ {
	case column.Bool:
		wanted = encBits
	case column.Bytes:
		wanted = encBytes
		if h.encoding == encDict && !dict {
			wanted = encDict
		}
	}
	switch {
	case h.typ == column.None || h.typ > column.Bytes || dict && h.typ != column.Bytes:
		return c, damage(at, "a column of type %d", b[0])
	case h.encoding != wanted:
		return c, damage(at+1, "encoding %d of a column of %v", h.encoding, h.typ)
	case h.width > size || h.width&(h.width-1) != 0:
		return c, damage(at+2, "values of %v in %d bytes", h.typ, h.width)
	case b[3] > flagNulls || dict && h.nulls:
		return c, damage(at+3, "flags %#x", b[3])
	case (h.encoding == encDict) != (h.dict > 0) || h.dict > n:
		return c, damage(at+4, "a dictionary of %d values for %d rows", h.dict, n)
	case h.min != 0 && (h.width == size || wanted == encBits || wanted == encDict):
		return c, damage(at+8, "a minimum of %d for values in %d bytes", h.min, h.width)
	}
	var valid []byte
	if h.nulls {
		if valid, err = d.next((uint64(n) + 7) / 8); err != nil {
			return c, err
		}
	}
	switch h.typ {
	case column.Int8:
		c, err = decodeFrame[int8](d, h, at, n)
	case column.Int16:
		c, err = decodeFrame[int16](d, h, at, n)
	case column.Int32:
		c, err = decodeFrame[int32](d, h, at, n)
	case column.Int64:
		c, err = decodeFrame[int64](d, h, at, n)
	case column.Uint8:
		c, err = decodeFrame[uint8](d, h, at, n)
	case column.Uint16:
		c, err = decodeFrame[uint16](d, h, at, n)
	case column.Uint32:
		c, err = decodeFrame[uint32](d, h, at, n)
	case column.Uint64:
		c, err = decodeFrame[uint64](d, h, at, n)
	case column.Float32:
		var values []uint32
		if values, err = readFrame[uint32](d, h, at, n); err == nil {
			c = column.Of(unsafe.Slice((*float32)(unsafe.Pointer(&values[0])), n))
		}
	case column.Float64:
		var values []uint64
		if values, err = readFrame[uint64](d, h, at, n); err == nil {
			c = column.Of(unsafe.Slice((*float64)(unsafe.Pointer(&values[0])), n))
		}
	case column.Bool:
		c, err = d.bools(n)
	default:
		if h.encoding == encDict {
			c, err = d.dictionary(h, at, n)
		} else {
			c, err = d.bytes(h, at, n)
		}
	}
	if err == nil && h.nulls {
		c = c.WithValid(column.OfBits(valid, 0, n))
	}
	return c, err
}

func decodeFrame[T number](d *decoder, h header, at, n int) (column.Column, error) {
	values, err := readFrame[T](d, h, at, n)
	return column.Of(values), err
}

// readFrame returns n numbers, which are stored as a minimum and differences. Sums wrap.
func readFrame[T number](d *decoder, h header, at, n int) ([]T, error) {
	size, lo := int(unsafe.Sizeof(*new(T))), T(h.min)
	if uint64(lo) != h.min {
		return nil, damage(at+8, "a minimum of %d for values of %d bytes", h.min, size)
	}
	b, err := d.next(uint64(n) * uint64(h.width))
	if err != nil {
		return nil, err
	}
	if h.width == size {
		return cast[T](b), nil
	}
	if h.width == 0 {
		if err := d.addUnbacked(at, int64(n)*int64(size)); err != nil {
			return nil, err
		}
	}
	to := allocate[T](d.from, n)
	switch h.width {
	case 0:
		for i := range to {
			to[i] = lo
		}
	case 1:
		for i, x := range b[:len(to)] {
			to[i] = lo + T(x)
		}
	case 2:
		for i, x := range cast[uint16](b)[:len(to)] {
			to[i] = lo + T(x)
		}
	case 4:
		for i, x := range cast[uint32](b)[:len(to)] {
			to[i] = lo + T(x)
		}
	}
	return to, nil
}

func (d *decoder) bools(n int) (column.Column, error) {
	b, err := d.next((uint64(n) + 7) / 8)
	if err != nil {
		return column.Column{}, err
	}
	words := allocate[uint64](d.from, len(b)) // a byte for each bit
	for i, x := range b {
		const bitOf, spread, low = 0x8040201008040201, 0x0101010101010101, 0x7f7f7f7f7f7f7f7f
		words[i] = (uint64(x)*spread&bitOf + low) >> 7 & spread
	}
	return column.Of(unsafe.Slice((*bool)(unsafe.Pointer(unsafe.SliceData(words))), n)), nil
}

// bytes reads a column of byte strings, without copying their bytes.
func (d *decoder) bytes(h header, at, n int) (c column.Column, err error) {
	if h.width == 0 && h.min > 0 { // all have one length
		data, err := d.data()
		if err != nil {
			return c, err
		}
		if have := uint64(len(data)); have%h.min != 0 || have/h.min != uint64(n) {
			return c, damage(at+8, "%d values of %d bytes in %d", n, h.min, have)
		}
		return column.OfWidth(int(h.min), data)
	}
	var lengths []byte
	if lengths, err = d.next(uint64(n) * uint64(h.width)); err != nil {
		return c, err
	}
	if h.width == 0 {
		if err := d.addUnbacked(at, 4*(int64(n)+1)); err != nil {
			return c, err
		}
	}
	data, err := d.data()
	if err != nil {
		return c, err
	}
	if len(data) <= math.MaxInt32 {
		return bytesOf[int32](d, h, at, n, lengths, data)
	}
	return bytesOf[int64](d, h, at, n, lengths, data)
}

// data reads a length, and that number of bytes.
func (d *decoder) data() ([]byte, error) {
	n, err := d.next(8)
	if err != nil {
		return nil, err
	}
	return d.next(binary.LittleEndian.Uint64(n))
}

// bytesOf returns a column of byte strings with these lengths. Their sum must be len(data).
func bytesOf[O int32 | int64](d *decoder, h header, at, n int, lengths, data []byte) (
	c column.Column, err error,
) {
	offsets := allocate[O](d.from, n+1)
	offsets[0] = 0
	sum, total := uint64(0), uint64(len(data))
	switch h.width {
	case 0: // all are empty
		clear(offsets)
	case 1:
		sum = addLengths(offsets, lengths, h.min, total)
	case 2:
		sum = addLengths(offsets, cast[uint16](lengths), h.min, total)
	case 4:
		sum = addLengths(offsets, cast[uint32](lengths), h.min, total)
	default:
		sum = addLengths(offsets, cast[uint64](lengths), h.min, total)
	}
	if sum != total {
		return c, damage(at+columnHeader, "the lengths do not add up to the %d bytes of values",
			total)
	}
	return column.OfOffsets(offsets, data)
}

// addLengths computes the end offsets of byte strings. It returns the last offset, or total+1 if
// the lengths exceed total.
func addLengths[O int32 | int64, L number](offsets []O, lengths []L, lo, total uint64) uint64 {
	sum := uint64(0)
	ends := offsets[1:][:len(lengths)]
	for i, x := range lengths {
		length := lo + uint64(x)
		if length < lo || length > total-sum {
			return total + 1
		}
		sum += length
		ends[i] = O(sum)
	}
	return sum
}

// dictionary reads codes, and the dictionary.
func (d *decoder) dictionary(h header, at, n int) (c column.Column, err error) {
	if h.width > 4 {
		return c, damage(at+2, "codes in %d bytes", h.width)
	}
	codes, err := readFrame[uint32](d, h, at, n)
	if err != nil {
		return c, err
	}
	if largest := slices.Max(codes); largest >= uint32(h.dict) {
		return c, damage(at+columnHeader, "code %d in a dictionary of %d values", largest, h.dict)
	}
	dict, err := d.column(h.dict, true)
	if err != nil {
		return c, err
	}
	return column.OfCodes(codes, dict)
}
