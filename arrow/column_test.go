package arrow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/weftgo/weft/column"
)

// fromJSON parses text as an array of type typ.
func fromJSON(t testing.TB, typ arrow.DataType, text string) arrow.Array {
	t.Helper()
	arr, _, err := array.FromJSON(memory.DefaultAllocator, typ, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return arr
}

func anys(c column.Column) []any {
	var vs []any
	for i := range c.Len() {
		vs = append(vs, c.Any(i))
	}
	return vs
}

const long = "longer than a view"

// scenarios has arrays of all types that columns support, with nulls, and the expected values.
var scenarios = []struct {
	typ  arrow.DataType
	text string
	want []any
	back arrow.DataType // type after a round trip; nil if unchanged
}{
	{arrow.PrimitiveTypes.Int8, `[1,null,-3]`, []any{int8(1), nil, int8(-3)}, nil},
	{arrow.PrimitiveTypes.Int16, `[1,null,-3]`, []any{int16(1), nil, int16(-3)}, nil},
	{arrow.PrimitiveTypes.Int32, `[1,2]`, []any{int32(1), int32(2)}, nil},
	{arrow.PrimitiveTypes.Int64, `[null,-9007199254740991]`, []any{nil, int64(-9007199254740991)}, nil},
	{arrow.PrimitiveTypes.Uint8, `[255]`, []any{uint8(255)}, nil},
	{arrow.PrimitiveTypes.Uint16, `[65535]`, []any{uint16(65535)}, nil},
	{arrow.PrimitiveTypes.Uint32, `[4294967295]`, []any{uint32(4294967295)}, nil},
	{arrow.PrimitiveTypes.Uint64, `[7,null]`, []any{uint64(7), nil}, nil},
	{arrow.PrimitiveTypes.Float32, `[0.5,null]`, []any{float32(.5), nil}, nil},
	{arrow.PrimitiveTypes.Float64, `[0.1,null]`, []any{.1, nil}, nil},
	{arrow.FixedWidthTypes.Boolean, `[true,false,null,true,true,true,true,true,false,true]`,
		[]any{true, false, nil, true, true, true, true, true, false, true}, nil},
	{arrow.BinaryTypes.String, `["a",null,"","` + long + `"]`, []any{"a", nil, "", long}, nil},
	{arrow.BinaryTypes.LargeString, `["a",null,""]`, []any{"a", nil, ""}, nil},
	{arrow.BinaryTypes.StringView, `["a",null,"","` + long + `","twelve bytes"]`, []any{"a", nil, "", long, "twelve bytes"}, nil},
	{arrow.BinaryTypes.Binary, `["YQ==",null]`, []any{"a", nil}, nil},
	{arrow.BinaryTypes.LargeBinary, `["YQ==",null]`, []any{"a", nil}, nil},
	{arrow.BinaryTypes.BinaryView, `["YQ==",null]`, []any{"a", nil}, nil},
	{&arrow.FixedSizeBinaryType{ByteWidth: 2}, `["YWI=",null,"Y2Q="]`, []any{"ab", nil, "cd"}, nil},
	{arrow.Null, `[null,null]`, []any{nil, nil}, nil},
	{arrow.FixedWidthTypes.Date32, `["1970-01-03",null]`, []any{int32(2), nil}, nil},
	{arrow.FixedWidthTypes.Date64, `["1970-01-02"]`, []any{int64(86400000)}, nil},
	{arrow.FixedWidthTypes.Time32s, `["00:01:00"]`, []any{int32(60)}, nil},
	{arrow.FixedWidthTypes.Time64us, `["00:00:01"]`, []any{int64(1000000)}, nil},
	{arrow.FixedWidthTypes.Timestamp_ms, `["1970-01-01T00:00:01.500Z",null]`, []any{int64(1500), nil}, nil},
	{arrow.FixedWidthTypes.Duration_s, `[5]`, []any{int64(5)}, nil},
	{arrow.FixedWidthTypes.MonthInterval, `[{"months":3}]`, []any{int32(3)}, nil},
	{arrow.FixedWidthTypes.DayTimeInterval, `[{"days":1,"milliseconds":2}]`, []any{"\x01\x00\x00\x00\x02\x00\x00\x00"}, nil},
	{&arrow.Decimal32Type{Precision: 5, Scale: 2}, `["1.25",null]`, []any{int32(125), nil}, nil},
	{&arrow.Decimal64Type{Precision: 5, Scale: 2}, `["-1.25"]`, []any{int64(-125)}, nil},
	{&arrow.Decimal128Type{Precision: 38, Scale: 1}, `["0.3",null,"-0.1"]`,
		[]any{"\x03" + strings.Repeat("\x00", 15), nil, strings.Repeat("\xff", 16)}, nil},
	{&arrow.Decimal256Type{Precision: 40, Scale: 0}, `["1"]`, []any{"\x01" + strings.Repeat("\x00", 31)}, nil},
	{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String},
		`["a",null,"b","a"]`, []any{"a", nil, "b", "a"}, arrow.BinaryTypes.String},
	{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: arrow.PrimitiveTypes.Int64},
		`[5,null,7,5]`, []any{int64(5), nil, int64(7), int64(5)}, arrow.PrimitiveTypes.Int64},
	{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.PrimitiveTypes.Float32},
		`[0.5,0.5]`, []any{float32(.5), float32(.5)}, arrow.PrimitiveTypes.Float32},
	{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int64, ValueType: arrow.PrimitiveTypes.Uint8},
		`[3]`, []any{uint8(3)}, arrow.PrimitiveTypes.Uint8},
	{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint8, ValueType: arrow.PrimitiveTypes.Int16},
		`[3]`, []any{int16(3)}, arrow.PrimitiveTypes.Int16},
	{extensions.NewUUIDType(), `["00000000-0000-0000-0000-000000000041",null]`,
		[]any{strings.Repeat("\x00", 15) + "A", nil}, nil},
	{arrow.PrimitiveTypes.Int64, `[]`, nil, nil},
	{arrow.BinaryTypes.String, `[]`, nil, nil},
	{arrow.FixedWidthTypes.Boolean, `[]`, nil, nil},
}

