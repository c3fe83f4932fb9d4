package table

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/extsort"
)

var typedSchema = goarrow.NewSchema([]goarrow.Field{
	{Name: "id", Type: goarrow.PrimitiveTypes.Int32},
	{Name: "day", Type: goarrow.FixedWidthTypes.Date32, Nullable: true},
	{Name: "price", Type: &goarrow.Decimal128Type{Precision: 20, Scale: 2}, Nullable: true},
	{
		Name: "name",
		Type: &goarrow.DictionaryType{
			IndexType: goarrow.PrimitiveTypes.Int32,
			ValueType: goarrow.BinaryTypes.String,
		},
		Nullable: true,
	},
	{Name: "at", Type: goarrow.FixedWidthTypes.Timestamp_us, Nullable: true},
}, nil)

const typedRows = `[{"id":1,"day":"2026-01-02","price":"1.50","name":"a","at":"2026-01-02T03:04:05Z"},{"id":2},
	{"id":3,"day":"1969-12-31","price":"-0.01","name":"a","at":"1970-01-01T00:00:00Z"},{"id":4,"name":"b"}]`

// typedFiles returns an Arrow file and an Arrow stream with the same rows.
func typedFiles(t testing.TB) (file, stream []byte) {
	rec, _, err := array.RecordFromJSON(
		memory.DefaultAllocator,
		typedSchema,
		strings.NewReader(typedRows),
	)
	if err != nil {
		t.Fatal(err)
	}
	var f, s bytes.Buffer
	fw, err := ipc.NewFileWriter(&f, ipc.WithSchema(typedSchema))
	if err != nil {
		t.Fatal(err)
	}
	sw := ipc.NewWriter(&s, ipc.WithSchema(typedSchema))
	for _, w := range []interface {
		Write(goarrow.RecordBatch) error
		Close() error
	}{fw, sw} {
		for range 2 {
			if err := w.Write(rec); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return f.Bytes(), s.Bytes()
}

// copied writes the rows of a table without the given columns.
func copied(
	t testing.TB,
	text []byte,
	to func(fields []Field) (Writer, error),
	without ...string,
) error {
	tab, err := Open(t.Context(), []string{Stdin}, bytes.NewReader(text), nil)
	if err != nil {
		return err
	}
	defer tab.Close()
	var columns []Read
	var fields []Field
	for i, f := range tab.Fields() {
		if !slices.Contains(without, f.Name) {
			columns, fields = append(columns, tab.Reading(i, Written)), append(fields, f)
		}
	}
	w, err := to(fields)
	if err != nil {
		return err
	}
	for batch, err := range tab.Batches(t.Context(), columns) {
		if err != nil {
			return err
		}
		if err := w.Write(batch.Columns); err != nil {
			return err
		}
	}
	return w.Close(struct {
		N int `json:"n"`
	}{7})
}

// Dates, decimals, timestamps and dictionaries keep their types in all formats.
func TestTyped(t *testing.T) {
	file, stream := typedFiles(t)
	var parquet bytes.Buffer
	if err := copied(t, file, func(fields []Field) (Writer,
		error) {
		return NewParquet(&parquet, fields, 0)
	}); err != nil {
		t.Fatal(err)
	}
	// Decimals can be written, but not read yet.
	if err := copied(t, parquet.Bytes(), func(fields []Field) (Writer, error) { return NewCSV(io.Discard, fields), nil }); err == nil ||
		!strings.Contains(err.Error(), `column price: parquet: field "price" is a decimal(20, 2)`) {
		t.Errorf("a decimal of Parquet: %v", err)
	}
	rows := "1,2026-01-02,1.5,a,2026-01-02T03:04:05Z\n2,,,,\n3,1969-12-31,-0.01,a,1970-01-01T00:00:00Z\n4,,,b,\n"
	for name, b := range map[string][]byte{"file": file, "stream": stream, "Parquet": parquet.Bytes()} {
		rows, price, without := "id,day,price,name,at\n"+rows+rows, `"price":"1.5",`, ""
		nullPrice := `"price":null,`
		if name == "Parquet" {
			for _, value := range []string{",price", ",1.5", ",-0.01"} {
				rows = strings.ReplaceAll(rows, value, "")
			}
			rows = strings.ReplaceAll(strings.ReplaceAll(rows, "2,,,,", "2,,,"), "4,,,b,", "4,,b,")
			price, nullPrice, without = "", "", "price"
		}
		var got bytes.Buffer
		err := copied(
			t,
			b,
			func(fields []Field) (Writer, error) { return NewCSV(&got, fields), nil },
			without,
		)
		text := strings.ReplaceAll(got.String(), " 03:04:05", "T03:04:05")
		text = strings.ReplaceAll(text, "-01 00:00:00Z", "-01T00:00:00Z")
		if err != nil || text != rows {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, text, rows)
		}
		got.Reset()
		err = copied(
			t,
			b,
			func(fields []Field) (Writer, error) { return NewJSON(&got, fields), nil },
			without,
		)
		want := `{"rows":[` + "\n" + `{"id":1,"day":"2026-01-02",` + price + `"name":"a","at":"`
		if err != nil || !strings.HasPrefix(got.String(), want) ||
			!strings.HasSuffix(
				got.String(),
				"{\"id\":4,\"day\":null,"+nullPrice+"\"name\":\"b\",\"at\":null}\n],\"n\":7}\n",
			) {
			t.Errorf("%s as JSON: %v, %s", name, err, got.String())
		}
	}
}

// A nested column is an error only if it is requested.
func TestNestedColumns(t *testing.T) {
	schema := goarrow.NewSchema(
		[]goarrow.Field{
			{Name: "a", Type: goarrow.PrimitiveTypes.Int64},
			{Name: "l", Type: goarrow.ListOf(goarrow.PrimitiveTypes.Int64)},
		},
		nil,
	)
	rec, _, err := array.RecordFromJSON(
		memory.DefaultAllocator,
		schema,
		strings.NewReader(`[{"a":1,"l":[1]}]`),
	)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(schema))
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	w.Close()
	for columns, want := range map[int]string{0: "", 1: "standard input: column l: arrow: columns cannot hold values of type list"} {
		tab, err := Open(t.Context(), []string{Stdin}, bytes.NewReader(b.Bytes()), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, err := range tab.Batches(t.Context(), []Read{tab.Reading(columns, Key)}) {
			if err != nil {
				got = err.Error()
			}
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("column %d: %q, want %q", columns, got, want)
		}
	}
}

// A damaged file is an error or has other values. Nothing panics or exhausts memory.
func TestDamagedFiles(t *testing.T) {
	file, stream := typedFiles(t)
	var parquet bytes.Buffer
	if err := copied(t, file, func(fields []Field) (Writer,
		error) {
		return NewParquet(&parquet, fields, 0)
	}); err != nil {
		t.Fatal(err)
	}
	for name, whole := range map[string][]byte{"file": file, "stream": stream, "Parquet": parquet.Bytes()} {
		failed := 0
		rng := rand.New(rand.NewPCG(5, 6))
		for i := range 600 {
			b := slices.Clone(whole)
			if i%4 == 0 {
				b = b[:rng.IntN(len(b))]
			} else {
				for range 1 + rng.IntN(3) {
					b[rng.IntN(len(b))] ^= byte(1 << rng.IntN(8))
				}
			}
			var out bytes.Buffer
			if err := copied(t, b, func(fields []Field) (Writer, error) { return NewCSV(&out, fields), nil }, "price"); err != nil {
				failed++
			}
		}
		if failed < 100 {
			t.Errorf("%s: %d of 600 damages are errors", name, failed)
		}
	}
}

func FuzzArrow(f *testing.F) {
	file, stream := typedFiles(f)
	f.Add(file)
	f.Add(stream)
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		_ = copied(t, b, func(fields []Field) (Writer, error) { return NewCSV(&out, fields), nil })
	})
}

