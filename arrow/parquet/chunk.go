package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync"

	"github.com/parquet-go/parquet-go/format"

	"github.com/weftgo/weft/column"
)

// chunk reads the values of one field in one row group, page by page.
type chunk struct {
	*leaf
	f       *File
	codec   format.CompressionCodec
	start   int64 // position of the first page in the file
	at, end int64 // range of unread bytes in the file
	exact   int64 // end of the pages according to the metadata; the field end may be larger

	window    []byte // bytes of the file from position windowAt on
	windowAt  int64
	readAhead int64 // number of bytes to read at once

	group    int
	row      int64 // index of the next row in the row group
	rows     int64 // number of rows of the row group
	location pageLocations

	dict dictionary
	page page
	*buffers
}

// buffers holds memory that successive chunks reuse.
type buffers struct {
	window, plain []byte
	codes         []uint32
}

var bufferPool = sync.Pool{New: func() any { return new(buffers) }}

// page holds the unread part of a page.
type page struct {
	rows   int
	levels hybrid // level of each row if the field is optional: 1, or 0 for null
	from   source
	codes  hybrid // codes of dictionary values, or booleans
	fixed  []byte // stored values of one width, or bits
	bit    int    // index of the next boolean in fixed

	offsets []int // offsets of byte strings in data; if nil, a length precedes each byte string
	data    []byte
}

// source is the encoding of a page's values.
type source uint8

const (
	fromCodes source = iota
	fromFixed
	fromBits
	fromRuns
	fromTexts
)

// plainDictionary is the encoding that older writers set for dictionaries and for codes.
const plainDictionary = format.Encoding(2)

const (
	// maxPage bounds the uncompressed bytes of a page. Writers make pages of about a megabyte.
	maxPage = 1 << 30
	// maxPacked bounds the compressed bytes of a page, which may exceed its uncompressed bytes.
	maxPacked = maxPage + maxPage/4
	// maxHeader bounds the header of a page, which may contain the page's minimum and maximum.
	maxHeader = 16 << 20
	// sizeSlack is the number of bytes by which the metadata may understate a chunk's size:
	// parquet-mr before 1.2.9 omitted a header.
	sizeSlack = 100
)

// chunk opens the column chunk of a field in a row group. The chunk reads readAhead bytes of the
// file at once.
func (f *File) chunk(group int, l *leaf, readAhead int64) (*chunk, error) {
	g := &f.meta.RowGroups[group]
	if l.index >= len(g.Columns) { // the schema has more columns than the row group
		return nil, fmt.Errorf("%w: %d columns, fewer than the schema", errThrift, len(g.Columns))
	}
	c := &g.Columns[l.index]
	m := &c.MetaData
	at := m.DataPageOffset
	if d := m.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	switch {
	case c.FilePath != "":
		return nil, fmt.Errorf("its values are in another file, %.80q, which is not supported",
			c.FilePath)
	case c.Encrypted.Value != nil:
		return nil, errors.New("it is encrypted, which is not supported")
	case m.Type != l.physical:
		return nil, fmt.Errorf("%w: values of type %v, where the schema has %v", errThrift,
			m.Type, l.physical)
	case at < 0 || m.TotalCompressedSize < 0 || at > f.size || m.TotalCompressedSize > f.size-at:
		return nil, fmt.Errorf("%w: %d bytes at offset %d of a file of %d bytes", errThrift,
			m.TotalCompressedSize, at, f.size)
	}
	if m.NumValues != g.NumRows && l.Type.Kind != Null {
		return nil, fmt.Errorf("%w: %d values in a row group of %d rows", errThrift, m.NumValues, g.NumRows)
	}
	end := at + m.TotalCompressedSize
	exact := end
	if strings.HasPrefix(f.meta.CreatedBy, "parquet-mr") {
		end = min(end+sizeSlack, f.size)
	}
	return &chunk{leaf: l, f: f, codec: m.Codec, start: at, at: at, end: end, exact: exact,
		readAhead: readAhead, group: group, rows: g.NumRows, buffers: bufferPool.Get().(*buffers)}, nil
}

