package parquet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"runtime"
	"sync"

	"github.com/weftgo/weft/column"
)

// File is a Parquet file. Several goroutines may call its methods concurrently if the file's reader
// allows it.
type File struct {
	r      io.ReaderAt
	size   int64
	meta   fileMeta
	leaves []leaf
	fields []Field
	stats  func() (*statsMeta, error) // read on the first use by a filter
	memory int64                      // limit in bytes; 0: none
}

const (
	magic = "PAR1"
	tail  = 8 // bytes after the metadata: their length and magic
)

// Open reads the metadata of a file of size bytes. The caller closes the reader. Bytes that are not
// a Parquet file are an error. Damaged pages are reported when they are read.
func Open(r io.ReaderAt, size int64) (f *File, err error) {
	defer recoverError(&err)
	f = &File{r: r, size: size}
	if err := f.readMeta(); err != nil {
		return nil, fmt.Errorf("parquet: open: %w", err)
	}
	if f.leaves, err = schemaOf(f.meta.Schema); err != nil {
		return nil, fmt.Errorf("parquet: open: %w", err)
	}
	for i := range f.leaves {
		f.fields = append(f.fields, f.leaves[i].Field)
	}
	for i := range f.meta.RowGroups {
		if rows := f.meta.RowGroups[i].NumRows; rows < 0 || rows > math.MaxInt32*1024 {
			return nil, fmt.Errorf("parquet: open: row group %d has %d rows", i, rows)
		}
	}
	// Some writers omit the number. A list of row groups that lost entries has another number.
	if n := f.Rows(); n != f.meta.NumRows && f.meta.NumRows != 0 {
		return nil, fmt.Errorf("parquet: open: %w: %d rows in %d row groups, of %d in the file",
			errThrift, n, f.RowGroups(), f.meta.NumRows)
	}
	return f, nil
}

// Limit bounds the memory of each iteration over batches to about a number of bytes: batches get
// smaller, and less is read ahead. A page is held whatever its size. Without a limit an iteration
// takes about 100 MB. Call Limit before the first iteration; 0 means no limit.
func (f *File) Limit(bytes int64) { f.memory = bytes }

// share returns a bound in bytes, or a part of the limit if that is less.
func (f *File) share(bytes, part int64) int64 {
	if f.memory == 0 {
		return bytes
	}
	return min(bytes, f.memory/part)
}

