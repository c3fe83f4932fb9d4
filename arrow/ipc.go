package arrow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// arrow-go trusts the lengths in a message's metadata when it allocates memory, so one damaged
// length would exhaust memory. This file therefore reads messages itself. It passes a message to
// arrow-go only if the lists in its metadata fit into the message.

// maxRatio bounds a single allocation relative to the size of the file. No codec of Arrow
// compresses data further, except zeros.
const maxRatio = 1 << 12

const maxAlloc = 1 << 32

// OpenIPC reads the metadata of an Arrow file or stream of size bytes. It distinguishes the two by
// their first bytes. Damaged metadata is an error here, and a damaged record batch is an error of
// [NextBatch]. A length that exceeds its message is an error before memory is allocated.
func OpenIPC(r io.ReaderAt, size int64) (_ *ipc.Reader, err error) {
	defer recoverError(&err, "open Arrow file")
	m, err := newMessages(r, size)
	if err != nil {
		return nil, fmt.Errorf("arrow: open Arrow file: %w", err)
	}
	allocator := bounded{memory.DefaultAllocator, int(min(maxRatio*size+1<<20, maxAlloc))}
	rd, err := ipc.NewReaderFromMessageReader(m, ipc.WithAllocator(allocator))
	if err != nil {
		return nil, fmt.Errorf("arrow: open Arrow file: %w", err)
	}
	return rd, nil
}

// NextBatch returns the next record batch of a reader, or [io.EOF] after the last. If arrow-go
// panics on a damaged file, NextBatch returns an error. The batch is valid until the next call.
func NextBatch(r *ipc.Reader) (rec arrow.RecordBatch, err error) {
	defer recoverError(&err, "read Arrow file")
	if !r.Next() {
		if err := r.Err(); err != nil && err != io.EOF {
			return nil, fmt.Errorf("arrow: read Arrow file: %w", err)
		}
		return nil, io.EOF
	}
	if n := r.RecordBatch().NumRows(); n < 0 || n > maxRows {
		return nil, fmt.Errorf("arrow: read Arrow file: a batch of %d rows", n)
	}
	return r.RecordBatch(), nil
}

// maxRows bounds the rows of a batch. A batch of nulls may claim any number of rows, because its
// rows take no bytes in the file.
const maxRows = 1 << 28

// messages reads the messages of an Arrow stream, or those between the header and the footer of an
// Arrow file.
type messages struct {
	r    *io.SectionReader
	left int64 // unread bytes before the end of the stream or the footer
}

func newMessages(at io.ReaderAt, size int64) (*messages, error) {
	head, tail := make([]byte, 6), make([]byte, 10)
	if _, err := at.ReadAt(head, 0); err != nil || string(head) != "ARROW1" {
		return &messages{io.NewSectionReader(at, 0, size), size}, nil
	}
	if size < 18 {
		return nil, io.ErrUnexpectedEOF
	}
	if _, err := at.ReadAt(tail, size-10); err != nil {
		return nil, err
	}
	footer := int64(binary.LittleEndian.Uint32(tail))
	if string(tail[4:]) != "ARROW1" || footer > size-18 {
		return nil, errors.New("the file has no footer of an Arrow file")
	}
	return &messages{io.NewSectionReader(at, 8, size-8), size - 18 - footer}, nil
}

// Message implements [ipc.MessageReader].
func (m *messages) Message() (_ *ipc.Message, err error) {
	defer recoverError(&err, "read Arrow message")
	size, err := m.word()
	if err == nil && size == 0xffffffff {
		size, err = m.word()
	}
	if err != nil {
		return nil, err
	}
	if size == 0 {
		return nil, io.EOF
	}
	meta, err := m.bytes(int64(size))
	if err != nil {
		return nil, err
	}
	body, err := checkMessage(meta)
	if err != nil {
		return nil, err
	}
	content, err := m.bytes(body)
	if err != nil {
		return nil, err
	}
	return ipc.NewMessage(memory.NewBufferBytes(meta), memory.NewBufferBytes(content)), nil
}

