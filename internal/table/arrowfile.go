package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/weftgo/weft/arrow"
)

// typed is a file that states the types of its columns.
type typed struct {
	names   []Field
	files   []io.Closer
	rereads bool
	size    int64
	groups  []int64 // rows per row group; nil if the file has no row groups
	read    func(ctx context.Context, columns []wanted, r Range) iter.Seq2[Batch, error]
	// filtered reads columns without the rows that a filter rejects. It is nil if the format always
	// decodes all rows.
	filtered func(ctx context.Context, columns []wanted, f *rowFilter) iter.Seq2[Batch, error]
	name     string
}

func (s *typed) fields() []Field  { return s.names }
func (s *typed) kinds() []kinds   { return nil }
func (s *typed) loose() bool      { return false }
func (s *typed) rereadable() bool { return s.rereads }

func (s *typed) member(string) int { return -1 }

func (s *typed) complete(context.Context) (bool, error) { return false, nil }

func (s *typed) close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	s.files = nil
	return errors.Join(errs...)
}

func (s *typed) batches(ctx context.Context, columns []wanted, _ bool,
	r Range) iter.Seq2[Batch, error] {
	return s.checked(ctx, columns, func() iter.Seq2[Batch, error] { return s.read(ctx, columns, r) })
}

// checked returns an error if weft does not support the type of a requested column. Otherwise it
// reads the columns.
func (s *typed) checked(ctx context.Context, columns []wanted,
	read func() iter.Seq2[Batch, error]) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		for _, c := range columns {
			if err := s.names[c.field].err; err != nil {
				yield(Batch{}, fmt.Errorf("%s: column %s: %w", display(s.name), c.name, err))
				return
			}
		}
		for batch, err := range read() {
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("%s: %w", display(s.name), err)
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

// fieldsOf returns the columns of a schema. A column of an unsupported type has type None.
func fieldsOf(schema *goarrow.Schema) (fields []Field) {
	for _, f := range schema.Fields() {
		storage, err := arrow.Storage(f.Type)
		fields = append(fields, Field{Name: f.Name, Type: storage, Arrow: f.Type, err: err})
	}
	return fields
}

// readerAt returns a random-access reader. It is the file itself, or a copy in memory of a stream
// or of compressed data.
func readerAt(ctx context.Context, in *input, s *stream, maxBytes int64) (io.ReaderAt, int64, io.Closer, error) {
	if head, _ := s.Peek(4); in.regular && len(s.closers) == 2 {
		f, err := in.files.Open(ctx, in.name)
		if err != nil {
			return nil, 0, nil, in.failed(err)
		}
		same := make([]byte, len(head)) // differs if the file is compressed
		if _, err = f.ReadAt(same, 0); err == nil && bytes.Equal(same, head) {
			return f, in.size, closers{f, s}, nil
		}
		f.Close()
	}
	b, err := io.ReadAll(io.LimitReader(s, maxBytes+1))
	if err != nil {
		return nil, 0, nil, in.failed(err)
	}
	if int64(len(b)) > maxBytes {
		return nil, 0, nil, fmt.Errorf("%s: more than %d bytes, which must be in memory as a whole; decompress the file first", display(in.name), maxBytes)
	}
	return bytes.NewReader(b), int64(len(b)), s, nil
}

type closers [2]io.Closer

func (c closers) Close() error { return errors.Join(c[0].Close(), c[1].Close()) }

// caught turns a panic of arrow-go on a damaged file into an error.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("damaged: %v", p)
	}
}

func openArrow(ctx context.Context, in *input, s *stream, maxBytes int64) (source, error) {
	at, size, closer, err := readerAt(ctx, in, s, maxBytes)
	if err != nil {
		return nil, err
	}
	first, err := arrow.OpenIPC(at, size)
	if err != nil {
		return nil, errors.Join(in.failed(err), closer.Close())
	}
	src := &typed{names: fieldsOf(first.Schema()), files: []io.Closer{closer}, rereads: true, name: in.name, size: size}
	src.read = func(ctx context.Context, columns []wanted, _ Range) iter.Seq2[Batch, error] {
		return func(yield func(Batch, error) bool) {
			counted := &countingAt{ReaderAt: at, in: in, size: size}
			r, err := arrow.OpenIPC(counted, size)
			for err == nil {
				var batch Batch
				if err = ctx.Err(); err == nil {
					batch, err = nextBatch(r, columns)
				}
				if err == nil && !yield(batch, nil) {
					return
				}
			}
			if err != io.EOF {
				yield(Batch{}, err)
			}
		}
	}
	return src, nil
}

// countingAt counts the bytes that are read. Repeated reads of metadata also count, so the count is
// limited to the size of the file.
type countingAt struct {
	io.ReaderAt
	in      *input
	n, size int64
}

func (c *countingAt) ReadAt(b []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(b, at)
	c.n = min(c.n+int64(n), c.size)
	c.in.reached(c.n)
	return n, err
}

func nextBatch(r *ipc.Reader, columns []wanted) (batch Batch, err error) {
	defer caught(&err)
	rec, err := arrow.NextBatch(r)
	if err != nil {
		return batch, err
	}
	batch.Rows = int(rec.NumRows())
	for _, c := range columns {
		col, err := arrow.Column(rec.Column(c.field))
		if err != nil {
			return batch, fmt.Errorf("column %s: %w", c.name, err)
		}
		if col.Len() != batch.Rows {
			return batch, fmt.Errorf("column %s has %d values in a batch of %d rows", c.name, col.Len(), batch.Rows)
		}
		batch.Columns = append(batch.Columns, col)
	}
	return batch, nil
}
