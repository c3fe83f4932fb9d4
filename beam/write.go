package beam

import (
	"context"
	"errors"
	"fmt"
	"strings"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/arrow"
	tables "github.com/weftgo/weft/internal/table"
)

func init() {
	register.DoFn3x1[context.Context, int, func(*[]byte) bool, error](&textWriter{})
}

// WriteCSV writes blocks to a number of CSV files, which are called PREFIX-00000-of-00003.csv, and
// so on, with the names of columns first. Null is an empty field, and empty text is quoted. A null
// in a single column would be an empty line, which [Read] skips: it fails the pipeline, and so do
// types without text, such as lists. What holds of files, bundles and blocks is said at
// [WriteParquet].
func WriteCSV(s sdk.Scope, prefix string, files int, blocks sdk.PCollection) error {
	return writeTexts(s.Scope("weft.WriteCSV"), "csv", prefix, files, blocks)
}

func writeTexts(s sdk.Scope, format, prefix string, files int, blocks sdk.PCollection) error {
	err := checkBlocks("blocks", blocks)
	if err == nil && (files < 1 || files > 99_999) {
		err = fmt.Errorf("%w: %d files, want 1 to 99999", weft.ErrOptions, files)
	}
	if err == nil {
		err = checkScheme(prefix)
	}
	if err != nil {
		return fmt.Errorf("beam: Write%s: %w", strings.ToUpper(format), err)
	}
	dealt := sdk.ParDo(s, &dealtBlocks{Files: files}, blocks)
	sdk.ParDo0(s, &textWriter{Prefix: []byte(prefix), Files: files, Format: format},
		sdk.GroupByKey(s, dealt))
	return nil
}

// textWriter is the DoFn that writes files.
type textWriter struct {
	Prefix []byte // JSON keeps it
	Files  int
	Format string // csv or json
}

// ProcessElement writes a file of blocks.
func (f *textWriter) ProcessElement(
	ctx context.Context, file int, next func(*[]byte) bool,
) error {
	name := fmt.Sprintf("%s-%05d-of-%05d.%s", f.Prefix, file, f.Files, f.Format)
	if err := f.write(ctx, name, next); err != nil {
		return fmt.Errorf("beam: write %s: %w", name, err)
	}
	return nil
}

func (f *textWriter) write(ctx context.Context, name string, next func(*[]byte) bool) error {
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
			var fields []tables.Field
			fields, err = textFields(s)
			if w = tables.NewCSV(to, fields); f.Format == "json" {
				w = tables.NewJSON(&jsonLines{to: to}, fields)
			}
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

// textFields returns fields of package table for a schema.
func textFields(schema *goarrow.Schema) ([]tables.Field, error) {
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

func (f *textWriter) writeRecords(w tables.Writer, rec goarrow.RecordBatch) error {
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
