package parquet

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"

	"github.com/klauspost/compress/snappy"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/weftgo/weft/column"
)

type fieldWriter struct {
	Field
	physical format.Type
	width    int  // length of all byte strings, if they have one length
	texts    bool // the field has byte strings of any length, which may use a dictionary

	// These fields describe the next page.
	rows, nulls int
	valid       []byte // one bit per row
	values      []byte // encoded values
	bit         int    // number of booleans in values, which stores eight per byte
	codes       []uint32
	extent      extent

	// These fields describe the row group.
	index     pageIndex
	dict      map[string]uint32
	dictBytes []byte // encoded values of the dictionary
	plain     bool   // the dictionary is full, and values are stored directly
	coded     bool   // some pages store codes
	pages     []byte
	raw       int64 // size of the pages before compression
	allNulls  int64
}

const (
	// maxDict bounds the number of values in a dictionary, and maxDictBytes their total bytes.
	// Codes for a larger dictionary would be so wide that they save little.
	maxDict, maxDictBytes = 1 << 16, 1 << 20
)

func (f *fieldWriter) size() int {
	return len(f.pages) + len(f.values) + 4*len(f.codes) + len(f.dictBytes)
}

// add adds the values of a column. It splits a column of more than pageBytes bytes of text into
// smaller ones.
func (f *fieldWriter) add(c column.Column) error {
	if n := c.Len(); f.texts && n > 1 && textBytes(c) > pageBytes {
		if err := f.add(c.Slice(0, n/2)); err != nil {
			return err
		}
		return f.add(c.Slice(n/2, n))
	}
	for len(f.valid) < (f.rows+c.Len()+7)/8 {
		f.valid = append(f.valid, 0)
	}
	nulls := c.Nulls()
	f.nulls += nulls
	if nulls == 0 {
		fill(f.valid, f.rows, c.Len())
	} else {
		for i := range c.Len() {
			if !c.Null(i) {
				f.valid[(f.rows+i)>>3] |= 1 << ((f.rows + i) & 7)
			}
		}
	}
	if err := f.addValues(c, nulls); err != nil {
		return err
	}
	f.extent.add(c)
	if f.rows += c.Len(); len(f.values) >= pageBytes || f.rows >= pageRows {
		return f.page()
	}
	return nil
}

func textBytes(c column.Column) (n int) {
	for i := range c.Len() {
		if !c.Null(i) {
			n += len(c.Bytes(i))
		}
	}
	return n
}

func (f *fieldWriter) addValues(c column.Column, nulls int) error {
	if nulls == c.Len() || f.Type.Kind == Null {
		return nil
	}
	size := c.Type().Size()
	switch raw := c.Raw(); {
	case f.texts:
		return f.addTexts(c)
	case f.width > 0:
		for i := range c.Len() {
			if b := c.Bytes(i); !c.Null(i) {
				if len(b) != f.width {
					return fmt.Errorf("a value of %d bytes, want %d", len(b), f.width)
				}
				f.values = append(f.values, b...)
			}
		}
	case size >= 4 && nulls == 0:
		f.values = append(f.values, raw...)
	default:
		for i := range c.Len() {
			switch v := raw[i*size:]; {
			case c.Null(i):
			case c.Type() == column.Bool:
				if f.bit&7 == 0 {
					f.values = append(f.values, 0)
				}
				f.values[f.bit>>3] |= min(v[0], 1) << (f.bit & 7)
				f.bit++
			case size >= 4:
				f.values = append(f.values, v[:size]...)
			default:
				f.values = binary.LittleEndian.AppendUint32(f.values, widened(c.Type(), v))
			}
		}
	}
	return nil
}

func widened(t column.Type, v []byte) uint32 {
	switch t {
	case column.Int8:
		return uint32(int8(v[0]))
	case column.Uint8:
		return uint32(v[0])
	case column.Int16:
		return uint32(int16(binary.LittleEndian.Uint16(v)))
	}
	return uint32(binary.LittleEndian.Uint16(v))
}

func (f *fieldWriter) addTexts(c column.Column) error {
	for i := range c.Len() {
		if c.Null(i) {
			continue
		}
		b := c.Bytes(i)
		if len(b) > math.MaxInt32/2 {
			return fmt.Errorf("a value of %d bytes is too long", len(b))
		}
		if !f.plain {
			if code, ok := f.code(b); ok {
				f.codes = append(f.codes, code)
				continue
			}
			if err := f.endDictionary(); err != nil {
				return err
			}
		}
		f.values = append(binary.LittleEndian.AppendUint32(f.values, uint32(len(b))), b...)
	}
	return nil
}

// code returns the code of a value, and adds the value to the dictionary if needed. ok is false if
// the dictionary is full.
func (f *fieldWriter) code(b []byte) (code uint32, ok bool) {
	if code, ok = f.dict[string(b)]; ok {
		return code, true
	}
	if len(f.dict) >= maxDict || len(f.dictBytes)+len(b) > maxDictBytes {
		return 0, false
	}
	if f.dict == nil {
		f.dict = map[string]uint32{}
	}
	code = uint32(len(f.dict))
	f.dict[string(b)] = code
	f.dictBytes = append(binary.LittleEndian.AppendUint32(f.dictBytes, uint32(len(b))), b...)
	return code, true
}

