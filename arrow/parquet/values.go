package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/parquet-go/parquet-go/format"

	"github.com/weftgo/weft/column"
)

var errShort = errors.New("a page with fewer values than rows")

// size returns the size of a value in memory in bytes. It returns 0 for byte strings of variable
// length.
func (l *leaf) size() int {
	if l.Type.Column == column.Bytes {
		return l.Type.Width
	}
	return l.Type.Column.Size()
}

// dictionary holds the values of a chunk that pages refer to by codes.
type dictionary struct {
	read  bool
	n     int
	fixed []byte        // values of one size, as in memory
	texts column.Column // byte strings of variable length
}

// fill sets the dictionary to the n consecutive stored values in b.
func (d *dictionary) fill(l *leaf, b []byte, n int) error {
	d.read, d.n = true, n
	switch {
	case n < 0 || l.physical == format.Boolean:
		return errors.New("a damaged dictionary")
	case l.width > 0:
		if n > len(b)/l.width {
			return errors.New("a dictionary that ends early")
		}
		d.fixed = make([]byte, n*l.size())
		return l.convert(d.fixed, b[:n*l.width])
	case n > len(b)/4:
		return errors.New("a dictionary that ends early")
	}
	offsets, data := make([]int32, 1, n+2), make([]byte, 0, len(b)-4*n)
	for range n {
		text, rest, err := splitLength(b)
		if err != nil {
			return err
		}
		data = append(data, text...)
		offsets, b = append(offsets, int32(len(data))), rest
	}
	if n == 0 { // the rows of an all-null column may have code 0
		offsets = append(offsets, 0)
	}
	var err error
	d.texts, err = column.OfOffsets(offsets, data)
	return err
}

// convert converts stored values in src to their representation in memory, in dst.
func (l *leaf) convert(dst, src []byte) error {
	switch size := l.size(); {
	case l.physical == format.Int96:
		return fromInt96(words[int64](dst), src)
	case l.half:
		for i, out := 0, words[float32](dst); i < len(out); i++ {
			out[i] = fromHalf(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case size == l.width:
		copy(dst, src)
	default:
		return narrow(l.Type.Column, dst, src)
	}
	return nil
}

func words[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// narrow converts stored 32-bit integers to 8 or 16 bits. A value outside the range of t is an
// error.
func narrow(t column.Type, dst, src []byte) error {
	for i := range len(src) / 4 {
		v := int32(binary.LittleEndian.Uint32(src[4*i:]))
		fits := false
		switch t {
		case column.Int8:
			dst[i], fits = byte(v), v == int32(int8(v))
		case column.Uint8:
			dst[i], fits = byte(v), v == int32(uint8(v))
		case column.Int16:
			binary.LittleEndian.PutUint16(dst[2*i:], uint16(v))
			fits = v == int32(int16(v))
		case column.Uint16:
			binary.LittleEndian.PutUint16(dst[2*i:], uint16(v))
			fits = v == int32(uint16(v))
		}
		if !fits {
			return fmt.Errorf("value %d does not fit %v", v, t)
		}
	}
	return nil
}

// fromInt96 converts INT96 timestamps to microseconds since 1970. An INT96 consists of the
// nanoseconds of a day and the day's Julian number. Spark adds the Julian number of 1970-01-01 in
// 64-bit microseconds, which overflow in the last 6,000 years of their range. The subtraction here
// wraps around likewise and restores these years.
func fromInt96(dst []int64, src []byte) error {
	const epoch, day = 2440588, 86_400_000_000
	for i := range dst {
		nanos := int64(binary.LittleEndian.Uint64(src[12*i:]))
		julian := int64(int32(binary.LittleEndian.Uint32(src[12*i+8:])))
		if julian > math.MaxInt64/day-1 || julian < math.MinInt64/day+1 || nanos < -1000*day ||
			nanos > 1000*day {
			return fmt.Errorf("an INT96, day %d and %d ns, does not fit 64 bits of microseconds", julian, nanos)
		}
		if nanos%1000 != 0 {
			return fmt.Errorf("an INT96, %d ns into a day, is finer than the microseconds of columns", nanos)
		}
		dst[i] = julian*day + nanos/1000 - epoch*day
	}
	return nil
}

// fromHalf converts a 16-bit float to a float32, which represents it exactly.
func fromHalf(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&1023
	switch {
	case exponent == 31:
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	case exponent > 0:
		return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
	}
	v := float32(fraction) / (1 << 24)
	return math.Float32frombits(sign | math.Float32bits(v))
}

// builder builds a column of n rows. Its field rows is the number of complete rows.
type builder struct {
	*leaf
	n, rows int
	valid   []byte // one bit per row; nil if no row is null so far

	fixed []byte // values of one size

	// Byte strings are collected as codes while all rows come from the dictionary, and otherwise in
	// offsets and data.
	codes   []uint32
	dict    *dictionary
	offsets []int64
	data    []byte
}

func newBuilder(l *leaf, n int) *builder {
	b := &builder{leaf: l, n: n}
	if size := l.size(); size > 0 {
		memory := make([]uint64, (n*size+7)/8) // aligned for any size
		b.fixed = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(memory))), n*size)
	}
	return b
}

