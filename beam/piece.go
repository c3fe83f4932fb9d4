package beam

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/seal"
	"github.com/weftgo/weft/internal/spill"
)

// A piece is a part of the state of groups, all of one partition, as bytes:
//
//	schema  length (uint32) and bytes: the schema of the result, as Arrow has it
//	head    length (uint32) and bytes: the header and layout of saved groups
//	pages   as in saved groups, without their end
//
// So the head of one piece, the pages of any number of pieces and an end are saved groups again,
// which group.Load merges while it reads. The format of saved groups is that of package group.
const (
	groupsHead = 28 // of saved groups, with its checksum
	pageHead   = 12 // the length of a page, and its checksum
)

// splitter cuts a stream of saved groups into pieces. It implements io.Writer, which
// group.Groups.Save writes to.
type splitter struct {
	dev    device.Host
	schema []byte // of the result
	parts  int
	emit   func(part int, piece []byte)

	stream []byte   // that is not worked on yet
	prefix []byte   // schema and head, with their lengths
	keys   int      // key columns of a page
	pieces [][]byte // by partition, until they are full
}

// Write implements io.Writer.
func (s *splitter) Write(b []byte) (int, error) {
	s.stream = append(s.stream, b...)
	for {
		n, err := s.step(s.stream)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return len(b), nil
		}
		s.stream = s.stream[:copy(s.stream, s.stream[n:])]
	}
}

// step works on the first n bytes of the stream; 0 if there have to be more.
func (s *splitter) step(b []byte) (n int, err error) {
	le := binary.LittleEndian
	if s.prefix == nil {
		if len(b) < groupsHead {
			return 0, nil
		}
		aggs, keys, values := le.Uint32(b[12:]), le.Uint32(b[16:]), le.Uint32(b[20:])
		n = groupsHead + int(5*aggs+keys+values) + 4
		if len(b) >= n {
			s.prefix = prefixOf(s.schema, b[:n])
			s.keys, s.pieces = int(keys), make([][]byte, s.parts)
			return n, nil
		}
		return 0, nil
	}
	if len(b) < pageHead {
		return 0, nil
	}
	size := int(le.Uint64(b))
	if size == 0 {
		return pageHead, nil
	}
	if n = pageHead + size; len(b) < n {
		return 0, nil
	}
	page, err := spill.DecodePage(bytes.Clone(b[pageHead:n])) // which the columns are views of
	if err != nil {
		return 0, err
	}
	return n, s.deal(page)
}

// prefixOf returns the part of a piece before its pages.
func prefixOf(schema, head []byte) (prefix []byte) {
	for _, b := range [][]byte{schema, head} {
		prefix = binary.LittleEndian.AppendUint32(prefix, uint32(len(b)))
		prefix = append(prefix, b...)
	}
	return prefix
}

// deal deals the groups of a page out to the pieces of their partitions.
func (s *splitter) deal(page []column.Column) error {
	if s.keys == 0 || s.parts == 1 {
		return s.add(0, page)
	}
	parts, err := column.Partition(s.dev, page[:s.keys], column.PartitionOptions{Parts: s.parts})
	if err != nil {
		return err
	}
	for i, c := range page {
		page[i] = column.Take(s.dev, c, parts.Rows)
	}
	some := make([]column.Column, len(page))
	for p := range s.parts {
		lo, hi := int(parts.Offsets[p]), int(parts.Offsets[p+1])
		if lo == hi {
			continue
		}
		for i, c := range page {
			some[i] = c.Slice(lo, hi)
		}
		if err := s.add(p, some); err != nil {
			return err
		}
	}
	return nil
}

// add adds groups to the piece of a partition, and emits it if it is full.
func (s *splitter) add(part int, page []column.Column) error {
	slice := make([]column.Column, len(page))
	frames, err := cut(page[0].Len(), sizeOf(page), func(lo, hi int, _ int64) ([]byte, error) {
		for i, c := range page {
			slice[i] = c.Slice(lo, hi)
		}
		b := spill.AppendPage(nil, slice)
		frame := binary.LittleEndian.AppendUint64(make([]byte, 0, pageHead+len(b)), uint64(len(b)))
		frame = binary.LittleEndian.AppendUint32(frame, crc32.Checksum(frame, seal.Castagnoli))
		return append(frame, b...), nil
	})
	for _, frame := range frames {
		if p := s.pieces[part]; p != nil && len(p)+len(frame) > MaxBlock {
			s.emit(part, p)
			s.pieces[part] = nil
		}
		if s.pieces[part] == nil {
			s.pieces[part] = bytes.Clone(s.prefix)
		}
		s.pieces[part] = append(s.pieces[part], frame...)
	}
	return err
}

// flush emits all pieces. Without any groups, partition 0 gets a piece without pages, so that the
// result has a schema.
func (s *splitter) flush() {
	emitted := false
	for p, piece := range s.pieces {
		if piece != nil {
			s.emit(p, piece)
			emitted = true
		}
	}
	if !emitted {
		s.emit(0, s.prefix)
	}
}

// pieceReader reads pieces as one stream of saved groups.
type pieceReader struct {
	next   func(*[]byte) bool
	schema []byte // of the first piece
	head   []byte // of the first piece that has pages
	rest   []byte // that Read has not returned yet
	ended  bool
}

// open reads pieces until one has pages, and reports whether there is any.
func (r *pieceReader) open() (bool, error) {
	if err := r.piece(); err != nil || r.ended {
		return false, err
	}
	r.rest = append(bytes.Clone(r.head), r.rest...)
	return true, nil
}

// piece makes rest the pages of the next piece that has some, or the end of the stream.
func (r *pieceReader) piece() error {
	var b []byte
	for r.next(&b) {
		schema, rest, err := prefixed(b)
		if err != nil {
			return err
		}
		head, pages, err := prefixed(rest)
		if err != nil {
			return err
		}
		if r.schema == nil {
			r.schema = schema
		}
		if !bytes.Equal(schema, r.schema) {
			return schemasDiffer(r.schema, schema)
		}
		if len(pages) == 0 {
			continue
		}
		if r.head == nil {
			r.head = head
		}
		if !bytes.Equal(head, r.head) {
			return fmt.Errorf("%w: pieces of groups of other types or aggregates", weft.ErrFormat)
		}
		r.rest = pages
		return nil
	}
	r.ended = true
	r.rest = make([]byte, 8, pageHead)
	r.rest = binary.LittleEndian.AppendUint32(r.rest, crc32.Checksum(r.rest, seal.Castagnoli))
	return nil
}

func schemasDiffer(a, b []byte) error {
	one, err := decodeSchema(a)
	if err != nil {
		return err
	}
	other, err := decodeSchema(b)
	if err != nil {
		return err
	}
	return differ(one, other)
}

// prefixed returns bytes after their length, and what follows.
func prefixed(b []byte) (first, rest []byte, err error) {
	if len(b) < 4 || uint64(len(b)-4) < uint64(binary.LittleEndian.Uint32(b)) {
		return nil, nil, fmt.Errorf("%w: a piece of groups ends", weft.ErrFormat)
	}
	n := 4 + binary.LittleEndian.Uint32(b)
	return b[4:n], b[n:], nil
}

// Read implements io.Reader.
func (r *pieceReader) Read(b []byte) (n int, err error) {
	for len(r.rest) == 0 {
		if r.ended {
			return 0, io.EOF
		}
		if err := r.piece(); err != nil {
			return 0, err
		}
	}
	n = copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
