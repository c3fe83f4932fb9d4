package arrow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/weftgo/weft/column"
)

// parquetFile is a file of two row groups of three rows each.
func parquetFile(t testing.TB, codec compress.Compression) []byte {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "tags", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
		{Name: "price", Type: &arrow.Decimal128Type{Precision: 20, Scale: 2}, Nullable: true},
		{Name: "day", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
		{Name: "ok", Type: arrow.FixedWidthTypes.Boolean},
	}, nil)
	var b bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &b, parquet.NewWriterProperties(parquet.WithCompression(codec)), pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		t.Fatal(err)
	}
	for g := range 2 {
		var texts []arrow.Array
		for i, text := range []string{fmt.Sprintf("[%d,%d,%d]", 3*g, 3*g+1, 3*g+2), `["a",null,"b"]`, `[["x"],null,[]]`, `["1.50",null,"-0.01"]`, `["1970-01-02",null,"1970-01-03"]`, `[true,false,true]`} {
			texts = append(texts, fromJSON(t, schema.Field(i).Type, text))
		}
		w.NewRowGroup()
		for _, a := range texts {
			if err := w.WriteColumnData(a); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// read is what the fields of a file hold, or an error.
func read(ctx context.Context, b []byte, fields ...int) (got [][]any, err error) {
	p, err := OpenParquet(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	got = make([][]any, len(fields))
	for batch, err := range p.Columns(ctx, fields...) {
		if err != nil {
			return nil, err
		}
		for i, c := range batch {
			got[i] = append(got[i], anys(c)...)
		}
	}
	return got, nil
}

func TestParquet(t *testing.T) {
	for _, codec := range []compress.Compression{compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Zstd} {
		b := parquetFile(t, codec)
		p, err := OpenParquet(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if p.Rows() != 6 || p.RowGroups() != 2 || p.Schema().NumFields() != 6 {
			t.Errorf("%d rows in %d groups of %v", p.Rows(), p.RowGroups(), p.Schema())
		}
		got, err := read(t.Context(), b, 4, 0, 1, 0, 5)
		if err != nil {
			t.Fatal(err)
		}
		ids := []any{int64(0), int64(1), int64(2), int64(3), int64(4), int64(5)}
		for i, want := range [][]any{
			{int32(1), nil, int32(2), int32(1), nil, int32(2)}, ids, {"a", nil, "b", "a", nil, "b"}, ids, {true, false, true, true, false, true},
		} {
			if !slices.Equal(got[i], want) {
				t.Errorf("column %d holds %v, want %v", i, got[i], want)
			}
		}
		got, err = read(t.Context(), b, 3)
		if err != nil || len(got[0]) != 6 || got[0][0] != "\x96"+strings.Repeat("\x00", 15) {
			t.Errorf("decimals are %q, %v", got, err)
		}
		groups := 0
		for batch, err := range p.RowGroup(t.Context(), 1, 0) {
			if groups++; err != nil || batch[0].Any(0) != int64(3) {
				t.Errorf("row group 1: %v, %v", batch, err)
			}
		}
		if groups != 1 {
			t.Errorf("row group 1 has %d batches", groups)
		}
	}
}

func TestParquetRefuses(t *testing.T) {
	b := parquetFile(t, compress.Codecs.Snappy)
	for want, fields := range map[string][]int{`field "tags"`: {0, 2}, "field 6 of 6": {6}, "field -1": {-1}} {
		if _, err := read(t.Context(), b, fields...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", fields, err, want)
		}
	}
	p, err := OpenParquet(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range p.RowGroup(t.Context(), 2, 0) {
		if err == nil {
			t.Error("a row group that is not there is no error")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := read(ctx, b, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	for _, b := range [][]byte{nil, []byte("PAR1"), []byte("PAR1PAR1"), b[:len(b)-1], b[1:], append(slices.Clone(b), 0)} {
		if _, err := read(t.Context(), b, 0); err == nil {
			t.Errorf("%d bytes that are no file are read", len(b))
		}
	}
}

// Damaged files are errors, or hold other values: nothing panics.
func TestDamagedParquet(t *testing.T) {
	for _, codec := range []compress.Compression{compress.Codecs.Uncompressed, compress.Codecs.Snappy} {
		whole := parquetFile(t, codec)
		rng := rand.New(rand.NewPCG(1, 2))
		failed := 0
		for range 2000 {
			b := slices.Clone(whole)
			for range 1 + rng.IntN(3) {
				b[rng.IntN(len(b))] ^= byte(1 << rng.IntN(8))
			}
			if _, err := read(t.Context(), b, 0, 1, 3, 4, 5); err != nil {
				failed++
			}
		}
		if failed == 0 {
			t.Errorf("%v: no damage is an error", codec)
		}
	}
}

func FuzzParquet(f *testing.F) {
	f.Add(parquetFile(f, compress.Codecs.Uncompressed))
	f.Add(parquetFile(f, compress.Codecs.Zstd))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = read(t.Context(), b, 0, 1, 3, 4, 5)
	})
}

func ExampleParquet() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "ages.parquet")
	if err := writeAges(name); err != nil {
		panic(err)
	}

	f, err := os.Open(name)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		panic(err)
	}
	p, err := OpenParquet(f, info.Size())
	if err != nil {
		panic(err)
	}
	age := p.Schema().FieldIndices("age")[0]
	for batch, err := range p.Columns(context.Background(), age) {
		if err != nil {
			panic(err)
		}
		fmt.Println(column.Values[int32](batch[0]), batch[0].Nulls())
	}
	// Output: [31 27] 0
}

// writeAges makes a file of two people.
func writeAges(name string) error {
	schema := arrow.NewSchema([]arrow.Field{{Name: "name", Type: arrow.BinaryTypes.String}, {Name: "age", Type: arrow.PrimitiveTypes.Int32}}, nil)
	rec, err := RecordBatch([]column.Column{column.OfStrings([]string{"Ada", "Cy"}), column.Of([]int32{31, 27})}, schema)
	if err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	w, err := pqarrow.NewFileWriter(schema, f, nil, pqarrow.DefaultWriterProps())
	if err != nil {
		return err
	}
	return errors.Join(w.Write(rec), w.Close()) // which closes the file
}