func (b *builder) makeValid() {
	if b.valid == nil {
		b.valid = make([]byte, (b.n+7)/8)
		fill(b.valid, 0, b.rows)
	}
}

func (b *builder) null(row int) bool { return b.valid != nil && b.valid[row>>3]>>(row&7)&1 == 0 }

func (b *builder) column() (c column.Column, err error) {
	switch t := b.Type.Column; {
	case b.codes != nil:
		c, err = column.OfCodes(b.codes, b.dict.texts)
	case t == column.Bytes && b.Type.Width > 0:
		c, err = column.OfWidth(b.Type.Width, b.fixed)
	case t == column.Bytes && len(b.data) <= math.MaxInt32:
		small := make([]int32, len(b.offsets))
		for i, o := range b.offsets {
			small[i] = int32(o)
		}
		c, err = column.OfOffsets(small, b.data)
	case t == column.Bytes:
		c, err = column.OfOffsets(b.offsets, b.data)
	default:
		c = ofNumbers(t, b.fixed)
	}
	if err != nil || b.valid == nil {
		return c, err
	}
	if valid := column.OfBits(b.valid, 0, b.n); valid.Count() < b.n {
		c = c.WithValid(valid)
	}
	return c, nil
}

// ofNumbers returns b as a column of numbers or booleans.
func ofNumbers(t column.Type, b []byte) column.Column {
	switch t {
	case column.Int8:
		return column.Of(words[int8](b))
	case column.Int16:
		return column.Of(words[int16](b))
	case column.Int32:
		return column.Of(words[int32](b))
	case column.Int64:
		return column.Of(words[int64](b))
	case column.Uint8:
		return column.Of(words[uint8](b))
	case column.Uint16:
		return column.Of(words[uint16](b))
	case column.Uint32:
		return column.Of(words[uint32](b))
	case column.Uint64:
		return column.Of(words[uint64](b))
	case column.Float32:
		return column.Of(words[float32](b))
	case column.Float64:
		return column.Of(words[float64](b))
	default:
		return column.Of(words[bool](b))
	}
}

// read decodes the next rows of the page. values is the number of these rows that are not null.
func (c *chunk) read(b *builder, rows, values int) error {
	if b.fixed == nil {
		return c.readTexts(b, rows, values)
	}
	size := b.size()
	dst := b.fixed[b.rows*size:][:values*size]
	if err := c.readFixed(dst, size, values); err != nil {
		return err
	}
	if values < rows {
		b.expand(size, rows, values)
	}
	return nil
}

func (c *chunk) readFixed(dst []byte, size, values int) error {
	p := &c.page
	switch p.from {
	case fromFixed:
		n := values * c.width
		if n > len(p.fixed) {
			return errShort
		}
		src := p.fixed[:n]
		p.fixed = p.fixed[n:]
		return c.convert(dst, src)
	case fromBits:
		if p.bit+values > 8*len(p.fixed) {
			return errShort
		}
		for i := range dst {
			dst[i] = p.fixed[(p.bit+i)>>3] >> ((p.bit + i) & 7) & 1
		}
		p.bit += values
		return nil
	case fromRuns, fromCodes:
		codes, err := c.nextCodes(values)
		if err != nil {
			return err
		}
		if p.from == fromCodes {
			return c.dict.gather(dst, size, codes)
		}
		for i, v := range codes {
			if v > 1 {
				return errRuns
			}
			dst[i] = byte(v)
		}
		return nil
	}
	return errShort
}

// nextCodes decodes the next n codes into memory that the next call reuses.
func (c *chunk) nextCodes(n int) ([]uint32, error) {
	if cap(c.buffers.codes) < n {
		c.buffers.codes = make([]uint32, n)
	}
	codes := c.buffers.codes[:n]
	return codes, c.page.codes.read(codes)
}