// word returns the next four bytes, or io.EOF at the end.
func (m *messages) word() (uint32, error) {
	if m.left == 0 {
		return 0, io.EOF
	}
	b, err := m.bytes(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (m *messages) bytes(n int64) ([]byte, error) {
	if n < 0 || n > m.left {
		return nil, fmt.Errorf("the message announces %d bytes, but %d are left: %w", n, m.left,
			io.ErrUnexpectedEOF)
	}
	m.left -= n
	b := make([]byte, n)
	_, err := io.ReadFull(m.r, b)
	return b, err
}

// Retain and Release implement [ipc.MessageReader]. They do nothing.
func (m *messages) Retain()  {}
func (m *messages) Release() {}

// flat reads a FlatBuffers buffer. An out-of-range reference panics.
type flat struct {
	b      []byte
	fields int // number of further visits to fields; bounds damaged references that form a cycle
}

func (f *flat) u32(at int) int { return int(binary.LittleEndian.Uint32(f.b[at:])) }

// field returns the position of field i of a table, or 0 if the field is missing.
func (f *flat) field(table, i int) int {
	v := table - int(int32(f.u32(table)))
	if 4+2*i >= int(binary.LittleEndian.Uint16(f.b[v:])) {
		return 0
	}
	if off := int(binary.LittleEndian.Uint16(f.b[v+4+2*i:])); off > 0 {
		return table + off
	}
	return 0
}

// list returns the position of the first element and the length of the list that field i of a table
// refers to. Each element has size bytes. A list that exceeds the buffer panics.
func (f *flat) list(table, i, size int) (first, n int) {
	at := f.field(table, i)
	if at == 0 {
		return 0, 0
	}
	at += f.u32(at)
	n = f.u32(at)
	if n > (len(f.b)-at-4)/size {
		panic(fmt.Sprintf("a list of %d elements in a message of %d bytes", n, len(f.b)))
	}
	return at + 4, n
}

// checkMessage returns the length of a message's body. It returns an error if a list in the
// metadata exceeds the metadata.
func checkMessage(meta []byte) (body int64, err error) {
	defer recoverError(&err, "read Arrow message")
	f := flat{meta, len(meta)}
	message := f.u32(0)
	f.list(message, 4, 4)
	if at := f.field(message, 3); at > 0 {
		body = int64(binary.LittleEndian.Uint64(meta[at:]))
	}
	kind, header := f.field(message, 1), f.field(message, 2)
	if kind == 0 || header == 0 {
		return 0, errors.New("a message without a header")
	}
	table := header + f.u32(header)
	switch meta[kind] {
	case 1: // schema
		f.list(table, 2, 4)
		f.list(table, 3, 8)
		f.checkFields(table, 1, 0)
	case 2: // dictionary
		data := f.field(table, 1)
		f.checkRecords(data + f.u32(data))
	case 3:
		f.checkRecords(table)
	}
	return body, nil
}

func (f *flat) checkFields(table, i, depth int) {
	first, n := f.list(table, i, 4)
	if f.fields -= n; f.fields < 0 || depth > 64 {
		panic("too many fields, or fields nested too deeply")
	}
	for at := first; at < first+4*n; at += 4 {
		field := at + f.u32(at)
		f.list(field, 6, 4)
		f.checkFields(field, 5, depth+1)
	}
}

func (f *flat) checkRecords(table int) {
	f.list(table, 1, 16)
	f.list(table, 2, 16)
	f.list(table, 4, 8)
}

// bounded panics on an allocation of more than limit bytes.
type bounded struct {
	memory.Allocator
	limit int
}

func (a bounded) Allocate(n int) []byte {
	if n > a.limit {
		panic(fmt.Sprintf("the message announces %d bytes, which is too many", n))
	}
	return a.Allocator.Allocate(n)
}

func (a bounded) Reallocate(n int, b []byte) []byte {
	if n > a.limit {
		panic(fmt.Sprintf("the message announces %d bytes, which is too many", n))
	}
	return a.Allocator.Reallocate(n, b)
}

func recoverError(err *error, doing string) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("arrow: %s: %v", doing, p)
	}
}