// All slices of all arrays have the values of the array, and survive a round trip.
func TestScenarios(t *testing.T) {
	for _, tt := range scenarios {
		t.Run(fmt.Sprintf("%v %.20s", tt.typ, tt.text), func(t *testing.T) {
			whole := fromJSON(t, tt.typ, tt.text)
			for lo := 0; lo <= whole.Len(); lo++ {
				for hi := lo; hi <= whole.Len(); hi++ {
					arr := array.NewSlice(whole, int64(lo), int64(hi))
					c, err := Column(arr)
					if err != nil {
						t.Fatal(err)
					}
					if want, _ := Storage(tt.typ); c.Type() != want || !slices.Equal(anys(c), slices.Clip(tt.want[lo:hi])) {
						t.Fatalf("%d to %d are %v of %v, want %v", lo, hi, anys(c), c.Type(), tt.want[lo:hi])
					}
					checkBack(t, c, arr, tt.typ, tt.back)
				}
			}
		})
	}
}

// checkBack checks that a column and its slices convert back to the array.
func checkBack(t *testing.T, c column.Column, arr arrow.Array, typ, back arrow.DataType) {
	t.Helper()
	for lo := range c.Len() + 1 {
		got, err := Array(c.Slice(lo, c.Len()), typ)
		if err != nil {
			t.Fatal(err)
		}
		part := array.NewSlice(arr, int64(lo), int64(c.Len()))
		if back != nil {
			for i := range got.Len() {
				if got.IsNull(i) != part.IsNull(i) || !got.IsNull(i) && got.ValueStr(i) != part.ValueStr(i) {
					t.Fatalf("%v comes back as %v", part, got)
				}
			}
			if !arrow.TypeEqual(got.DataType(), back) {
				t.Fatalf("comes back as %v, want %v", got.DataType(), back)
			}
		} else if !array.Equal(got, part) {
			t.Fatalf("%v comes back as %v", part, got)
		}
	}
}

