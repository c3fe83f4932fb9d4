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
// allows concurrent reads.
type File struct {
	r      io.ReaderAt
	size   int64
	meta   fileMeta
	leaves []leaf
	fields []Field
	stats  func() (*statsMeta, error) // reads the statistics when a filter first needs them
	memory int64                      // limit in bytes; 0 means no limit
}

const (
	magic = "PAR1"
	tail  = 8 // size of the metadata's length and the magic, which follow the metadata
)

// Open reads the metadata of a file of size bytes. The caller closes the reader. Open returns an
// error if r is not a Parquet file. Damaged pages are reported when they are read.
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
	// Some writers omit the number of rows. Otherwise a difference means that the list of row
	// groups has lost entries.
	if n := f.Rows(); n != f.meta.NumRows && f.meta.NumRows != 0 {
		return nil, fmt.Errorf("parquet: open: %w: %d rows in %d row groups, want %d",
			errThrift, n, f.RowGroups(), f.meta.NumRows)
	}
	return f, nil
}

// Limit bounds the memory of each iteration over batches to approximately the given number of
// bytes. Batches become smaller, and less data is read ahead. A page is always held completely,
// even if it exceeds the limit. Without a limit an iteration takes about 100 MB. Call Limit before
// the first iteration; 0 means no limit.
func (f *File) Limit(bytes int64) { f.memory = bytes }

// share returns the smaller of the bytes argument and 1/part of the memory limit. Without a limit,
// it returns the argument.
func (f *File) share(bytes, part int64) int64 {
	if f.memory == 0 {
		return bytes
	}
	return min(bytes, f.memory/part)
}

func (f *File) readMeta() error {
	if f.size < int64(len(magic)+tail) {
		return fmt.Errorf("%d bytes are too few for a Parquet file", f.size)
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
		return errors.New("not a Parquet file, or only a part of one")
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	if n > f.size-int64(len(magic)+tail) {
		return fmt.Errorf("%w: it has %d bytes in a file of %d", errThrift, n, f.size)
	}
	b := make([]byte, n)
	if _, err := f.r.ReadAt(b, f.size-tail-n); err != nil && err != io.EOF {
		return err
	}
	f.stats = sync.OnceValues(func() (*statsMeta, error) { return f.readStats(f.size-tail-n, n) })
	_, err := unmarshal(b, &f.meta)
	return err
}

// Fields returns all fields of the schema, including fields that columns cannot hold.
func (f *File) Fields() []Field { return f.fields }

// Rows returns the number of rows in all row groups.
func (f *File) Rows() (n int64) {
	for i := range f.meta.RowGroups {
		n += f.meta.RowGroups[i].NumRows
	}
	return n
}

// RowGroups returns the number of row groups.
func (f *File) RowGroups() int { return len(f.meta.RowGroups) }

// GroupRows returns the number of rows in a row group.
func (f *File) GroupRows(group int) int64 { return f.meta.RowGroups[group].NumRows }

// CreatedBy returns the name of the program that wrote the file, according to the file.
func (f *File) CreatedBy() string { return f.meta.CreatedBy }

// Columns reads the fields with the given numbers, one row group after the other, in batches of at
// most 128 Ki rows. A batch has a column for each field, in the order of fields. Other columns of
// the file are not read. Batches do not share memory. If columns cannot hold a field, the iteration
// yields its [Field.Err].
//
// Text and byte strings that the file stores in a dictionary become columns of codes
// ([column.OfCodes]).
//
// All cores decode concurrently: several row groups, or several columns of one row group. Each is
// decoded about two batches ahead. Another row group is started only while the ones in progress
// total less than 256 MiB. All decoding has ended when the iteration ends.
func (f *File) Columns(ctx context.Context, fields ...int) iter.Seq2[[]column.Column, error] {
	return f.columns(ctx, runtime.GOMAXPROCS(0), fields)
}

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

func columnsOf(batches iter.Seq2[Batch, error]) iter.Seq2[[]column.Column, error] {
	return func(yield func([]column.Column, error) bool) {
		for b, err := range batches {
			if !yield(b.Columns, err) {
				return
			}
		}
	}
}

// RowGroup reads fields of one row group. See [File.Columns] for the batches. Several row groups
// may be read concurrently.
func (f *File) RowGroup(ctx context.Context, group int, fields ...int) iter.Seq2[[]column.Column,
	error] {
	return f.rowGroup(ctx, group, fields, f.batchRows(group, fields))
}

const (
	// batchRows bounds the rows of a batch. At this size, decoding a batch takes longer than the
	// call that returns it.
	batchRows = 1 << 17
	// batchBytes bounds the bytes of a batch, estimated from the metadata. A batch has at least
	// minBatchRows even if they exceed batchBytes.
	batchBytes, minBatchRows = 64 << 20, 1 << 10
	// windowBytes is the number of bytes read ahead for all fields of a row group. Each field reads
	// an equal part, between minWindow and maxWindow.
	windowBytes, minWindow, maxWindow = 64 << 20, 32 << 10, 4 << 20
)

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
	// Each core holds about two batches, and garbage that is not yet collected takes as much.
	most := f.share(batchBytes, 16*int64(runtime.GOMAXPROCS(0)))
	return int(min(max(float64(most)*float64(g.NumRows)/float64(bytes), minBatchRows),
		batchRows))
}

// rowGroup implements RowGroup. most bounds the rows of a batch.
func (f *File) rowGroup(ctx context.Context, group int, fields []int,
	most int) iter.Seq2[[]column.Column, error] {
	return func(yield func([]column.Column, error) bool) {
		if group < 0 || group >= f.RowGroups() {
			yield(nil, fmt.Errorf("parquet: row group %d is not one of the %d in the file", group,
				f.RowGroups()))
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

// chunks opens the column chunks of fields. A field that occurs twice is opened once. chunks[at[i]]
// is the chunk of fields[i].
func (f *File) chunks(group int, fields []int) (chunks []*chunk, at []int, err error) {
	known := map[int]int{}
	window := min(max(f.share(windowBytes, 8)/int64(max(len(fields), 1)), minWindow), maxWindow)
	for _, i := range fields {
		if i < 0 || i >= len(f.leaves) {
			return nil, nil, fmt.Errorf("parquet: field %d is not one of the %d in the file", i,
				len(f.leaves))
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

func recoverError(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("parquet: damaged file: %v", p)
	}
}
