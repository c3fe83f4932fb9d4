package beam

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/column"
)

// Decode returns the record batch of a block. Its arrays are views of the block's memory unless
// buffers are compressed, so the block must not change. A block without a record batch has no rows.
// Invalid bytes, and blocks of several record batches, cause [weft.ErrFormat].
func Decode(block []byte) (rec goarrow.RecordBatch, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
		if err != nil {
			err = fmt.Errorf("beam: a block of %d bytes: %w: %w", len(block), weft.ErrFormat, err)
		}
	}()
	m := &messages{block: block}
	if _, err := m.Message(); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	// OpenIPC returns an error for a damaged schema, for which arrow-go might exhaust memory.
	schema := block[:len(block)-len(m.block)]
	check, err := arrow.OpenIPC(bytes.NewReader(schema), int64(len(schema)))
	if err != nil {
		return nil, err
	}
	check.Release()
	r, err := ipc.NewReaderFromMessageReader(&messages{block: block})
	if err != nil {
		return nil, err
	}
	defer r.Release()
	rec, err = arrow.NextBatch(r)
	if errors.Is(err, io.EOF) {
		return emptyRecords(r.Schema())
	}
	if err != nil {
		return nil, err
	}
	rec.Retain()
	if _, err := arrow.NextBatch(r); !errors.Is(err, io.EOF) {
		return nil, errors.Join(errors.New("more than one record batch"), err)
	}
	return rec, nil
}

// DecodeColumns decodes a block into columns and their names. See [Decode].
func DecodeColumns(block []byte) (names []string, columns []column.Column, err error) {
	rec, err := Decode(block)
	if err != nil {
		return nil, nil, err
	}
	if columns, err = arrow.Columns(rec); err != nil {
		return nil, nil, fmt.Errorf("beam: DecodeColumns: %w", err)
	}
	for _, f := range rec.Schema().Fields() {
		names = append(names, f.Name)
	}
	return names, columns, nil
}

func emptyRecords(schema *goarrow.Schema) (goarrow.RecordBatch, error) {
	return arrow.RecordBatch(make([]column.Column, schema.NumFields()), withoutDictionaries(schema))
}

// messages implements ipc.MessageReader. Messages are slices of the block, which arrow-go copies.
type messages struct{ block []byte }

// Message implements ipc.MessageReader.
func (m *messages) Message() (*ipc.Message, error) {
	size, err := m.word()
	if err == nil && size == 0xffffffff {
		size, err = m.word()
	}
	if err == nil && size == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, err
	}
	meta, err := m.next(int64(size))
	if err != nil {
		return nil, err
	}
	head := ipc.NewMessage(memory.NewBufferBytes(meta), memory.NewBufferBytes(nil))
	body, err := m.next(head.BodyLen())
	if err != nil {
		return nil, err
	}
	return ipc.NewMessage(memory.NewBufferBytes(meta), memory.NewBufferBytes(body)), nil
}

// word returns the next four bytes, or io.EOF at the end of the block.
func (m *messages) word() (uint32, error) {
	if len(m.block) == 0 {
		return 0, io.EOF
	}
	b, err := m.next(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (m *messages) next(n int64) ([]byte, error) {
	if n < 0 || n > int64(len(m.block)) {
		return nil, fmt.Errorf("%d bytes where %d are left", n, len(m.block))
	}
	b := m.block[:n:n]
	m.block = m.block[n:]
	return b, nil
}

// Retain and Release implement ipc.MessageReader. They do nothing.
func (m *messages) Retain()  {}
func (m *messages) Release() {}