// endDictionary switches from codes to plain values, and converts the codes of the next page.
func (f *fieldWriter) endDictionary() error {
	f.plain = true
	starts := make([]int, 0, len(f.dict))
	for at := 0; at < len(f.dictBytes); {
		starts = append(starts, at)
		at += 4 + int(binary.LittleEndian.Uint32(f.dictBytes[at:]))
	}
	for _, code := range f.codes {
		at := starts[code]
		f.values = append(f.values,
			f.dictBytes[at:at+4+int(binary.LittleEndian.Uint32(f.dictBytes[at:]))]...)
	}
	f.codes = f.codes[:0]
	return nil
}

func (f *fieldWriter) page() error {
	b := make([]byte, 4, 4+len(f.valid)+len(f.values)+5*len(f.codes)/2+16)
	if f.nulls == 0 {
		b = append(binary.AppendUvarint(b, uint64(f.rows)<<1), 1)
	} else {
		b = append(binary.AppendUvarint(b, uint64(len(f.valid))<<1|1), f.valid...)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	h := format.PageHeader{Type: format.DataPage}
	d := format.DataPageHeader{NumValues: int32(f.rows), DefinitionLevelEncoding: format.RLE,
		RepetitionLevelEncoding: format.RLE}
	if f.texts && !f.plain {
		f.coded = true
		d.Encoding = format.RLEDictionary
		b = appendCodes(b, f.codes, uint(bits.Len(uint(max(len(f.dict)-1, 0)))))
	} else {
		b = append(b, f.values...)
	}
	h.DataPageHeader.Set(d)
	f.allNulls += int64(f.nulls)
	rows, nulls, at := f.rows, f.nulls, len(f.pages)
	f.rows, f.nulls, f.bit = 0, 0, 0
	f.valid, f.values, f.codes = f.valid[:0], f.values[:0], f.codes[:0]
	out, raw, err := appendPage(f.pages, &h, b)
	f.pages, f.raw = out, f.raw+int64(raw)
	f.index.add(f.Type, &f.extent, at, len(out)-at, rows, nulls)
	f.extent = extent{}
	return err
}

// appendCodes appends codes of width bits each, bit-packed in groups of eight.
func appendCodes(b []byte, codes []uint32, width uint) []byte {
	b = append(b, byte(width))
	b = binary.AppendUvarint(b, uint64((len(codes)+7)/8)<<1|1)
	end := len(b) + (len(codes)+7)/8*int(width)
	var word uint64
	n := uint(0)
	for _, code := range codes {
		word |= uint64(code) << n
		for n += width; n >= 8; n -= 8 {
			b = append(b, byte(word))
			word >>= 8
		}
	}
	if n > 0 {
		b = append(b, byte(word))
	}
	return append(b, make([]byte, end-len(b))...)
}

// appendPage appends the header and the compressed bytes of page b to a slice. raw is the size
// without compression.
func appendPage(to []byte, h *format.PageHeader, b []byte) (out []byte, raw int, err error) {
	if len(b) > maxPage { // a smaller page fits in 32 bits even if snappy enlarges it
		return to, 0, fmt.Errorf("a page of %d bytes, more than %d: a value is too long for this file", len(b), maxPage)
	}
	packed := snappy.Encode(nil, b)
	h.UncompressedPageSize, h.CompressedPageSize = int32(len(b)), int32(len(packed))
	h.CRC = int32(crc32.ChecksumIEEE(packed))
	head, err := thrift.Marshal(new(thrift.CompactProtocol), h)
	return append(append(to, head...), packed...), len(head) + len(b), err
}

// end writes the pages of a row group, and resets f for the next row group.
func (f *fieldWriter) end(w *Writer) (m format.ColumnMetaData, err error) {
	if f.rows > 0 {
		err = f.page()
	}
	m = format.ColumnMetaData{Type: f.physical, PathInSchema: []string{f.Name},
		Codec: format.Snappy, Encoding: []format.Encoding{format.RLE, format.Plain}}
	start := w.at
	if f.coded {
		h := format.PageHeader{Type: format.DictionaryPage}
		h.DictionaryPageHeader.Set(format.DictionaryPageHeader{NumValues: int32(len(f.dict)),
			Encoding: format.Plain})
		dict, raw, failed := appendPage(nil, &h, f.dictBytes)
		if err == nil {
			err = failed
		}
		m.DictionaryPageOffset = w.at
		m.Encoding = append(m.Encoding, format.RLEDictionary)
		w.write(dict)
		f.raw += int64(raw)
	}
	m.DataPageOffset = w.at
	for i := range f.index.offsets.PageLocations {
		f.index.offsets.PageLocations[i].Offset += w.at
	}
	w.indexes = append(w.indexes, f.index)
	w.write(f.pages)
	m.TotalCompressedSize, m.TotalUncompressedSize = w.at-start, f.raw
	m.Statistics.NullCount = f.allNulls
	if lo, hi, ok := f.index.extent.stored(f.Type); ok {
		m.Statistics.MinValue, m.Statistics.MaxValue = lo, hi
	}
	*f = fieldWriter{Field: f.Field, physical: f.physical, width: f.width, texts: f.texts,
		pages: f.pages[:0], valid: f.valid, values: f.values, codes: f.codes}
	return m, err
}
