package beam

import (
	"context"
	"errors"
	"fmt"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/arrow"
	tables "github.com/weftgo/weft/internal/table"
)

func init() {
	register.DoFn3x1[context.Context, int, func(*[]byte) bool, error](&csvWriter{})
}

// WriteCSV writes blocks to a number of CSV files, which are called PREFIX-00000-of-00003.csv, and
// so on, with the names of columns first. Null is an empty field, and empty text is quoted. Types
// without text, such as lists, fail the pipeline. What holds of files, bundles and blocks is said at
// [WriteParquet].
func WriteCSV(s sdk.Scope, prefix string, files int, blocks sdk.PCollection) error {
	s = s.Scope("weft.WriteCSV")
	err := checkBlocks("blocks", blocks)
	if err == nil && (files < 1 || files > 99_999) {
		err = fmt.Errorf("%w: %d files, want 1 to 99999", weft.ErrOptions, files)
	}
	if err == nil {
		err = checkScheme(prefix)
	}
	if err != nil {
		return fmt.Errorf("beam: WriteCSV: %w", err)
	}
	dealt := sdk.ParDo(s, &dealtBlocks{Files: files}, blocks)
	sdk.ParDo0(s, &csvWriter{Prefix: []byte(prefix), Files: files}, sdk.GroupByKey(s, dealt))
	return nil
}

// csvWriter is the DoFn that writes files.
type csvWriter struct {
	Prefix []byte // JSON keeps it
	Files  int
}

// ProcessElement writes a file of blocks.
func (f *csvWriter) ProcessElement(
	ctx context.Context, file int, next func(*[]byte) bool,
) error {
	name := fmt.Sprintf("%s-%05d-of-%05d.csv", f.Prefix, file, f.Files)
	if err := writeCSV(ctx, name, next); err != nil {
		return fmt.Errorf("beam: write %s: %w", name, err)
	}
	return nil
}

func writeCSV(ctx context.Context, name string, next func(*[]byte) bool) error {
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
			w = tables.NewCSV(to, fields)
		case !s.Equal(schema):
			err = differ(schema, s)
		}
		if err == nil {
			err = writeText(w, rec)
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

func writeText(w tables.Writer, rec goarrow.RecordBatch) error {
	columns, err := arrow.Columns(rec)
	if err != nil || rec.NumRows() == 0 {
		return err
	}
	return w.Write(columns)
}