func (f *File) readMeta() error {
	if f.size < int64(len(magic)+tail) {
		return fmt.Errorf("%d bytes are no Parquet file", f.size)
	}
	var head, end [tail]byte
	if _, err := f.r.ReadAt(head[:len(magic)], 0); err != nil {
		return err
	}
	if _, err := f.r.ReadAt(end[:], f.size-tail); err != nil && err != io.EOF {
		return err
	}
	if string(end[4:]) == "PARE" || string(head[:4]) == "PARE" {
		return errors.New("the file is encrypted, which is not supported")
	}
	if string(head[:4]) != magic || string(end[4:]) != magic {
		return errors.New("no Parquet file, or not all of it")
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	if n > f.size-int64(len(magic)+tail) {
		return fmt.Errorf("%w: %d bytes of it in a file of %d", errThrift, n, f.size)
	}
	b := make([]byte, n)
	if _, err := f.r.ReadAt(b, f.size-tail-n); err != nil && err != io.EOF {
		return err
	}
	f.stats = sync.OnceValues(func() (*statsMeta, error) { return f.readStats(f.size-tail-n, n) })
	_, err := unmarshal(b, &f.meta)
	return err
}

// Fields returns the fields of the schema, including those that columns cannot hold.
func (f *File) Fields() []Field { return f.fields }

// Rows returns the number of rows of all row groups.
func (f *File) Rows() (n int64) {
	for i := range f.meta.RowGroups {
		n += f.meta.RowGroups[i].NumRows
	}
	return n
}

// RowGroups returns the number of row groups.
func (f *File) RowGroups() int { return len(f.meta.RowGroups) }

// GroupRows returns the number of rows of a row group.
func (f *File) GroupRows(group int) int64 { return f.meta.RowGroups[group].NumRows }

// CreatedBy returns the name of the program that wrote the file, as stored in the file.
func (f *File) CreatedBy() string { return f.meta.CreatedBy }

// Columns reads fields by number, one row group after the other, in batches of at most 128 Ki rows.
// A batch has a column for each field, in the order of fields. Other columns of the file are not
// read. Batches do not share memory. Fields that columns cannot hold return their [Field.Err].
//
// Text and byte strings that the file stores in a dictionary are columns of codes
// ([column.OfCodes]).
//
// All cores decode concurrently: row groups, and columns of one row group, each about two batches
// ahead. Row groups that are decoded at the same time have less than 256 MiB together, or are two.
// When the iteration ends, all decoding has ended.
func (f *File) Columns(ctx context.Context, fields ...int) iter.Seq2[[]column.Column, error] {
	return f.columns(ctx, runtime.GOMAXPROCS(0), fields)
}

// columns is Columns on some cores.
func (f *File) columns(ctx context.Context, cores int, fields []int) iter.Seq2[[]column.Column,
	error] {
	return func(yield func([]column.Column, error) bool) {
		group := func(group int) iter.Seq2[[]column.Column, error] {
			return f.RowGroup(ctx, group,
				fields...)
		}
		if cores > 1 && f.RowGroups()*len(fields) > 1 {
			a := f.newPrefetcher(ctx, fields, cores)
			defer a.stop()
			group = func(g int) iter.Seq2[[]column.Column, error] { return columnsOf(a.group(g)) }
		}
		for g := range f.RowGroups() {
			for batch, err := range group(g) {
				if !yield(batch, err) || err != nil {
					return
				}
			}
		}
	}
}

// columnsOf returns the columns of batches.
func columnsOf(batches iter.Seq2[Batch, error]) iter.Seq2[[]column.Column, error] {
	return func(yield func([]column.Column, error) bool) {
		for b, err := range batches {
			if !yield(b.Columns, err) {
				return
			}
		}
	}
}

// RowGroup reads fields of one row group, like [File.Columns]. Several row groups may be read
// concurrently.
func (f *File) RowGroup(ctx context.Context, group int, fields ...int) iter.Seq2[[]column.Column,
	error] {
	return f.rowGroup(ctx, group, fields, f.batchRows(group, fields))
}

const (
	// batchRows bounds the rows of a batch. Decoding that many rows costs more than a call.
	batchRows = 1 << 17
	// batchBytes bounds the values of a batch, as counted by the metadata, unless minBatchRows
	// exceed it.
	batchBytes, minBatchRows = 64 << 20, 1 << 10
	// windowBytes is the read-ahead of all fields of a row group together, with bounds for each.
	windowBytes, minWindow, maxWindow = 64 << 20, 32 << 10, 4 << 20
)

// batchRows returns the number of rows of a batch of some fields.
func (f *File) batchRows(group int, fields []int) int {
	if group < 0 || group >= f.RowGroups() {
		return batchRows
	}
	g, bytes := &f.meta.RowGroups[group], int64(0)
	for _, i := range fields {
		if i >= 0 && i < len(f.leaves) && f.leaves[i].index < len(g.Columns) {
			bytes += min(max(g.Columns[f.leaves[i].index].MetaData.TotalUncompressedSize, 0), 1<<40)
		}
	}
	if bytes == 0 {
		return batchRows
	}
	// Each core holds about two batches, and the collector as many.
	most := f.share(batchBytes, 16*int64(runtime.GOMAXPROCS(0)))
	return int(min(max(float64(most)*float64(g.NumRows)/float64(bytes), minBatchRows),
		batchRows))
}

// rowGroup is RowGroup in batches of at most some rows.
func (f *File) rowGroup(ctx context.Context, group int, fields []int,
	most int) iter.Seq2[[]column.Column, error] {
	return func(yield func([]column.Column, error) bool) {
		if group < 0 || group >= f.RowGroups() {
			yield(nil, fmt.Errorf("parquet: row group %d of %d", group, f.RowGroups()))
			return
		}
		chunks, at, err := f.chunks(group, fields)
		if err != nil {
			yield(nil, err)
			return
		}
		for left := f.meta.RowGroups[group].NumRows; left > 0 && len(fields) > 0; {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			n := int(min(left, int64(most)))
			all := make([]column.Column, len(chunks))
			for i, c := range chunks {
				if all[i], err = c.next(n); err != nil {
					yield(nil, fmt.Errorf("parquet: row group %d, field %q: %w", group, c.Name,
						err))
					return
				}
			}
			batch := make([]column.Column, len(fields))
			for i, c := range at {
				batch[i] = all[c]
			}
			left -= int64(n)
			if left == 0 {
				for _, c := range chunks {
					if err := c.ended(); err != nil {
						yield(nil, fmt.Errorf("parquet: row group %d, field %q: %w", group, c.Name, err))
						return
					}
					c.release()
				}
			}
			if !yield(batch, nil) {
				return
			}
		}
	}
}

// chunks opens the column chunks of fields, each once, and returns the chunk of each field.
func (f *File) chunks(group int, fields []int) (chunks []*chunk, at []int, err error) {
	known := map[int]int{}
	window := min(max(f.share(windowBytes, 8)/int64(max(len(fields), 1)), minWindow), maxWindow)
	for _, i := range fields {
		if i < 0 || i >= len(f.leaves) {
			return nil, nil, fmt.Errorf("parquet: field %d of %d", i, len(f.leaves))
		}
		if err := f.fields[i].Err(); err != nil {
			return nil, nil, err
		}
		if _, ok := known[i]; !ok {
			known[i] = len(chunks)
			c, err := f.chunk(group, &f.leaves[i], window)
			if err != nil {
				return nil, nil, fmt.Errorf("parquet: row group %d, field %q: %w", group,
					f.leaves[i].Name, err)
			}
			chunks = append(chunks, c)
		}
		at = append(at, known[i])
	}
	return chunks, at, nil
}

// recoverError turns panics of decoders of untrusted bytes into errors.
func recoverError(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("parquet: damaged file: %v", p)
	}
}
