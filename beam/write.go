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
	tables "github.com/weftgo/weft/internal/table"
)

func init() {
	register.DoFn2x1[[]byte, func(int, []byte), error](&dealtBlocks{})
	register.DoFn3x1[context.Context, int, func(*[]byte) bool, error](&fileWriter{})
}

// WriteParquet writes blocks to the given number of Parquet files, which have names such as
// PREFIX-00000-of-00003.parquet. The prefix is a name for Beam's package filesystem. Existing files
// with these names are replaced. After a failed write, a file may be truncated until the runner
// retries. All files are complete once the pipeline has ended without an error. Without blocks no
// file is written.
//
// The bytes of a block select its file, so a bundle that runs twice writes the same blocks to the
// same files. Blocks go through a GroupByKey, so all of them cross the network once.
func WriteParquet(s sdk.Scope, prefix string, files int, blocks sdk.PCollection) error {
	return writeFiles(s.Scope("weft.WriteParquet"), "parquet", prefix, files, blocks)
}

// WriteCSV writes blocks to the given number of CSV files, which have names such as
// PREFIX-00000-of-00003.csv. The first line has the names of columns. Null is an empty field, and
// empty text is quoted. Types without text, such as lists, fail the pipeline. So does a null in a
// file of one column, because [Read] skips empty lines. See [WriteParquet] for files and bundles.
func WriteCSV(s sdk.Scope, prefix string, files int, blocks sdk.PCollection) error {
	return writeFiles(s.Scope("weft.WriteCSV"), "csv", prefix, files, blocks)
}

// verbs maps formats to the names of their transforms, for errors.
var verbs = map[string]string{
	"parquet": "WriteParquet", "csv": "WriteCSV", "json": "WriteJSON",
}

func writeFiles(s sdk.Scope, format, prefix string, files int, blocks sdk.PCollection) error {
	err := checkBlocks("blocks", blocks)
	if err == nil && (files < 1 || files > 99_999) {
		err = fmt.Errorf("%w: %d files, want 1 to 99999", weft.ErrOptions, files)
	}
	if err == nil {
		err = checkScheme(prefix)
	}
	if err != nil {
		return fmt.Errorf("beam: %s: %w", verbs[format], err)
	}
	dealt := sdk.ParDo(s, &dealtBlocks{Files: files}, blocks)
	sdk.ParDo0(s, &fileWriter{Prefix: []byte(prefix), Files: files, Format: format},
		sdk.GroupByKey(s, dealt))
	return nil
}

// dealtBlocks is the DoFn that assigns blocks to files.
type dealtBlocks struct {
	Files int

	dealt bool // a block of this bundle was assigned
}

// StartBundle begins a bundle without blocks.
func (f *dealtBlocks) StartBundle(func(int, []byte)) { f.dealt = false }

// ProcessElement assigns a block to a file by a checksum of its bytes, so a repeated block goes to
// the same file. On the first block of a bundle, it also sends an empty block to each file, so that
// all files exist.
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

// fileWriter is the DoFn that writes files.
type fileWriter struct {
	Prefix []byte // bytes, because JSON changes strings that are not UTF-8
	Files  int
	Format string // parquet, csv or json
}

// ProcessElement writes the blocks of a file.
func (f *fileWriter) ProcessElement(
	ctx context.Context, file int, next func(*[]byte) bool,
) error {
	name := fmt.Sprintf("%s-%05d-of-%05d.%s", f.Prefix, file, f.Files, f.Format)
	if err := f.write(ctx, name, next); err != nil {
		return fmt.Errorf("beam: write %s: %w", name, err)
	}
	return nil
}

func (f *fileWriter) write(ctx context.Context, name string, next func(*[]byte) bool) error {
	fs, err := filesystem.New(ctx, name)
	if err != nil {
		return err
	}
	defer fs.Close()
	to, err := fs.OpenWrite(ctx, name)
	if err != nil {
		return err
	}
	var w tables.Writer
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
			w, err = f.begin(to, s)
		case !s.Equal(schema):
			err = differ(schema, s)
		}
		if err == nil {
			err = f.writeRecords(w, rec)
		}
	}
	if err == nil && w != nil {
		err = w.Close(nil)
	}
	return errors.Join(err, to.Close())
}

func (f *fileWriter) begin(to io.Writer, schema *goarrow.Schema) (tables.Writer, error) {
	fields, err := tableFields(schema)
	if err != nil {
		return nil, err
	}
	switch f.Format {
	case "csv":
		return tables.NewCSV(to, fields), nil
	case "json":
		return tables.NewJSON(&jsonLines{to: to}, fields), nil
	}
	const noLimit = 0
	return tables.NewParquet(to, fields, noLimit)
}

// tableFields converts a schema to fields of package table.
func tableFields(schema *goarrow.Schema) ([]tables.Field, error) {
	fields := make([]tables.Field, schema.NumFields())
	for i, f := range schema.Fields() {
		storage, err := arrow.Storage(f.Type)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		fields[i] = tables.Field{Name: f.Name, Type: storage, Arrow: f.Type}
	}
	return fields, nil
}

func (f *fileWriter) writeRecords(w tables.Writer, rec goarrow.RecordBatch) error {
	columns, err := arrow.Columns(rec)
	if err != nil || rec.NumRows() == 0 {
		return err
	}
	if f.Format == "csv" && len(columns) == 1 && columns[0].Nulls() > 0 {
		return fmt.Errorf("%w: column %q has nulls: as the only column of CSV they would be empty "+
			"lines; add a column, or write JSON or Parquet", weft.ErrOptions,
			rec.Schema().Field(0).Name)
	}
	return w.Write(columns)
}