func (c *chunk) release() {
	if c.buffers != nil {
		bufferPool.Put(c.buffers)
		c.buffers = nil
	}
}

// ended returns an error if rows follow the last row of the row group, in this page or in later
// ones.
func (c *chunk) ended() (err error) {
	defer recoverError(&err)
	if c.Type.Kind == Null {
		return nil // its pages are not read
	}
	left := c.page.rows > 0
	for !left && c.at < c.exact {
		h, err := c.header()
		if err != nil || int64(h.CompressedPageSize) < 0 || int64(h.CompressedPageSize) > c.end-c.at {
			return nil // the remaining bytes are not a page
		}
		left = h.DataPageHeader.Valid && h.DataPageHeader.V.NumValues > 0 ||
			h.DataPageHeaderV2.Valid && h.DataPageHeaderV2.V.NumValues > 0
		c.at += int64(h.CompressedPageSize)
	}
	if left {
		return errors.New("more rows than the metadata announces")
	}
	return nil
}

func (c *chunk) next(n int) (column.Column, error) {
	return c.ranges([]rowRange{{c.row, c.row + int64(n)}})
}

// ranges returns a column of the rows in the given ranges, which must be in ascending order and
// begin at the next row or later. It skips all other rows.
func (c *chunk) ranges(ranges []rowRange) (col column.Column, err error) {
	defer recoverError(&err)
	n := countRows(ranges)
	if c.Type.Kind == Null {
		return column.OfStrings(make([]string, n)).WithValid(column.OfBools(make([]bool, n))), nil
	}
	b := newBuilder(c.leaf, n)
	for _, r := range ranges {
		c.location.stop = r.hi
		if err := c.skip(r.lo); err != nil {
			return col, err
		}
		if err := c.append(b, r.hi); err != nil {
			return col, err
		}
	}
	return b.column()
}

func (c *chunk) append(b *builder, end int64) error {
	for c.row < end {
		if c.page.rows == 0 {
			if _, err := c.nextPage(0); err != nil {
				return err
			}
			continue
		}
		m := int(min(end-c.row, int64(c.page.rows)))
		values, err := c.levels(b, m)
		if err != nil {
			return err
		}
		if err := c.read(b, m, values); err != nil {
			return err
		}
		b.rows += m
		c.page.rows -= m
		c.row += int64(m)
	}
	return nil
}

// levels determines which of the next m rows are null, marks them in b, and returns the number of
// other rows.
func (c *chunk) levels(b *builder, m int) (values int, err error) {
	if !c.optional {
		return m, nil
	}
	h := &c.page.levels
	if err := h.begin(); err != nil {
		return 0, err
	}
	if b.valid == nil && !h.plain && h.value == 1 && h.left >= m { // no nulls up to here
		h.left -= m
		return m, nil
	}
	b.makeValid()
	return h.levels(b.valid, b.rows, m)
}

// peek returns at least n unread bytes of the chunk, or all if fewer remain. The bytes are valid
// until the next call.
func (c *chunk) peek(n int64) ([]byte, error) {
	n = min(n, c.end-c.at)
	if lo := c.at - c.windowAt; lo >= 0 && lo+n <= int64(len(c.window)) {
		return c.window[lo:], nil
	}
	size := int(max(n, min(c.readAhead, c.wanted()-c.at)))
	c.buffers.window = grow(c.buffers.window[:0], size)
	c.window, c.windowAt = c.buffers.window[:size], c.at
	if n, err := c.f.r.ReadAt(c.window, c.at); n < size {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		c.window = nil
		return nil, err
	}
	return c.window, nil
}

func (c *chunk) header() (*format.PageHeader, error) {
	for n := int64(512); ; n *= 2 {
		b, err := c.peek(n)
		if err != nil {
			return nil, err
		}
		var h format.PageHeader
		size, err := unmarshal(b, &h)
		if err == nil {
			c.at += int64(size)
			return &h, nil
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) || n >= c.end-c.at || n > maxHeader {
			return nil, fmt.Errorf("header of a page: %w", err)
		}
	}
}

