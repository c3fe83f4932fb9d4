package main

import (
	"os"
	"path/filepath"
	"testing"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/arrow/parquet"
	"github.com/weftgo/weft/column"
)

// arrowFile converts a Parquet file to an Arrow file or stream.
func arrowFile(t *testing.T, name string, stream bool) string {
	from, err := os.Open(name)
	must(t, err)
	defer from.Close()
	info, err := from.Stat()
	must(t, err)
	p, err := parquet.Open(from, info.Size())
	must(t, err)
	var fields []goarrow.Field
	var all []int
	for i, f := range p.Fields() {
		typ := map[column.Type]goarrow.DataType{
			column.Bytes: goarrow.BinaryTypes.String, column.Int64: goarrow.PrimitiveTypes.Int64,
			column.Float64: goarrow.PrimitiveTypes.Float64, column.Bool: goarrow.FixedWidthTypes.Boolean,
		}[f.Type.Column]
		fields, all = append(fields, goarrow.Field{Name: f.Name, Type: typ, Nullable: true}), append(all, i)
	}
	schema := goarrow.NewSchema(fields, nil)
	f, err := os.Create(filepath.Join(t.TempDir(), "a.arrow"))
	must(t, err)
	defer f.Close()
	var w interface {
		Write(goarrow.RecordBatch) error
		Close() error
	} = ipc.NewWriter(f, ipc.WithSchema(schema))
	if !stream {
		w, err = ipc.NewFileWriter(f, ipc.WithSchema(schema))
		must(t, err)
	}
	for columns, err := range p.Columns(t.Context(), all...) {
		must(t, err)
		for lo := 0; lo < columns[0].Len(); lo += 1000 { // several batches
			part := columns[:0:0]
			for _, c := range columns {
				part = append(part, c.Slice(lo, min(lo+1000, c.Len())))
			}
			rec, err := arrow.RecordBatch(part, schema)
			must(t, err)
			must(t, w.Write(rec))
		}
	}
	must(t, w.Close())
	return f.Name()
}