// A stream that must be held in memory is bounded by MaxBytes.
func TestParquetTooLarge(t *testing.T) {
	file, _ := typedFiles(t)
	_, err := Open(t.Context(), []string{Stdin}, bytes.NewReader(file), &Options{MaxBytes: 100})
	if err == nil || !strings.HasPrefix(err.Error(), "standard input: more than 100 bytes") {
		t.Errorf("%v", err)
	}
	name := filepath.Join(t.TempDir(), "a.arrow")
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = Open(t.Context(), []string{name}, nil, &Options{MaxBytes: 100}); err != nil {
		t.Error(err)
	}
}

// orderOf returns the row numbers in sorted order.
func orderOf(t *testing.T, columns []column.Column, by []Sort) []uint32 {
	t.Helper()
	types := make([]column.Type, len(columns))
	for i, c := range columns {
		types[i] = c.Type()
	}
	dev := devicetest.OpenCPU(t, 2)
	rows, err := extsort.Order(t.Context(), dev, columns, Keys(types, by))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// The descending order of text is the reverse of its ascending order, even if a text is a prefix of
// another.
func TestOrderOfBytes(t *testing.T) {
	want := []string{"", "\x00", "\x00\x00", "\x00\x01", "a", "a\x00", "a\x00\x01", "aa", "a\xff",
		"\xff"}
	n := len(want)
	for i, row := range orderOf(t, []column.Column{column.OfStrings(want)}, []Sort{{Column: 0}}) {
		if int(row) != i {
			t.Errorf("place %d is %q, want %q", i, want[row], want[i])
		}
	}
	down := orderOf(t, []column.Column{column.OfStrings(want)}, []Sort{{Descending: true}})
	for i, row := range down {
		if int(row) != n-1-i {
			t.Errorf("place %d from the end is %q, want %q", i, want[row], want[n-1-i])
		}
	}
}

func TestOrder(t *testing.T) {
	nulls := func(c column.Column, valid ...bool) column.Column { return c.WithValid(column.OfBools(valid)) }
	nan := -1.0
	nan = (nan + 1) / (nan + 1)
	for _, tt := range []struct {
		c        column.Column
		up, down []uint32
	}{
		{nulls(column.Of([]int64{3, 0, -1, 3}), true, false, true, true), []uint32{2, 0, 3, 1}, []uint32{0, 3, 2, 1}},
		{nulls(column.Of([]float64{nan, 0, 2, -1}), true, false, true, true), []uint32{3, 2, 0, 1}, []uint32{2, 3, 0, 1}},
		{column.Of([]float32{2, float32(nan), 1}), []uint32{2, 0, 1}, []uint32{0, 2, 1}},
		{column.OfStrings([]string{"b", "", "ab"}), []uint32{1, 2, 0}, []uint32{0, 2, 1}},
		{column.OfStrings([]string{"b", "9", "10"}), []uint32{1, 2, 0}, []uint32{2, 1, 0}},
		{column.Of([]bool{true, false}), []uint32{1, 0}, []uint32{0, 1}},
		{column.Of([]uint8{200, 3}), []uint32{1, 0}, []uint32{0, 1}},
	} {
		for _, descending := range []bool{false, true} {
			want := tt.up
			if descending {
				want = tt.down
			}
			if got := orderOf(t, []column.Column{tt.c},
				[]Sort{{0, descending, false}}); !slices.Equal(got, want) {
				t.Errorf("%v, descending %v: %v, want %v", tt.c.Type(), descending, got, want)
			}
		}
	}
	if got := orderOf(t, []column.Column{column.OfStrings([]string{"9", "b", "10"})},
		[]Sort{{0, false, true}}); !slices.Equal(got, []uint32{2, 0, 1}) {
		t.Errorf("by bytes: %v", got)
	}
	few, other := column.Of([]uint8{2, 1, 2, 1, 2}), column.Of([]int16{0, 3, 1, 3, 0})
	if got := orderOf(t, []column.Column{few, other},
		[]Sort{{0, true, false}, {1, false, false}}); !slices.Equal(got, []uint32{0, 4, 2, 1, 3}) {
		t.Errorf("by two columns: %v", got)
	}
}

// Take, Concat, Convert and Empty work for all types.
func TestRows(t *testing.T) {
	for _, text := range []string{`[1,2,3]`} {
		for typ := column.Int8; typ <= column.Float64; typ++ {
			arr, _, err := array.FromJSON(
				memory.DefaultAllocator,
				typeOf(typ),
				strings.NewReader(text),
			)
			if err != nil {
				t.Fatal(err)
			}
			c, err := arrow.Column(arr)
			if err != nil {
				t.Fatal(err)
			}
			c = c.WithValid(column.OfBools([]bool{true, false, true}))
			took := Take(c, []uint32{2, NoRow, 1, 0})
			both := Concat([]column.Column{took, Empty(typ), c.Slice(0, 1)})
			if both.Type() != typ || both.Len() != 5 || both.Any(0) != c.Any(2) ||
				both.Any(1) != nil ||
				both.Any(2) != nil ||
				both.Any(3) != c.Any(0) ||
				both.Any(4) != c.Any(0) {
				t.Errorf(
					"%v: %v %v %v %v %v",
					typ,
					both.Any(0),
					both.Any(1),
					both.Any(2),
					both.Any(3),
					both.Any(4),
				)
			}
			wide := Convert(c, Converts(typ))
			if wide.Type() != Converts(typ) || wide.Any(1) != nil || Size(wide) < 24 {
				t.Errorf("%v becomes %v", typ, wide.Type())
			}
			if v, ok := wide.Any(2).(int64); ok && v != 3 {
				t.Errorf("%v: 3 becomes %v", typ, v)
			}
		}
	}
	c := Concat(
		[]column.Column{
			column.OfStrings([]string{"a", "bc"}),
			Take(column.OfStrings([]string{"x", "yz"}), []uint32{1, NoRow}),
		},
	)
	if c.Len() != 4 || c.Any(1) != "bc" || c.Any(2) != "yz" || c.Any(3) != nil || Size(c) < 5 {
		t.Errorf("%v %v %v", c.Any(1), c.Any(2), c.Any(3))
	}
}