// nextPage reads pages until one has rows. If that page has at most limit rows, nextPage passes
// over it without decoding it. passed is the number of rows passed over.
func (c *chunk) nextPage(limit int64) (passed int64, err error) {
	for c.page.rows == 0 && passed == 0 {
		if c.at >= c.end {
			return 0, errors.New("fewer rows than the metadata announces")
		}
		if passed, err = c.onePage(limit); err != nil {
			return 0, err
		}
	}
	return passed, nil
}

// onePage reads a page. If the page is a data page and has at most limit rows, onePage passes over
// it. passed is the number of rows passed over.
func (c *chunk) onePage(limit int64) (passed int64, err error) {
	h, err := c.header()
	if err != nil {
		return 0, err
	}
	size := int64(h.CompressedPageSize)
	if size < 0 || size > c.end-c.at || size > maxPacked || h.UncompressedPageSize < 0 ||
		h.UncompressedPageSize > maxPage {
		return 0, fmt.Errorf("a page of %d bytes, %d uncompressed, where %d bytes are left", size,
			h.UncompressedPageSize, c.end-c.at)
	}
	rows := int64(0) // number of rows of a data page, 0 for other pages
	switch h.Type {
	case format.DataPage:
		rows = int64(h.DataPageHeader.V.NumValues)
	case format.DataPageV2:
		rows = int64(h.DataPageHeaderV2.V.NumValues)
	}
	if err := c.location.check(c.row, rows, c.rows); err != nil {
		return 0, err
	}
	if rows > 0 && rows <= limit {
		c.at += size
		return rows, nil
	}
	b, err := c.peek(size)
	if err != nil {
		return 0, err
	}
	b = b[:size]
	if h.CRC != 0 && crc32.ChecksumIEEE(b) != uint32(h.CRC) {
		return 0, fmt.Errorf("the checksum of the page of %d bytes at offset %d does not match",
			size, c.at)
	}
	c.at += size
	switch {
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		err = c.dictionary(h, b)
	case h.Type == format.DataPage && h.DataPageHeader.Valid:
		err = c.page1(h, b)
	case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
		err = c.page2(h, b)
	}
	return 0, err
}

// unpacked decompresses a page to size bytes. The result is valid until the next page is read.
func (c *chunk) unpacked(b []byte, size int) ([]byte, error) {
	if c.codec == format.Uncompressed {
		if len(b) != size {
			return nil, fmt.Errorf("a page of %d bytes, want %d", len(b), size)
		}
		return b, nil
	}
	if size == 0 {
		return c.plain[:0], nil
	}
	out, err := decompress(c.codec, c.plain[:0], b, size)
	if err == nil {
		c.plain = out
	}
	return out, err
}

func (c *chunk) dictionary(h *format.PageHeader, b []byte) error {
	b, err := c.unpacked(b, int(h.UncompressedPageSize))
	if err != nil {
		return err
	}
	d := &h.DictionaryPageHeader.V
	if d.Encoding != format.Plain && d.Encoding != plainDictionary {
		return fmt.Errorf("encoding %v of a dictionary is not supported", d.Encoding)
	}
	if c.dict.read {
		return errors.New("two dictionaries")
	}
	return c.dict.fill(c.leaf, b, int(d.NumValues))
}

// page1 opens a data page of version 1, which compresses levels and values together.
func (c *chunk) page1(h *format.PageHeader, b []byte) error {
	b, err := c.unpacked(b, int(h.UncompressedPageSize))
	if err != nil {
		return err
	}
	d := &h.DataPageHeader.V
	if c.optional && d.NumValues > 0 {
		if d.DefinitionLevelEncoding != format.RLE {
			return fmt.Errorf("encoding %v of levels is not supported", d.DefinitionLevelEncoding)
		}
		if c.page.levels.b, b, err = splitLength(b); err != nil {
			return err
		}
	}
	return c.open(d.Encoding, b, int(d.NumValues))
}

