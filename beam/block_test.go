package beam

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
)

// Blocks contain all rows in order. A block has at most MaxBlock bytes, unless it is a single row.
func TestEncode(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 1000, 300_000} {
		for _, typ := range randomTypes {
			c := randomColumn(rng, n, typ)
			checkBlocksOf(t, column.Of(make([]int8, n)), c)
		}
	}
	lengths := randomValues(rng, 3000, func() string { return string(make([]byte, rng.IntN(2)*rng.IntN(5000))) })
	checkBlocksOf(t, column.OfStrings(lengths))
	huge := []string{"a", string(make([]byte, 3*MaxBlock)), "b"}
	blocks := must(EncodeColumns([]string{"text"}, []column.Column{column.OfStrings(huge)}))(t)
	if _, columns, _ := table(t, blocks); !slices.Equal(rowsOf(columns),
		rowsOf([]column.Column{column.OfStrings(huge)})) {
		t.Error("rows around a large one differ")
	}
}

func checkBlocksOf(t *testing.T, columns ...column.Column) {
	t.Helper()
	names := []string{"a", "b"}[:len(columns)]
	blocks := must(EncodeColumns(names, columns))(t)
	n := columns[0].Len()
	for i, b := range blocks {
		if len(b) > MaxBlock {
			t.Errorf("block %d of %v has %d bytes", i, columns[len(columns)-1].Type(), len(b))
		}
	}
	if size := sizeOf(columns); int64(len(blocks)) > 2+2*size/MaxBlock {
		t.Errorf("%d blocks of %d bytes together", len(blocks), size)
	}
	_, got, rows := table(t, blocks)
	if rows != n || !slices.Equal(rowsOf(got), rowsOf(columns)) {
		t.Errorf("%d rows of %v differ", n, columns[len(columns)-1].Type())
	}
	rec := must(Decode(blocks[0]))(t)
	if again := must(Encode(rec))(t); len(again) != 1 || !bytes.Equal(again[0], blocks[0]) {
		t.Errorf("Encode of a block of %d rows gives another", rec.NumRows())
	}
}

// The numbers of a decoded block lie in its memory and are not copied.
func TestDecodeInPlace(t *testing.T) {
	block := must(EncodeColumns([]string{"a"}, []column.Column{column.Of(
		make([]int64, 1000))}))(t)[0]
	_, columns, err := DecodeColumns(block)
	if err != nil {
		t.Fatal(err)
	}
	first := uintptr(unsafe.Pointer(unsafe.SliceData(columns[0].Raw())))
	start := uintptr(unsafe.Pointer(unsafe.SliceData(block)))
	if first < start || first >= start+uintptr(len(block)) {
		t.Error("the values are elsewhere")
	}
}

// Damaged blocks are errors.
func TestDecodeDamaged(t *testing.T) {
	columns := []column.Column{column.Of([]int64{1, 2, 3}), column.OfStrings([]string{"a", "bc",
		""})}
	block := must(EncodeColumns([]string{"a", "b"}, columns))(t)[0]
	for n := range len(block) - 8 { // the end of a stream may be missing
		rec, err := Decode(block[:n])
		if err == nil && rec.NumRows() > 0 {
			t.Fatalf("%d bytes of %d are a block of %d rows", n, len(block), rec.NumRows())
		}
		if err != nil && !errors.Is(err, weft.ErrFormat) {
			t.Fatal(err)
		}
	}
	for i := range block {
		for _, bit := range []byte{1, 0x80} {
			b := bytes.Clone(block)
			b[i] ^= bit
			DecodeColumns(b) // which must not panic
		}
	}
	var two bytes.Buffer
	rec := must(Decode(block))(t)
	w := ipc.NewWriter(&two, ipc.WithSchema(rec.Schema()))
	for range 2 {
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	if _, err := Decode(two.Bytes()); !errors.Is(err, weft.ErrFormat) {
		t.Errorf("two record batches: %v", err)
	}
}

// Arrow's types are preserved, and dictionaries become their values.
func TestTypes(t *testing.T) {
	day := goarrow.FixedWidthTypes.Date32
	at := &goarrow.TimestampType{Unit: goarrow.Microsecond, TimeZone: "UTC"}
	dict := &goarrow.DictionaryType{IndexType: goarrow.PrimitiveTypes.Int8,
		ValueType: goarrow.BinaryTypes.String}
	schema := goarrow.NewSchema([]goarrow.Field{{Name: "day", Type: day}, {Name: "name",
		Type: dict}, {Name: "at", Type: at}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i := range 6 {
		b.Field(0).(*array.Date32Builder).Append(goarrow.Date32(i % 2))
		if err := b.Field(1).(*array.BinaryDictionaryBuilder).AppendString([]string{"Ada",
			"Grace"}[i/3]); err != nil {
			t.Fatal(err)
		}
		b.Field(2).(*array.TimestampBuilder).Append(goarrow.Timestamp(i))
	}
	blocks := must(Encode(b.NewRecordBatch()))(t)
	plan := groupPlan{Keys: []string{"day", "name"}, Values: []string{"at"},
		Aggs: []group.Aggregate{{Func: group.Max}}}
	if err := plan.set(&Options{}); err != nil {
		t.Fatal(err)
	}
	out := driveGroup(t, rand.New(rand.NewPCG(1, 2)), plan, blocks)
	got, columns, _ := table(t, out)
	want := goarrow.NewSchema([]goarrow.Field{{Name: "day", Type: day, Nullable: true},
		{Name: "name", Type: goarrow.BinaryTypes.String, Nullable: true}, {Name: "max:at", Type: at,
			Nullable: true}}, nil)
	if !got.Equal(want) {
		t.Errorf("%v, want %v", got, want)
	}
	sameRows(t, rowsOf(columns), []string{"0|Ada|2|", "1|Ada|1|", "0|Grace|4|", "1|Grace|5|"})
	plan.Aggs[0].Func = group.Sum
	err := (&partialGroups{Plan: plan}).ProcessElement(t.Context(), blocks[0], nil)
	if !errors.Is(err, weft.ErrOptions) {
		t.Errorf("a sum of times: %v", err)
	}
	if none := must(Decode(must(encodeSchema(schema))(t)))(t); none.NumRows() != 0 || len(must(arrow.Columns(none))(t)) != 3 {
		t.Error("a stream of a schema is no block of no rows")
	}
}
