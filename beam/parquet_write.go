package beam

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/arrow/parquet"
)

func init() {
	register.DoFn2x1[[]byte, func(int, []byte), error](&dealtBlocks{})
	register.DoFn3x1[context.Context, int, func(*[]byte) bool, error](&parquetWriter{})
}

// createdBy is what Parquet files say of their origin.
const createdBy = "weft"

// WriteParquet writes blocks to a number of Parquet files, which are called
// PREFIX-00000-of-00003.parquet, and so on. The prefix is a name for Beam's filesystem package.
// Existing files of these names are replaced. A file whose writing failed may be cut short, until
// the runner has tried again: files are complete if the pipeline has ended without an error. No
// block gives no file.
//
// A block goes to the file that its bytes say, so a bundle that runs twice writes the same files
// twice, if the blocks are the same. Blocks go through a GroupByKey, so all of
// them cross the network once.
func WriteParquet(s sdk.Scope, prefix string, files int, blocks sdk.PCollection) error {
	s = s.Scope("weft.WriteParquet")
	err := checkBlocks("blocks", blocks)
	if err == nil && (files < 1 || files > 99_999) {
		err = fmt.Errorf("%w: %d files, want 1 to 99999", weft.ErrOptions, files)
	}
	if err == nil {
		err = checkScheme(prefix)
	}
	if err != nil {
		return fmt.Errorf("beam: WriteParquet: %w", err)
	}
	dealt := sdk.ParDo(s, &dealtBlocks{Files: files}, blocks)
	sdk.ParDo0(s, &parquetWriter{Prefix: []byte(prefix), Files: files}, sdk.GroupByKey(s, dealt))
	return nil
}

// dealtBlocks is the DoFn that deals blocks out to files.
type dealtBlocks struct {
	Files int

	dealt bool // a block of the bundle
}

// StartBundle begins anew.
func (f *dealtBlocks) StartBundle(func(int, []byte)) { f.dealt = false }

// ProcessElement deals a block out by its bytes: a block that is made again, even after some files
// are written, goes to the same file. The first of a bundle brings each file a block without rows,
// so that all files exist.
func (f *dealtBlocks) ProcessElement(block []byte, emit func(int, []byte)) error {
	if !f.dealt {
		rec, err := Decode(block)
		if err != nil {
			return err
		}
		empty, err := encodeSchema(withoutDictionaries(rec.Schema()))
		if err != nil {
			return err
		}
		for i := range f.Files {
			emit(i, empty)
		}
		f.dealt = true
	}
	emit(int(crc32.ChecksumIEEE(block)%uint32(f.Files)), block)
	return nil
}

// parquetWriter is the DoFn that writes files.
type parquetWriter struct {
	Prefix []byte // JSON keeps it
	Files  int
}

// ProcessElement writes a file of blocks.
func (f *parquetWriter) ProcessElement(
	ctx context.Context, file int, next func(*[]byte) bool,
) error {
	name := fmt.Sprintf("%s-%05d-of-%05d.parquet", f.Prefix, file, f.Files)
	if err := writeParquet(ctx, name, next); err != nil {
		return fmt.Errorf("beam: write %s: %w", name, err)
	}
	return nil
}

func writeParquet(ctx context.Context, name string, next func(*[]byte) bool) error {
	fs, err := filesystem.New(ctx, name)
	if err != nil {
		return err
	}
	defer fs.Close()
	to, err := fs.OpenWrite(ctx, name)
	if err != nil {
		return err
	}
	var w *parquet.Writer
	var schema *goarrow.Schema
	var b []byte
	for err == nil && next(&b) {
		var rec goarrow.RecordBatch
		if rec, err = Decode(b); err != nil {
			break
		}
		switch s := withoutDictionaries(rec.Schema()); {
		case w == nil:
			schema = s
			w, err = newWriter(to, s)
		case !s.Equal(schema):
			err = differ(schema, s)
		}
		if err == nil {
			err = writeRecords(w, rec)
		}
	}
	if err == nil && w != nil {
		err = w.Close()
	}
	return errors.Join(err, to.Close())
}

func newWriter(to io.Writer, schema *goarrow.Schema) (*parquet.Writer, error) {
	fields := make([]parquet.Field, schema.NumFields())
	for i, f := range schema.Fields() {
		var err error
		if fields[i], err = parquetField(f); err != nil {
			return nil, err
		}
	}
	return parquet.NewWriter(to, fields, createdBy)
}

func writeRecords(w *parquet.Writer, rec goarrow.RecordBatch) error {
	columns, err := arrow.Columns(rec)
	if err != nil || rec.NumRows() == 0 {
		return err
	}
	return w.Write(columns)
}
