package beam

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/memfs"

	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/arrow/parquet"
	"github.com/weftgo/weft/column"
)

// fileFields has a field of each type of Parquet.
var fileFields = []parquet.Field{
	{Name: "number", Type: parquet.Type{Column: column.Int64}},
	{Name: "small", Type: parquet.Type{Column: column.Uint8}},
	{Name: "real", Type: parquet.Type{Column: column.Float32}},
	{Name: "flag", Type: parquet.Type{Kind: parquet.Bool, Column: column.Bool}},
	{Name: "text", Type: parquet.Type{Kind: parquet.Text, Column: column.Bytes}},
	{Name: "bytes", Type: parquet.Type{Kind: parquet.Binary, Column: column.Bytes}},
	{Name: "fixed", Type: parquet.Type{Kind: parquet.Fixed, Column: column.Bytes, Width: 4}},
	{Name: "day", Type: parquet.Type{Kind: parquet.Date, Column: column.Int32}},
	{Name: "clock", Type: parquet.Type{Kind: parquet.Time, Column: column.Int32,
		Unit: time.Millisecond}},
	{Name: "tick", Type: parquet.Type{Kind: parquet.Time, Column: column.Int64,
		Unit: time.Nanosecond}},
	{Name: "at", Type: parquet.Type{Kind: parquet.Timestamp, Column: column.Int64,
		Unit: time.Microsecond, UTC: true}},
}

// randomFile returns a file of n rows in several row groups, and its columns.
func randomFile(t testing.TB, rng *rand.Rand, n int) ([]byte, []column.Column) {
	t.Helper()
	columns := make([]column.Column, len(fileFields))
	for i, f := range fileFields {
		if f.Type.Kind == parquet.Fixed {
			columns[i] = must(column.OfWidth(4, randomValues(rng, 4*n,
				func() byte { return byte(rng.IntN(3)) })))(t)
			continue
		}
		switch f.Type.Column {
		case column.Int32:
			columns[i] = column.Of(randomValues(rng, n, func() int32 { return rng.Int32N(1000) }))
		case column.Uint8:
			columns[i] = column.Of(randomValues(rng, n,
				func() uint8 { return uint8(rng.IntN(250)) }))
		case column.Float32:
			columns[i] = column.Of(randomValues(rng, n, rng.Float32))
		default:
			columns[i] = randomColumn(rng, n, f.Type.Column)
		}
	}
	var b bytes.Buffer
	w := must(parquet.NewWriter(&b, fileFields, "test"))(t)
	w.Limit(1 << 20)
	for lo := 0; lo < n; lo += 1000 {
		part := slices.Clone(columns)
		for i, c := range part {
			part[i] = c.Slice(lo, min(lo+1000, n))
		}
		if err := w.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), columns
}

// Files that are written and read have the same rows and types, whether they are read by row groups
// or as a whole.
func TestParquet(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	var all []string
	for i, n := range []int{30_000, 1, 0} {
		file, columns := randomFile(t, rng, n)
		if p := must(parquet.Open(bytes.NewReader(file),
			int64(len(file))))(t); n > 1 && p.RowGroups() < 2 {
			t.Fatalf("%d row groups", p.RowGroups())
		}
		name := fmt.Sprintf("in-%d.parquet", i)
		if err := os.WriteFile(filepath.Join(dir, name), file, 0o600); err != nil {
			t.Fatal(err)
		}
		memfs.Write("memfs://"+name, file)
		all = append(all, rowsOf(columns)...)
	}
	for _, place := range []string{dir + "/", "memfs://"} {
		_, err := run(t, "prism", func(s sdk.Scope) sdk.PCollection {
			in := must(ReadParquet(s, place+"in-*.parquet", nil))(t)
			if err := WriteParquet(s, dir+"/out", 3, in); err != nil {
				t.Fatal(err)
			}
			return in
		})
		if err != nil {
			t.Fatal(err)
		}
		names := must(filepath.Glob(dir + "/out-*-of-00003.parquet"))(t)
		if len(names) != 3 {
			t.Errorf("%d files: %q", len(names), names)
		}
		var rows []string
		for _, name := range names {
			rows = append(rows, fileRows(t, name)...)
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		sameRows(t, rows, slices.Clone(all))
	}
}

// fileRows returns the rows of a file with the fields fileFields.
func fileRows(t *testing.T, name string) (rows []string) {
	t.Helper()
	file := must(os.ReadFile(name))(t)
	p := must(parquet.Open(bytes.NewReader(file), int64(len(file))))(t)
	if !slices.Equal(p.Fields(), fileFields) {
		t.Errorf("fields %v, want %v", p.Fields(), fileFields)
	}
	var numbers []int
	for i := range fileFields {
		numbers = append(numbers, i)
	}
	for columns, err := range p.Columns(t.Context(), numbers...) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, rowsOf(columns)...)
	}
	return rows
}

func TestParquetColumns(t *testing.T) {
	dir := t.TempDir()
	file, columns := randomFile(t, rand.New(rand.NewPCG(1, 2)), 100)
	if err := os.WriteFile(filepath.Join(dir, "a.parquet"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	out := must(run(t, "prism", func(s sdk.Scope) sdk.PCollection {
		return must(ReadParquet(s, dir+"/*", []string{"text", "number"}))(t)
	}))(t)
	schema, got, _ := table(t, out)
	if names := fieldNames(schema); names != "text number" || schema.Field(0).Type != goarrow.BinaryTypes.String {
		t.Error(schema)
	}
	sameRows(t, rowsOf(got), rowsOf([]column.Column{columns[4], columns[0]}))
}

func TestParquetErrors(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.parquet"), []byte("no Parquet file"),
		0o600); err != nil {
		t.Fatal(err)
	}
	file, _ := randomFile(t, rand.New(rand.NewPCG(1, 2)), 10)
	memfs.Write("memfs://errors.parquet", file)
	rec := must(arrow.RecordBatch([]column.Column{column.Of([]int64{1})},
		goarrow.NewSchema([]goarrow.Field{
			{Name: "d", Type: goarrow.FixedWidthTypes.Duration_s}}, nil)))(t)
	durations := must(Encode(rec))(t)
	read := func(glob string, columns ...string) func(s sdk.Scope) sdk.PCollection {
		return func(s sdk.Scope) sdk.PCollection { return must(ReadParquet(s, glob, columns))(t) }
	}
	for text, build := range map[string]func(s sdk.Scope) sdk.PCollection{
		"no file matches": read(dir + "/*.csv"),
		"a.parquet":       read(dir + "/a.*"),
		"no column \"x\"": read("memfs://errors.parquet", "x"),
		"column d: Parquet files cannot hold values of type": func(s sdk.Scope) sdk.PCollection {
			blocks := reshuffled(s, durations)
			if err := WriteParquet(s, dir+"/out", 1, blocks); err != nil {
				t.Fatal(err)
			}
			return blocks
		},
	} {
		_, err := run(t, "prism", build)
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v; want an error with %q", err, text)
		}
	}
	_, s := sdk.NewPipelineWithRoot()
	blocks := source(s, "none", nil)
	for text, err := range map[string]error{
		"\"nowhere\" not registered": second(ReadParquet(s, "nowhere://x", nil)),
		"scheme \"there\"":           WriteParquet(s, "there://x", 1, blocks),
		"0 files":                    WriteParquet(s, dir+"/x", 0, blocks),
	} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v; want an error with %q", err, text)
		}
	}
}