func TestNoCopies(t *testing.T) {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendValues([]int64{1, 2, 3}, []bool{true, false, true})
	numbers := b.NewInt64Array()
	c, err := Column(array.NewSlice(numbers, 1, 3))
	if err != nil {
		t.Fatal(err)
	}
	if &column.Values[int64](c)[0] != &numbers.Int64Values()[1] {
		t.Error("numbers are copied")
	}
	if bits, offset := c.Valid().Raw(); &bits[0] != &numbers.NullBitmapBytes()[0] || offset != 1 {
		t.Error("validity is copied")
	}
	back, err := Array(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if &back.(*array.Int64).Int64Values()[0] != &numbers.Int64Values()[1] {
		t.Error("numbers are copied on the way back")
	}
	text := fromJSON(t, arrow.BinaryTypes.String, `["a","bc"]`).(*array.String)
	if c, err = Column(text); err != nil {
		t.Fatal(err)
	}
	if unsafe.SliceData(c.Bytes(1)) != &text.ValueBytes()[1] {
		t.Error("text is copied")
	}
	if back, err = Array(c, arrow.BinaryTypes.String); err != nil {
		t.Fatal(err)
	}
	if &back.(*array.String).ValueBytes()[0] != &text.ValueBytes()[0] {
		t.Error("text is copied on the way back")
	}
}

func TestMisaligned(t *testing.T) {
	raw := make([]byte, 1+8*2)
	raw = raw[1:]
	raw[0], raw[8] = 1, 2
	data := array.NewData(arrow.PrimitiveTypes.Int64, 2, []*memory.Buffer{nil, memory.NewBufferBytes(raw)}, nil, 0, 0)
	c, err := Column(array.MakeFromData(data))
	if err != nil || !slices.Equal(column.Values[int64](c), []int64{1, 2}) {
		t.Errorf("%v, %v", anys(c), err)
	}
}

// Arrays that claim more bytes than their buffers have are errors.
func TestHostileArrays(t *testing.T) {
	bytes := func(b ...byte) *memory.Buffer { return memory.NewBufferBytes(b) }
	for name, tt := range map[string]struct {
		typ     arrow.DataType
		n, at   int
		buffers []*memory.Buffer
	}{
		"short view offsets": {arrow.BinaryTypes.StringView, 1, 0, []*memory.Buffer{nil, bytes(20, 0, 0, 0, 'a', 'b', 'c', 'd', 0, 0, 0, 0, 9, 0, 0, 0), bytes(make([]byte, 20)...)}},
		"view of no buffer":  {arrow.BinaryTypes.StringView, 1, 0, []*memory.Buffer{nil, bytes(20, 0, 0, 0, 'a', 'b', 'c', 'd', 7, 0, 0, 0, 0, 0, 0, 0)}},
		"negative view":      {arrow.BinaryTypes.StringView, 1, 0, []*memory.Buffer{nil, bytes(255, 255, 255, 255, 'a', 'b', 'c', 'd', 7, 0, 0, 0, 0, 0, 0, 0)}},
	} {
		data := array.NewData(tt.typ, tt.n, tt.buffers, nil, 0, tt.at)
		func() {
			// arrow-go checks some of these arrays itself, and panics
			defer func() { _ = recover() }()
			if c, err := Column(array.MakeFromData(data)); err == nil {
				t.Errorf("%s: %v is no error", name, anys(c))
			}
		}()
	}
	// Buffers that arrow-go does not check are truncated after its checks.
	for _, tt := range scenarios {
		arr := fromJSON(t, tt.typ, tt.text)
		if _, ok := arr.(array.ExtensionArray); ok || arr.Len() == 0 || arr.DataType().ID() == arrow.DICTIONARY || arr.DataType().ID() == arrow.NULL {
			continue
		}
		buffers := slices.Clone(arr.Data().Buffers())
		buffers[1] = memory.NewBufferBytes(buffers[1].Bytes()[:0])
		short := cut{arr.Data(), buffers}
		if c, err := values(shortArray{arr, short}); err == nil {
			t.Errorf("%v without its values: %v is no error", tt.typ, anys(c))
		} else if !strings.Contains(err.Error(), "bytes, want") {
			t.Errorf("%v: %v", tt.typ, err)
		}
	}
}

// shortArray is an array with replaced buffers.
type shortArray struct {
	arrow.Array
	data cut
}

func (a shortArray) Data() arrow.ArrayData { return a.data }

type cut struct {
	arrow.ArrayData
	buffers []*memory.Buffer
}

func (c cut) Buffers() []*memory.Buffer { return c.buffers }

func TestDictionary(t *testing.T) {
	typ := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	arr := fromJSON(t, typ, `["x","y",null,"x"]`).(*array.Dictionary)
	if c, err := Column(arr); err != nil || !c.HasCodes() || !slices.Equal(anys(c), []any{"x", "y", nil, "x"}) {
		t.Errorf("a column of %v, codes %v; %v", anys(c), c.HasCodes(), err)
	}
	codes, values, err := Dictionary(arr)
	if err != nil || !slices.Equal(anys(codes), []any{int8(0), int8(1), nil, int8(0)}) || !slices.Equal(anys(values), []any{"x", "y"}) {
		t.Errorf("codes %v, values %v, %v", anys(codes), anys(values), err)
	}
	for _, text := range []string{`[0,2]`, `[-1]`} {
		wrong := array.NewDictionaryArray(typ, fromJSON(t, arrow.PrimitiveTypes.Int8, text), fromJSON(t, arrow.BinaryTypes.String, `["x","y"]`))
		if _, _, err := Dictionary(wrong); err == nil || !strings.Contains(err.Error(), "outside a dictionary of 2") {
			t.Errorf("codes %s: %v", text, err)
		}
		if _, err := Column(wrong); err == nil {
			t.Errorf("codes %s are no error", text)
		}
	}
	// A row is null if its value in the dictionary is null.
	nulls := array.NewDictionaryArray(typ, fromJSON(t, arrow.PrimitiveTypes.Int8, `[0,1]`), fromJSON(t, arrow.BinaryTypes.String, `[null,"y"]`))
	if c, err := Column(nulls); err != nil || !slices.Equal(anys(c), []any{nil, "y"}) {
		t.Errorf("%v, %v", anys(c), err)
	}
}

func TestUnsupported(t *testing.T) {
	for _, typ := range []arrow.DataType{arrow.FixedWidthTypes.Float16, arrow.ListOf(arrow.PrimitiveTypes.Int8), arrow.StructOf()} {
		if _, err := Column(array.MakeArrayOfNull(memory.DefaultAllocator, typ, 1)); err == nil || !strings.Contains(err.Error(), typ.String()) {
			t.Errorf("%v: %v", typ, err)
		}
		if _, err := Array(column.Of([]int8{1}), typ); err == nil {
			t.Errorf("an array of %v is no error", typ)
		}
	}
	for _, tt := range []struct {
		c   column.Column
		typ arrow.DataType
	}{
		{column.Of([]int8{1}), arrow.PrimitiveTypes.Int16},
		{column.OfStrings([]string{"a"}), arrow.PrimitiveTypes.Int16},
		{column.OfStrings([]string{"abc"}), &arrow.Decimal128Type{Precision: 3}},
		{column.OfStrings([]string{"abc"}), arrow.Null},
	} {
		if arr, err := Array(tt.c, tt.typ); err == nil {
			t.Errorf("%v of %v comes back as %v", tt.c.Type(), tt.typ, arr)
		}
	}
}

func TestMeaning(t *testing.T) {
	for _, tt := range []struct {
		typ              arrow.DataType
		numeric, ordered bool
	}{
		{arrow.PrimitiveTypes.Int8, true, true},
		{arrow.PrimitiveTypes.Float64, true, true},
		{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.PrimitiveTypes.Int64}, true, true},
		{arrow.BinaryTypes.String, false, true},
		{arrow.FixedWidthTypes.Boolean, false, true},
		{arrow.FixedWidthTypes.Date32, false, true},
		{&arrow.Decimal64Type{Precision: 5}, false, true},
		{&arrow.Decimal128Type{Precision: 5}, false, false},
		{arrow.FixedWidthTypes.DayTimeInterval, false, false},
		{arrow.ListOf(arrow.PrimitiveTypes.Int8), false, false},
	} {
		if err := Numeric(tt.typ); (err == nil) != tt.numeric {
			t.Errorf("%v as a number: %v", tt.typ, err)
		}
		if err := Ordered(tt.typ); (err == nil) != tt.ordered {
			t.Errorf("%v in order: %v", tt.typ, err)
		}
	}
}

