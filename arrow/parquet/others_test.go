package parquet_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	goparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/weftgo/weft/arrow/parquet"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/join"
)

func longText(i int) string { return fmt.Sprintf("a rather long text that is cut off %06d", i) }

// arrowGoFile returns a file that arrow-go wrote. It has 20 row groups of 500 rows in small pages.
// Numbers ascend, floats contain NaNs, and all fields contain nulls.
func arrowGoFile(t *testing.T, props ...goparquet.WriterProperty) []byte {
	t.Helper()
	types := []arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint64,
		arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String, arrow.PrimitiveTypes.Date32}
	var fields []arrow.Field
	for i, typ := range types {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("c", i), Type: typ, Nullable: true})
	}
	schema := arrow.NewSchema(fields, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i := range 10_000 {
		if i%11 == 0 {
			for j := range types {
				b.Field(j).AppendNull()
			}
			continue
		}
		b.Field(0).(*array.Int64Builder).Append(int64(i) - 5000)
		b.Field(1).(*array.Uint64Builder).Append(uint64(i) << 50)
		v := float64(i) - 5000
		if i%13 == 0 {
			v = math.NaN()
		} else if i == 5000 {
			v = math.Copysign(0, -1)
		}
		b.Field(2).(*array.Float64Builder).Append(v)
		b.Field(3).(*array.StringBuilder).Append(longText(i))
		b.Field(4).(*array.Date32Builder).Append(arrow.Date32(i - 5000))
	}
	var out bytes.Buffer
	props = append(props, goparquet.WithMaxRowGroupLength(500), goparquet.WithDataPageSize(256),
		goparquet.WithBatchSize(50))
	w, err := pqarrow.NewFileWriter(schema, &out, goparquet.NewWriterProperties(props...),
		pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteBuffered(b.NewRecordBatch()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// In files of another writer, with its statistics and indexes, all matching rows pass and most
// others are omitted.
func TestFilteredArrowGo(t *testing.T) {
	host, err := cpu.Open(&cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	builds := []column.Column{column.Of([]int64{-4711, 3, 4999}), column.Of([]uint64{9001 << 50,
		17 << 50}),
		column.Of([]float64{0, 77, math.NaN()}), column.OfStrings([]string{
			longText(17),
			longText(9998)}),
		column.Of([]int32{-4999, 1})}
	for name, props := range map[string][]goparquet.WriterProperty{
		"statistics": nil, "none": {goparquet.WithStats(false)},
		"indexes": {goparquet.WithPageIndexEnabled(true)},
		"short":   {goparquet.WithPageIndexEnabled(true), goparquet.WithMaxStatsSize(8)},
		"pages 2, plain": {goparquet.WithPageIndexEnabled(true),
			goparquet.WithDictionaryDefault(false),
			goparquet.WithDataPageVersion(goparquet.DataPageV2)},
	} {
		b := arrowGoFile(t, props...)
		f, err := parquet.Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		for field, build := range builds {
			want := matching(t, f, host, build, field)
			if want < build.Len()-1 {
				t.Fatalf("%d rows match %v", want, f.Fields()[field])
			}
			filter, err := join.NewFilter([]column.Type{build.Type()}, nil)
			if err == nil {
				err = filter.Add(t.Context(), []column.Column{build})
			}
			if err != nil {
				t.Fatal(err)
			}
			ix, err := join.New(t.Context(), host, []column.Column{build}, nil)
			if err != nil {
				t.Fatal(err)
			}
			match, rows, read := 0, 0, int64(0)
			for batch, err := range f.Filtered(t.Context(), filter, []int{field}, field) {
				if err != nil {
					t.Fatal(err)
				}
				read += batch.Rows
				if batch.Columns == nil {
					continue
				}
				rows += batch.Columns[0].Len()
				found, err := ix.Semi(t.Context(), batch.Columns, nil)
				if err != nil {
					t.Fatal(err)
				}
				match += len(found)
			}
			ix.Close()
			if match != want || read != 10_000 || rows > want+200 {
				t.Errorf("%s, %v: %d rows match of %d, want %d; %d read", name, f.Fields()[field],
					match, rows, want, read)
			}
		}
	}
}

// matching returns the number of matching rows in a file, without a filter.
func matching(t *testing.T, f *parquet.File, host *cpu.Device, build column.Column,
	field int) (n int) {
	t.Helper()
	ix, err := join.New(t.Context(), host, []column.Column{build}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	for columns, err := range f.Columns(t.Context(), field) {
		if err != nil {
			t.Fatal(err)
		}
		rows, err := ix.Semi(t.Context(), columns, nil)
		if err != nil {
			t.Fatal(err)
		}
		n += len(rows)
	}
	return n
}
