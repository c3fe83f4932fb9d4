package table

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/arrow/parquet"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/join"
)

// filterSchema lists the columns of the left side. Keys have types that a join converts, and
// others.
var filterSchema = goarrow.NewSchema([]goarrow.Field{
	{Name: "row", Type: goarrow.PrimitiveTypes.Int64}, {Name: "i32",
		Type: goarrow.PrimitiveTypes.Int32, Nullable: true},
	{Name: "i64", Type: goarrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "u64",
		Type: goarrow.PrimitiveTypes.Uint64, Nullable: true},
	{Name: "f32", Type: goarrow.PrimitiveTypes.Float32, Nullable: true}, {Name: "text",
		Type: goarrow.BinaryTypes.String, Nullable: true},
	{Name: "day", Type: goarrow.FixedWidthTypes.Date32, Nullable: true},
}, nil)

// filterRows returns the rows of the left side. Keys ascend, except nulls and NaN.
func filterRows(n int) []column.Column {
	rows, i32, i64, u64 := make([]int64, n), make([]int32, n), make([]int64, n), make([]uint64, n)
	f32, texts, valid := make([]float32, n), make([]string, n), make([]bool, n)
	for i := range n {
		rows[i], i32[i], i64[i] = int64(i), int32(i-n/2), int64(i-n/2)<<32
		u64[i], valid[i] = uint64(i)<<48, i%17 != 0
		if f32[i] = float32(i - n/2); i%19 == 0 {
			f32[i] = float32(math.NaN())
		}
		texts[i] = fmt.Sprintf("%05d", i)
	}
	columns := []column.Column{column.Of(rows), column.Of(i32), column.Of(i64), column.Of(u64),
		column.Of(f32), column.OfStrings(texts), column.Of(i32)}
	for i := range columns[1:] {
		columns[i+1] = columns[i+1].WithValid(column.OfBools(valid))
	}
	return columns
}

