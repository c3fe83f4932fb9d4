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

// arrow-go trusts the metadata of a message and allocates what it says: one damaged number would
// exhaust memory. Messages are therefore read here, and passed on only if the lists in them fit the
// message.

// maxRatio bounds the compression ratio of data. No codec of Arrow exceeds it, except on zeros.
const maxRatio = 1 << 12

// maxAlloc bounds a single allocation of a reader, in bytes.
const maxAlloc = 1 << 32

// OpenIPC reads the metadata of an Arrow file or stream of size bytes. The first bytes distinguish
// the two. Damage is an error, here or when [NextBatch] reads a record batch. Numbers that exceed
// the bytes of a message are refused before memory is allocated.
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

// NextBatch returns the next record batch of a reader, or [io.EOF] after the last. Panics of
// arrow-go on damaged files become errors. The batch is valid until the next call.
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

// maxRows bounds the rows of a batch: rows of nulls take no bytes in the file.
const maxRows = 1 << 28

// messages reads the messages of an Arrow stream, or of a file, between its header and its footer.
type messages struct {
	r    *io.SectionReader
	left int64 // number of bytes that may be messages
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
		return nil, errors.New("no footer of an Arrow file")
	}
	return &messages{io.NewSectionReader(at, 8, size-8), size - 18 - footer}, nil
}

// Message returns the next message, or io.EOF after the last.
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
		return nil, fmt.Errorf("%d bytes are announced where there are %d: %w", n, m.left, io.ErrUnexpectedEOF)
	}
	m.left -= n
	b := make([]byte, n)
	_, err := io.ReadFull(m.r, b)
	return b, err
}

// Retain and Release implement [ipc.MessageReader]. They have nothing to free.
func (m *messages) Retain()  {}
func (m *messages) Release() {}

// flat is a FlatBuffers buffer. Out-of-range references panic.
type flat struct {
	b      []byte
	fields int // remaining visits of fields: two references may share one
}

func (f *flat) u32(at int) int { return int(binary.LittleEndian.Uint32(f.b[at:])) }

// field returns the position of a field of a table, or 0 if it is missing.
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

// list returns the first element and the length of a list that a field refers to.
func (f *flat) list(table, i, size int) (first, n int) {
	at := f.field(table, i)
	if at == 0 {
		return 0, 0
	}
	at += f.u32(at)
	n = f.u32(at)
	if n > (len(f.b)-at-4)/size {
		panic(fmt.Sprintf("a list of %d in a message of %d bytes", n, len(f.b)))
	}
	return at + 4, n
}

// checkMessage returns the length of a message's body, if the lists of its metadata fit.
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

// checkFields checks the fields of a schema and their children.
func (f *flat) checkFields(table, i, depth int) {
	first, n := f.list(table, i, 4)
	if f.fields -= n; f.fields < 0 || depth > 64 {
		panic("fields in fields without end")
	}
	for at := first; at < first+4*n; at += 4 {
		field := at + f.u32(at)
		f.list(field, 6, 4)
		f.checkFields(field, 5, depth+1)
	}
}

// checkRecords checks the buffer descriptions of a record batch.
func (f *flat) checkRecords(table int) {
	f.list(table, 1, 16)
	f.list(table, 2, 16)
	f.list(table, 4, 8)
}

// bounded refuses allocations that no valid file of a size needs.
type bounded struct {
	memory.Allocator
	limit int
}

func (a bounded) Allocate(n int) []byte {
	if n > a.limit {
		panic(fmt.Sprintf("%d bytes are announced", n))
	}
	return a.Allocator.Allocate(n)
}

func (a bounded) Reallocate(n int, b []byte) []byte {
	if n > a.limit {
		panic(fmt.Sprintf("%d bytes are announced", n))
	}
	return a.Allocator.Reallocate(n, b)
}

// recoverError turns panics of a reader of untrusted bytes into errors.
func recoverError(err *error, doing string) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("arrow: %s: %v", doing, p)
	}
}