// splitLength splits b after its first byte string, which a length of four bytes precedes.
func splitLength(b []byte) (part, rest []byte, err error) {
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, nil, errors.New("a page that ends early")
	}
	n := 4 + int(binary.LittleEndian.Uint32(b))
	return b[4:n], b[n:], nil
}

// page2 opens a data page of version 2, which compresses only the values.
func (c *chunk) page2(h *format.PageHeader, b []byte) error {
	d := &h.DataPageHeaderV2.V
	repeated, defined := int(d.RepetitionLevelsByteLength), int(d.DefinitionLevelsByteLength)
	if repeated < 0 || defined < 0 || repeated > len(b) || defined > len(b)-repeated ||
		int(h.UncompressedPageSize) < repeated+defined {
		return errors.New("a page that ends early")
	}
	levels, values := b[repeated:repeated+defined], b[repeated+defined:]
	if !d.IsCompressed.Valid || d.IsCompressed.V {
		var err error
		if values, err = c.unpacked(values,
			int(h.UncompressedPageSize)-repeated-defined); err != nil {
			return err
		}
	}
	c.page.levels.b = levels
	return c.open(d.Encoding, values, int(d.NumValues))
}

// open sets c.page to a data page of the given number of rows. b holds the page's values in
// encoding e.
func (c *chunk) open(e format.Encoding, b []byte, rows int) (err error) {
	if rows < 0 {
		return fmt.Errorf("a page of %d rows", rows)
	}
	p := page{rows: rows, levels: hybrid{b: c.page.levels.b, bits: 1}}
	unsuited := fmt.Errorf("encoding %v of values of type %v is not supported", e, c.physical)
	switch {
	case e == plainDictionary || e == format.RLEDictionary:
		if !c.dict.read {
			return errors.New("codes without a dictionary")
		}
		if len(b) > 0 { // a page of nulls may be empty
			if p.codes = (hybrid{b: b[1:], bits: uint(b[0])}); b[0] > 32 {
				return errRuns
			}
			if b[0] == 0 { // codes of no bits may have no runs
				p.codes.left = rows
			}
		}
	case e == format.Plain && c.physical == format.Boolean:
		p.from, p.fixed = fromBits, b
	case e == format.Plain && c.width > 0:
		p.from, p.fixed = fromFixed, b
	case e == format.Plain:
		p.from, p.data = fromTexts, b
	case e == format.RLE && c.physical == format.Boolean:
		p.from = fromRuns
		if len(b) > 0 {
			p.codes.bits = 1
			p.codes.b, _, err = splitLength(b)
		}
	case e == format.DeltaBinaryPacked && (c.physical == format.Int32 ||
		c.physical == format.Int64):
		var values []int64
		if len(b) > 0 {
			values, _, err = deltas(b, rows)
		}
		p.from, p.fixed = fromFixed, make([]byte, 0, c.width*len(values))
		for _, v := range values {
			if c.width == 4 {
				p.fixed = binary.LittleEndian.AppendUint32(p.fixed, uint32(v))
			} else {
				p.fixed = binary.LittleEndian.AppendUint64(p.fixed, uint64(v))
			}
		}
	case e == format.ByteStreamSplit && c.width > 0:
		p.from, p.fixed = fromFixed, unsplit(b, c.width)
	case c.physical != format.ByteArray && (c.physical != format.FixedLenByteArray ||
		e != format.DeltaByteArray):
		return unsuited
	case e == format.DeltaLengthByteArray || e == format.DeltaByteArray:
		decode := deltaTexts
		if e == format.DeltaByteArray {
			decode = frontTexts
		}
		p.from, p.offsets = fromTexts, make([]int, 1)
		if len(b) > 0 {
			p.offsets, p.data, err = decode(b, rows)
		}
		if c.width > 0 && err == nil {
			p.from, p.fixed = fromFixed, p.data
			for i := 1; i < len(p.offsets); i++ {
				if p.offsets[i] != i*c.width {
					return errDelta
				}
			}
		}
	default:
		return unsuited
	}
	c.page = p
	return err
}