// filterFiles writes the left side as a Parquet file with several row groups, as Arrow and as CSV.
func filterFiles(t *testing.T, columns []column.Column) map[string]string {
	t.Helper()
	dir := t.TempDir()
	var p, a, c bytes.Buffer
	fields := fieldsOf(filterSchema)
	pw, err := parquet.NewWriter(&p, []parquet.Field{{Name: "row",
		Type: parquet.Type{Column: column.Int64}},
		{Name: "i32", Type: parquet.Type{Column: column.Int32}}, {Name: "i64",
			Type: parquet.Type{Column: column.Int64}},
		{Name: "u64", Type: parquet.Type{Column: column.Uint64}}, {Name: "f32",
			Type: parquet.Type{Column: column.Float32}},
		{Name: "text", Type: parquet.Type{Kind: parquet.Text, Column: column.Bytes}},
		{Name: "day", Type: parquet.Type{Kind: parquet.Date, Column: column.Int32}}}, "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := pw.Write(columns); err != nil {
		t.Fatal(err)
	}
	aw, cw := ipc.NewWriter(&a, ipc.WithSchema(filterSchema)), NewCSV(&c, fields)
	n := columns[0].Len()
	for _, at := range [][2]int{{0, n / 3}, {n / 3, n}} {
		part := make([]column.Column, len(columns))
		arrays := make([]goarrow.Array, len(columns))
		for i, c := range columns {
			part[i] = c.Slice(at[0], at[1])
			if arrays[i], err = arrow.Array(part[i], filterSchema.Field(i).Type); err != nil {
				t.Fatal(err)
			}
		}
		if err := aw.Write(array.NewRecordBatch(filterSchema, arrays,
			int64(at[1]-at[0]))); err != nil {
			t.Fatal(err)
		}
	}
	if err := cw.Write(columns); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{pw.Close(), aw.Close(), cw.Close(nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{}
	for name, b := range map[string][]byte{"parquet": p.Bytes(), "arrows": a.Bytes(),
		"csv": c.Bytes()} {
		files[name] = filepath.Join(dir, "left."+name)
		if err := os.WriteFile(files[name], b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// joined joins a file with a build side. It returns the matching rows, and the number of rows that
// pass the filter.
func joined(t *testing.T, host *cpu.Device, file string, build column.Column, key string,
	as column.Type,
	filtered bool) (rows []int64, kept int) {
	t.Helper()
	ctx := context.Background()
	tab, err := Open(ctx, []string{file}, nil, &Options{BlockSize: 1 << 12})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	at, err := tab.Find(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	reads := []Read{tab.Reading(0, Key), tab.Reading(at, Key)}
	if !tab.Typed() {
		reads[0].As, reads[1].As = column.Int64, as
		if as == column.Bytes {
			reads[1].Form = Text
		}
	}
	keys := []column.Column{Convert(build, as)}
	ix, err := join.New(ctx, host, keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	if filtered {
		f, err := join.NewFilter([]column.Type{as}, &join.FilterOptions{Rows: build.Len()})
		if err == nil {
			err = f.Add(ctx, keys)
		}
		if err != nil {
			t.Fatal(err)
		}
		tab.Filter(f, []int{1}, []column.Type{as})
	}
	read := 0
	for b, err := range tab.Batches(ctx, reads) {
		if err != nil {
			t.Fatal(err)
		}
		read += b.Rows
		kept += b.Columns[0].Len()
		found, err := ix.Semi(ctx, []column.Column{Convert(b.Columns[1], as)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range found {
			rows = append(rows, column.Values[int64](b.Columns[0])[row])
		}
	}
	if info, err := os.Stat(file); err != nil || tab.Read() != info.Size() {
		t.Errorf("%s: %d bytes read, %v", file, tab.Read(), err)
	}
	if read != filterN {
		t.Errorf("%s: %d rows read", file, read)
	}
	return rows, kept
}

const filterN = 2 << 17

// For tables of any format, a join finds the same rows with a filter of its keys, and most other
// rows are omitted.
func TestFilter(t *testing.T) {
	host, err := cpu.Open(&cpu.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	files := filterFiles(t, filterRows(filterN))
	nan := math.NaN()
	for i, c := range []struct {
		key   string
		build column.Column
		as    column.Type
		want  int
	}{
		{"i32", column.Of([]int8{-128, 0, 5}), column.Int64, 3},
		{"i32", column.Of([]uint64{1, 5, 1 << 63}), column.Uint64, 2},
		{"i64", column.Of([]int64{-1 << 32, 0, 7 << 32, 3}), column.Int64, 3},
		{"i64", column.Of([]uint64{7 << 32, 1<<64 - 1<<32}), column.Uint64, 1},
		{"u64", column.Of([]int64{3 << 48, -1 << 48}), column.Uint64, 4},
		{"u64", column.Of([]uint64{40_000 << 48, 1 << 63}), column.Uint64, 7},
		{"f32", column.Of([]float32{float32(math.Copysign(0, -1)), 8}), column.Float64, 2},
		{"f32", column.Of([]float64{nan, 2}), column.Float64, 12_987},
		{"text", column.OfStrings([]string{"00001", "123456", "7"}), column.Bytes, 2},
		{"day", column.Of([]int32{-1, 3, 1 << 30}), column.Int32, 2},
	} {
		for format, file := range files {
			as := Converts(c.as)
			if format != "parquet" && i%4 != 0 {
				continue // such files yield all rows, of any type
			}
			want, all := joined(t, host, file, c.build, c.key, as, false)
			got, kept := joined(t, host, file, c.build, c.key, as, true)
			if fmt.Sprint(got) != fmt.Sprint(want) || len(want) != c.want || all != filterN {
				t.Errorf("%s of %s: %d rows with a filter and %d without, want %d", c.key, format,
					len(got), len(want), c.want)
			}
			if kept > filterN/3 {
				t.Errorf("%s of %s: %d of %d rows are not left out", c.key, format, kept, filterN)
			}
		}
	}
}