// Columns without a requested type convert to the default types.
func TestNaturalTypes(t *testing.T) {
	small, _ := column.OfOffsets([]int32{0, 1}, []byte("a"))
	large, _ := column.OfOffsets([]int64{0, 1}, []byte("a"))
	width, _ := column.OfWidth(1, []byte("a"))
	for want, c := range map[string]column.Column{
		"null": {}, "int8": column.Of([]int8{1}), "uint64": column.Of([]uint64{1}), "float32": column.Of([]float32{1}), "bool": column.Of([]bool{true}),
		"binary": small, "large_binary": large, "fixed_size_binary[1]": width,
	} {
		arr, err := Array(c, nil)
		if err != nil || arr.DataType().String() != want || arr.Len() != c.Len() {
			t.Errorf("%v comes back as %v, %v, want %s", c.Type(), arr, err, want)
		}
	}
}

func TestRecordBatch(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}, {Name: "b", Type: arrow.BinaryTypes.String}}, nil)
	columns := []column.Column{column.Of([]int64{1, 2}), column.OfStrings([]string{"x", "y"})}
	rec, err := RecordBatch(columns, schema)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Columns(rec)
	if err != nil || !slices.Equal(anys(back[0]), anys(columns[0])) || !slices.Equal(anys(back[1]), anys(columns[1])) {
		t.Errorf("%v, %v", back, err)
	}
	for want, columns := range map[string][]column.Column{
		"1 columns for a schema of 2": columns[:1],
		`field "b" has 1 values`:      {columns[0], columns[1].Slice(0, 1)},
		`field "b": arrow: a column`:  {columns[0], columns[0]},
	} {
		if _, err := RecordBatch(columns, schema); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