// gather writes the dictionary's value for each code to dst. Each value has size bytes.
func (d *dictionary) gather(dst []byte, size int, codes []uint32) (err error) {
	for _, code := range codes {
		if uint64(code) >= uint64(d.n) {
			return fmt.Errorf("code %d in a dictionary of %d values", code, d.n)
		}
	}
	switch size {
	case 1:
		pick(dst, d.fixed, codes)
	case 2:
		pick(words[uint16](dst), words[uint16](d.fixed), codes)
	case 4:
		pick(words[uint32](dst), words[uint32](d.fixed), codes)
	case 8:
		pick(words[uint64](dst), words[uint64](d.fixed), codes)
	default:
		for i, code := range codes {
			copy(dst[i*size:(i+1)*size], d.fixed[int(code)*size:])
		}
	}
	return nil
}

func pick[T any](dst, values []T, codes []uint32) {
	dst = dst[:len(codes)]
	for i, code := range codes {
		dst[i] = values[code]
	}
}

// expand distributes values, which lie at the front of the new rows, to the rows that are not null.
// Null rows become zero.
func (b *builder) expand(size, rows, values int) {
	switch part := b.fixed[b.rows*size:][:rows*size]; size {
	case 1:
		expandValues(b, part, values)
	case 2:
		expandValues(b, words[uint16](part), values)
	case 4:
		expandValues(b, words[uint32](part), values)
	case 8:
		expandValues(b, words[uint64](part), values)
	default:
		for i := rows - 1; i >= 0; i-- {
			to := part[i*size : (i+1)*size]
			if b.null(b.rows + i) {
				clear(to)
			} else {
				values--
				copy(to, part[values*size:])
			}
		}
	}
}

func expandValues[T uint8 | uint16 | uint32 | uint64](b *builder, part []T, values int) {
	for i := len(part) - 1; i >= 0; i-- {
		if b.null(b.rows + i) {
			part[i] = 0
		} else {
			values--
			part[i] = part[values]
		}
	}
}

func (c *chunk) readTexts(b *builder, rows, values int) error {
	p := &c.page
	if p.from == fromCodes && c.dict.n == 0 && values > 0 {
		return errors.New("codes in a dictionary without values")
	}
	if p.from == fromCodes && b.offsets == nil {
		if b.codes == nil {
			b.codes, b.dict = make([]uint32, b.n), &c.dict
		}
		if err := p.codes.read(b.codes[b.rows:][:values]); err != nil {
			return err
		}
		if values < rows {
			expandValues(b, b.codes[b.rows:][:rows], values)
		}
		return nil
	}
	if err := b.toTexts(); err != nil {
		return err
	}
	if p.from != fromCodes && p.from != fromTexts {
		return errShort
	}
	var codes []uint32
	if p.from == fromCodes {
		var err error
		if codes, err = c.nextCodes(values); err != nil {
			return err
		}
	}
	for i := range rows {
		if !b.null(b.rows + i) {
			switch {
			case p.from == fromCodes:
				if err := b.appendCode(&c.dict, codes[0]); err != nil {
					return err
				}
				codes = codes[1:]
			case p.offsets != nil:
				if len(p.offsets) < 2 {
					return errShort
				}
				b.data = append(b.data, p.data[p.offsets[0]:p.offsets[1]]...)
				p.offsets = p.offsets[1:]
			default:
				text, rest, err := splitLength(p.data)
				if err != nil {
					return err
				}
				b.data, p.data = append(b.data, text...), rest
			}
		}
		b.offsets = append(b.offsets, int64(len(b.data)))
	}
	return nil
}

func (b *builder) appendCode(d *dictionary, code uint32) error {
	if uint64(code) >= uint64(d.n) {
		return fmt.Errorf("code %d in a dictionary of %d values", code, d.n)
	}
	b.data = append(b.data, d.texts.Bytes(int(code))...)
	return nil
}

// toTexts switches the builder from codes to offsets and data, and converts the codes so far.
func (b *builder) toTexts() error {
	if b.offsets != nil {
		return nil
	}
	b.offsets = make([]int64, 1, b.n+1)
	for row := range b.rows {
		if !b.null(row) {
			if err := b.appendCode(b.dict, b.codes[row]); err != nil {
				return err
			}
		}
		b.offsets = append(b.offsets, int64(len(b.data)))
	}
	b.codes = nil
	return nil
}
