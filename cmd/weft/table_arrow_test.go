package main

import (
	"os"
	"path/filepath"
	"testing"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// arrowFile is a Parquet file as an Arrow file, or a stream.
func arrowFile(t *testing.T, parquet string, stream bool) string {
	pf, err := file.OpenParquetFile(parquet, false)
	must(t, err)
	defer pf.Close()
	r, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{BatchSize: 1000}, memory.DefaultAllocator)
	must(t, err)
	batches, err := r.GetRecordReader(t.Context(), nil, nil)
	must(t, err)
	defer batches.Release()
	f, err := os.Create(filepath.Join(t.TempDir(), "a.arrow"))
	must(t, err)
	defer f.Close()
	var w interface {
		Write(goarrow.RecordBatch) error
		Close() error
	} = ipc.NewWriter(f, ipc.WithSchema(batches.Schema()))
	if !stream {
		w, err = ipc.NewFileWriter(f, ipc.WithSchema(batches.Schema()))
		must(t, err)
	}
	for batches.Next() {
		must(t, w.Write(batches.RecordBatch()))
	}
	must(t, batches.Err())
	must(t, w.Close())
	return f.Name()
}
