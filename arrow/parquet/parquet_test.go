package parquet

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/bytestreamsplit"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"

	"github.com/weftgo/weft/column"
)

// testPage describes a page of one column.
type testPage struct {
	encoding format.Encoding
	valid    []bool // nil: no levels
	rows     int
	values   []byte
	v2       bool
	dict     bool
	damage   bool // damage the page after its checksum is computed
	unsummed bool
}

// testColumn describes a column in a file of one row group.
type testColumn struct {
	name     string
	typ      format.Type
	width    int
	optional bool
	logical  format.LogicalTypeValue
	pages    []testPage
}

// fileOf assembles a file with the given columns. Additional elements of the schema make nested
// fields.
func fileOf(t testing.TB, codec format.CompressionCodec, rows int, columns ...testColumn) []byte {
	t.Helper()
	meta := format.FileMetaData{Version: 2, NumRows: int64(rows), CreatedBy: "test"}
	root := format.SchemaElement{Name: "root"}
	root.NumChildren.Set(int32(len(columns)))
	meta.Schema = append(meta.Schema, root)
	group := format.RowGroup{NumRows: int64(rows)}
	b := []byte(magic)
	for _, c := range columns {
		e := format.SchemaElement{Name: c.name}
		e.LogicalType.Value = c.logical
		e.Type.Set(c.typ)
		e.RepetitionType.Set(format.Required)
		if c.optional {
			e.RepetitionType.Set(format.Optional)
		}
		if c.width > 0 {
			e.TypeLength.Set(int32(c.width))
		}
		meta.Schema = append(meta.Schema, e)
		m := format.ColumnMetaData{Type: c.typ, Codec: codec, PathInSchema: []string{c.name},
			NumValues: int64(rows), DataPageOffset: int64(len(b))}
		for _, p := range c.pages {
			b = append(b, p.bytes(t, codec)...)
		}
		m.TotalCompressedSize = int64(len(b)) - m.DataPageOffset
		m.TotalUncompressedSize = m.TotalCompressedSize
		group.Columns = append(group.Columns, format.ColumnChunk{MetaData: m})
	}
	meta.RowGroups = append(meta.RowGroups, group)
	return withFooter(t, b, &meta)
}

func withFooter(t testing.TB, b []byte, meta *format.FileMetaData) []byte {
	t.Helper()
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, footer...)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(footer))), magic...)
}

func (p testPage) bytes(t testing.TB, codec format.CompressionCodec) []byte {
	t.Helper()
	var levels []byte
	if p.valid != nil {
		src := make([]uint8, len(p.valid))
		for i, v := range p.valid {
			if v {
				src[i] = 1
			}
		}
		var err error
		if levels, err = (&rle.Encoding{BitWidth: 1}).EncodeLevels(nil, src); err != nil {
			t.Fatal(err)
		}
	}
	h := format.PageHeader{}
	var body []byte
	switch {
	case p.dict:
		h.Type, body = format.DictionaryPage, compressed(t, codec, p.values)
		h.DictionaryPageHeader.Set(format.DictionaryPageHeader{NumValues: int32(p.rows),
			Encoding: format.Plain})
		h.UncompressedPageSize = int32(len(p.values))
	case p.v2:
		h.Type = format.DataPageV2
		d := format.DataPageHeaderV2{NumValues: int32(p.rows), NumRows: int32(p.rows),
			Encoding: p.encoding, DefinitionLevelsByteLength: int32(len(levels))}
		body = slices.Concat(levels, compressed(t, codec, p.values))
		if len(p.values) == 0 {
			body = levels
		}
		h.DataPageHeaderV2.Set(d)
		h.UncompressedPageSize = int32(len(levels) + len(p.values))
	default:
		h.Type = format.DataPage
		h.DataPageHeader.Set(format.DataPageHeader{NumValues: int32(p.rows), Encoding: p.encoding,
			DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})
		var raw []byte
		if p.valid != nil {
			raw = append(binary.LittleEndian.AppendUint32(nil, uint32(len(levels))), levels...)
		}
		raw = append(raw, p.values...)
		body = compressed(t, codec, raw)
		h.UncompressedPageSize = int32(len(raw))
	}
	h.CompressedPageSize = int32(len(body))
	if h.CRC = int32(crc32.ChecksumIEEE(body)); p.unsummed {
		h.CRC = 0
	}
	if p.damage {
		body = slices.Clone(body)
		body[len(body)-1] ^= 4
	}
	head, err := thrift.Marshal(new(thrift.CompactProtocol), &h)
	if err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

func compressed(t testing.TB, codec format.CompressionCodec, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	switch codec {
	case format.Snappy:
		return snappy.Encode(nil, b)
	case format.Gzip: // in two members, as some writers do
		for _, part := range [][]byte{b[:len(b)/2], b[len(b)/2:]} {
			w := gzip.NewWriter(&out)
			if _, err := w.Write(part); err != nil || w.Close() != nil {
				t.Fatal(err)
			}
		}
		return out.Bytes()
	case format.Zstd:
		w, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		return w.EncodeAll(b, nil)
	case format.Lz4Raw, format.Lz4:
		dst := make([]byte, lz4.CompressBlockBound(len(b)))
		n, err := lz4.CompressBlock(b, dst, nil)
		if err != nil || n == 0 {
			t.Fatalf("%d bytes do not compress: %v", len(b), err)
		}
		if codec == format.Lz4 {
			head := binary.BigEndian.AppendUint32(nil, uint32(len(b)))
			return append(binary.BigEndian.AppendUint32(head, uint32(n)), dst[:n]...)
		}
		return dst[:n]
	}
	return b
}

// read returns the values of the fields of a file, or an error.
func read(ctx context.Context, b []byte, fields ...int) (got [][]any, err error) {
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	got = make([][]any, len(fields))
	for batch, err := range f.Columns(ctx, fields...) {
		if err != nil {
			return nil, err
		}
		for i, c := range batch {
			got[i] = append(got[i], anys(c)...)
		}
	}
	return got, nil
}

func anys(c column.Column) (vs []any) {
	for i := range c.Len() {
		vs = append(vs, c.Any(i))
	}
	return vs
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func le32(values ...int32) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

func le64(values ...int64) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

func plainTexts(texts ...string) (b []byte) {
	for _, s := range texts {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	return b
}

// codesOf returns dictionary codes as parquet-go encodes them.
func codesOf(width int, codes ...int32) []byte {
	return append([]byte{byte(width)}, must((&rle.Encoding{BitWidth: width}).EncodeInt32(nil,
		codes))...)
}

// For each encoding, compression and page version, with and without nulls, decoding returns what
// parquet-go has encoded.
func TestEncodings(t *testing.T) {
	const n = 1000
	rng := rand.New(rand.NewPCG(1, 2))
	ints, longs, texts, codes, floats, bools := make([]int32, n), make([]int64, n), make([]string,
		n), make([]int32, n), make([]float64, n), make([]bool, n)
	words := []string{"", "a", "weft", "warp and weft", "warped"}
	for i := range n {
		ints[i], longs[i] = int32(rng.Uint32()>>(rng.IntN(31))), int64(rng.Uint64()>>(rng.IntN(63)))
		codes[i] = int32(rng.IntN(len(words)))
		texts[i] = words[codes[i]]
		floats[i], bools[i] = rng.NormFloat64(), rng.IntN(3) == 0
	}
	slices.Sort(longs[:n/2])
	var offsets []uint32
	var data, fixed, bits []byte
	for i, s := range texts {
		offsets = append(offsets, uint32(len(data)))
		data = append(data, s...)
		fixed = append(fixed, fmt.Sprintf("%03d", i)...)
		if i%8 == 0 {
			bits = append(bits, 0)
		}
		if bools[i] {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	offsets = append(offsets, uint32(len(data)))
	var rawFloats []byte
	for _, v := range floats {
		rawFloats = append(rawFloats, le64(int64(bitsOf(v)))...)
	}
	anyOf := func(i int, name string) any {
		switch name[:2] {
		case "in":
			return ints[i]
		case "lo":
			return longs[i]
		case "te":
			return texts[i]
		case "fi":
			return fmt.Sprintf("%03d", i)
		case "fl":
			return floats[i]
		}
		return bools[i]
	}
	dict := testPage{dict: true, rows: len(words), values: plainTexts(words...)}
	wide := codesOf(17, codes...) // more bits per code than needed
	cases := []struct {
		name   string
		typ    format.Type
		enc    format.Encoding
		values []byte
		before []testPage
	}{
		{"int32 plain", format.Int32, format.Plain, le32(ints...), nil},
		{"int32 delta", format.Int32, format.DeltaBinaryPacked,
			must(new(delta.BinaryPackedEncoding).EncodeInt32(nil, ints)), nil},
		{"int32 split", format.Int32, format.ByteStreamSplit,
			must(new(bytestreamsplit.Encoding).EncodeInt32(nil, ints)), nil},
		{"long plain", format.Int64, format.Plain, le64(longs...), nil},
		{"long delta", format.Int64, format.DeltaBinaryPacked,
			must(new(delta.BinaryPackedEncoding).EncodeInt64(nil, longs)), nil},
		{"float plain", format.Double, format.Plain, rawFloats, nil},
		{"float split", format.Double, format.ByteStreamSplit,
			must(new(bytestreamsplit.Encoding).EncodeDouble(nil, floats)), nil},
		{"text plain", format.ByteArray, format.Plain, plainTexts(texts...), nil},
		{"text lengths", format.ByteArray, format.DeltaLengthByteArray,
			must(new(delta.LengthByteArrayEncoding).EncodeByteArray(nil, data, offsets)), nil},
		{"text fronts", format.ByteArray, format.DeltaByteArray,
			must(new(delta.ByteArrayEncoding).EncodeByteArray(nil, data, offsets)), nil},
		{"text codes", format.ByteArray, format.RLEDictionary, codesOf(3, codes...),
			[]testPage{dict}},
		{"text wide codes", format.ByteArray, plainDictionary, wide, []testPage{dict}},
		{"fixed plain", format.FixedLenByteArray, format.Plain, fixed, nil},
		{"fixed fronts", format.FixedLenByteArray, format.DeltaByteArray,
			must(new(delta.ByteArrayEncoding).EncodeFixedLenByteArray(nil, fixed, 3)), nil},
		{"fixed split", format.FixedLenByteArray, format.ByteStreamSplit,
			must(new(bytestreamsplit.Encoding).EncodeFixedLenByteArray(nil, fixed, 3)), nil},
		{"bool plain", format.Boolean, format.Plain, bits, nil},
		{"bool runs", format.Boolean, format.RLE,
			must((&rle.Encoding{BitWidth: 1}).EncodeBoolean(nil, bits)), nil},
	}
	codecs := []format.CompressionCodec{format.Uncompressed, format.Snappy, format.Gzip,
		format.Zstd, format.Lz4Raw, format.Lz4}
	for k, c := range cases {
		for _, v2 := range []bool{false, true} {
			codec := codecs[k%len(codecs)]
			if (codec == format.Lz4 || codec == format.Lz4Raw) && !strings.HasPrefix(c.name,
				"text") {
				codec = format.Zstd // for data that does not compress
			}
			for _, nulls := range []bool{false, true} {
				var valid []bool
				var want []any
				rows := n
				if nulls {
					for i := 0; i < n; i++ {
						for rng.IntN(4) == 0 {
							valid, want = append(valid, false), append(want, nil)
						}
						valid, want = append(valid, true), append(want, anyOf(i, c.name))
					}
					rows = len(valid)
				} else {
					for i := range n {
						want = append(want, anyOf(i, c.name))
					}
				}
				col := testColumn{name: "c", typ: c.typ, optional: nulls, pages: append(c.before,
					testPage{encoding: c.enc, rows: rows, valid: valid, values: c.values, v2: v2})}
				if c.typ == format.FixedLenByteArray {
					col.width = 3
				}
				got, err := read(t.Context(), fileOf(t, codec, rows, col), 0)
				if err != nil || !slices.Equal(got[0], want) {
					t.Errorf("%s, %v, version 2 %v, nulls %v: %v", c.name, codec, v2, nulls, err)
				}
			}
		}
	}
}

// Pages of codes and pages of plain text may come in any order, and batches may end at any row.
func TestMixedPages(t *testing.T) {
	dict := testPage{dict: true, rows: 3, values: plainTexts("x", "yy", "zzz")}
	coded := testPage{encoding: format.RLEDictionary, rows: 4, valid: []bool{true, false, true,
		true}, values: codesOf(2, 2, 0, 1)}
	plain := testPage{encoding: format.Plain, rows: 3, valid: []bool{false, true, true},
		values: plainTexts("p", "")}
	nulls := testPage{encoding: format.RLEDictionary, rows: 2, valid: []bool{false, false}}
	empty := testPage{encoding: format.Plain, rows: 0, valid: []bool{}, v2: true}
	values := map[int][]any{0: {"zzz", nil, "x", "yy"}, 1: {nil, "p", ""}, 2: {nil, nil}, 3: {}}
	pages := []testPage{coded, plain, nulls, empty}
	for order := range 64 {
		var all []testPage
		var want []any
		for _, p := range []int{order & 3, order >> 2 & 3, order >> 4} {
			all, want = append(all, pages[p]), append(want, values[p]...)
		}
		b := fileOf(t, format.Snappy, len(want), testColumn{name: "s", typ: format.ByteArray,
			optional: true, pages: append([]testPage{dict}, all...)})
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		for most := 1; most <= 9; most++ {
			var got []any
			for batch, err := range f.rowGroup(t.Context(), 0, []int{0}, most) {
				if err != nil {
					t.Fatal(order, err)
				}
				got = append(got, anys(batch[0])...)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("pages %d, batches of %d: %v, want %v", order, most, got, want)
			}
		}
	}
	b := fileOf(t, format.Snappy, 8, testColumn{name: "s", typ: format.ByteArray, optional: true,
		pages: []testPage{dict, coded, coded}})
	f := must(Open(bytes.NewReader(b), int64(len(b))))
	for batch, err := range f.Columns(t.Context(), 0) {
		if err != nil || !batch[0].HasCodes() {
			t.Errorf("pages of codes are no column of codes: %v", err)
		}
	}
}

// Logical types determine the types of columns.
func TestTypes(t *testing.T) {
	micros := format.TimeUnit{Value: &format.MicroSeconds{}}
	half := []byte{0, 0x3c, 0, 0xc0, 1, 0, 0, 0x7c} // 1, -2, the smallest, infinity
	day := append(le64(43_200_000_000_000), le32(2440589)...)
	spark := append(le64(-32509551616000), le32(-108302820+2440588)...)
	for _, tt := range []struct {
		typ     format.Type
		width   int
		logical format.LogicalTypeValue
		values  []byte
		rows    int
		is      string
		want    []any
		err     string
	}{
		{format.Int32, 0, &format.IntType{BitWidth: 8, IsSigned: true}, le32(-128, 127), 2,
			"int8", []any{int8(-128), int8(127)}, ""},
		{format.Int32, 0, &format.IntType{BitWidth: 8, IsSigned: true}, le32(128), 1, "int8", nil,
			"value 128 does not fit int8"},
		{format.Int32, 0, &format.IntType{BitWidth: 16}, le32(65535), 1, "uint16",
			[]any{uint16(65535)}, ""},
		{format.Int32, 0, &format.IntType{BitWidth: 16, IsSigned: true}, le32(-32768), 1, "int16",
			[]any{int16(-32768)}, ""},
		{format.Int32, 0, &format.IntType{BitWidth: 32}, le32(-1), 1, "uint32",
			[]any{uint32(1<<32 - 1)}, ""},
		{format.Int64, 0, &format.IntType{BitWidth: 64}, le64(-1), 1, "uint64",
			[]any{uint64(1<<64 - 1)}, ""},
		{format.Int64, 0, &format.IntType{BitWidth: 8}, le64(5), 1, "int64", []any{int64(5)}, ""},
		{format.Int32, 0, &format.DateType{}, le32(1), 1, "date", []any{int32(1)}, ""},
		{format.Int64, 0, &format.TimestampType{IsAdjustedToUTC: true, Unit: micros}, le64(7), 1,
			"timestamp(us, UTC)", []any{int64(7)}, ""},
		{format.Int64, 0, &format.TimeType{Unit: micros}, le64(7), 1, "time(us)", []any{int64(7)},
			""},
		{format.Int32, 0, &format.TimeType{Unit: micros}, le32(7), 1, "int32", []any{int32(7)}, ""},
		{format.FixedLenByteArray, 2, &format.Float16Type{}, half, 4, "float32", []any{float32(1),
			float32(-2), float32(1) / (1 << 24), float32(inf)}, ""},
		{format.FixedLenByteArray, 16, &format.UUIDType{}, []byte("0123456789abcdef"), 1,
			"fixed(16)", []any{"0123456789abcdef"}, ""},
		{format.Int96, 0, nil, append(day, spark...), 2, "timestamp(us, UTC)",
			[]any{int64(86_400_000_000 + 43_200_000_000), int64(9089380393200000000)}, ""},
		{format.Int96, 0, nil, append(le64(1), le32(2440588)...), 1, "timestamp(us, UTC)", nil,
			"finer than the microseconds of columns"},
		{format.ByteArray, 0, &format.StringType{}, plainTexts("é"), 1, "text", []any{"é"}, ""},
		{format.ByteArray, 0, &format.JsonType{}, plainTexts("{}"), 1, "binary", []any{"{}"}, ""},
		{format.Int32, 0, &format.NullType{}, nil, 2, "null", []any{nil, nil}, ""},
		{format.Int64, 0, &format.DecimalType{Precision: 10, Scale: 2}, le64(150), 1,
			"decimal(10, 2)", nil, `field "c" is a decimal(10, 2): columns cannot hold decimals yet`},
	} {
		b := fileOf(t, format.Uncompressed, tt.rows, testColumn{name: "c", typ: tt.typ,
			width: tt.width, logical: tt.logical, pages: []testPage{{rows: tt.rows,
				values: tt.values}}})
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil || f.Fields()[0].Type.String() != tt.is {
			t.Errorf("%v of %v is %v, want %s; %v", tt.logical, tt.typ, f.Fields(), tt.is, err)
			continue
		}
		got, err := read(t.Context(), b, 0)
		if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) ||
			tt.err == "" && (err != nil || !slices.Equal(got[0], tt.want)) {
			t.Errorf("%s: %v, want %v; %v, want %q", tt.is, got, tt.want, err, tt.err)
		}
	}
}

// Fields next to nested fields are readable. A nested field is an error if it is requested.
func TestNested(t *testing.T) {
	c := func(name string, v int32) testColumn {
		return testColumn{name: name, typ: format.Int32, pages: []testPage{{rows: 1,
			values: le32(v)}}}
	}
	b := fileOf(t, format.Uncompressed, 1, c("a", 1), c("x", 2), c("y", 3), c("z", 4))
	// The same chunks get another schema: a, a group of x and a group of y, and z.
	f := must(Open(bytes.NewReader(b), int64(len(b))))
	group := func(name string, n int32) (e format.SchemaElement) {
		e.Name = name
		e.NumChildren.Set(n)
		return e
	}
	old := f.meta.Schema
	var err error
	f.leaves, err = schemaOf([]format.SchemaElement{group("root", 3), old[1], group("g", 2),
		old[2], group("h", 1), old[3], old[4]})
	if err != nil {
		t.Fatal(err)
	}
	f.fields = nil
	for _, l := range f.leaves {
		f.fields = append(f.fields, l.Field)
	}
	for batch, err := range f.Columns(t.Context(), 2, 0) {
		if err != nil || batch[0].Any(0) != int32(4) || batch[1].Any(0) != int32(1) {
			t.Errorf("fields beside groups: %v", err)
		}
	}
	for _, err := range f.Columns(t.Context(), 0, 1) {
		if err == nil || !strings.Contains(err.Error(), `field "g" is nested`) {
			t.Errorf("a nested field: %v", err)
		}
	}
	for _, wrong := range [][]format.SchemaElement{nil, {group("root", 1)}, {group("root", 1),
		group("g", 2), old[1]}, {group("root", 1), group("g", -1)}} {
		if _, err := schemaOf(wrong); err == nil {
			t.Errorf("a schema of %d elements is complete", len(wrong))
		}
	}
}

func TestRefuses(t *testing.T) {
	ok := testPage{rows: 3, values: le32(1, 2, 3)}
	b := fileOf(t, format.Snappy, 3, testColumn{name: "id", typ: format.Int32,
		pages: []testPage{ok}})
	for want, fields := range map[string][]int{"field 1 is not one of the 1": {1}, "field -1": {0, -1}} {
		if _, err := read(t.Context(), b, fields...); err == nil || !strings.Contains(err.Error(),
			want) {
			t.Errorf("%v: %v, want %s", fields, err, want)
		}
	}
	f := must(Open(bytes.NewReader(b), int64(len(b))))
	for _, err := range f.RowGroup(t.Context(), 1, 0) {
		if err == nil {
			t.Error("a row group that is not there is no error")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := read(ctx, b, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	for _, b := range [][]byte{nil, []byte("PAR1"), []byte("PAR1PAR1"), b[:len(b)-1], b[1:],
		append(slices.Clone(b), 0)} {
		if _, err := read(t.Context(), b, 0); err == nil {
			t.Errorf("%d bytes that are no file are read", len(b))
		}
	}
	damaged, dict := ok, testPage{dict: true, rows: 2, values: le32(5, 6)}
	damaged.damage = true
	damagedDict := dict
	damagedDict.damage = true
	for want, pages := range map[string][]testPage{
		`row group 0, field "id": the checksum of the page of 12 bytes at`: {damaged},
		"does not match": {damagedDict,
			{encoding: format.RLEDictionary, rows: 3, values: codesOf(1, 0, 1, 1)}},
		"fewer rows than the metadata announces": {{rows: 2, values: le32(1, 2)}},
		"more rows than the metadata announces":  {{rows: 4, values: le32(1, 2, 3, 4)}},
		"fewer values than rows":                 {{rows: 3, values: le32(1, 2)}},
		"codes without a dictionary": {{encoding: format.RLEDictionary,
			rows: 3, values: codesOf(1, 0, 1, 1)}},
		"code 3 in a dictionary of 2 values": {dict,
			{encoding: format.RLEDictionary, rows: 3, values: codesOf(2, 0, 3, 1)}},
		"two dictionaries":                           {dict, dict, ok},
		"encoding DELTA_LENGTH_BYTE_ARRAY of values": {{encoding: format.DeltaLengthByteArray, rows: 3, values: le32(1)}},
		"damaged differences": {{encoding: format.DeltaBinaryPacked,
			rows: 3, values: []byte{128, 1, 4, 200, 1, 0}}},
	} {
		_, err := read(t.Context(), fileOf(t, format.Uncompressed, 3, testColumn{name: "id",
			typ: format.Int32, pages: pages}), 0)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for want, c := range map[string]testColumn{
		"damaged runs": {typ: format.Boolean, pages: []testPage{{encoding: format.RLE, rows: 3,
			values: []byte{2, 0, 0, 0, 6, 255}}}},
		"dictionary without values": {typ: format.ByteArray, pages: []testPage{{dict: true},
			{encoding: format.RLEDictionary, rows: 3, values: []byte{0, 6}}}},
	} {
		if _, err := read(t.Context(), fileOf(t, format.Uncompressed, 3, c), 0); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for name, damage := range map[string]func(*format.FileMetaData){
		"no row groups": func(m *format.FileMetaData) { m.RowGroups = nil },
		"fewer rows":    func(m *format.FileMetaData) { m.RowGroups[0].NumRows = 2 },
		"fewer fields":  func(m *format.FileMetaData) { m.Schema[0].NumChildren.Set(0) },
	} {
		var meta format.FileMetaData
		n := len(b) - tail - int(binary.LittleEndian.Uint32(b[len(b)-tail:]))
		if _, err := unmarshal(b[n:], &meta); err != nil {
			t.Fatal(err)
		}
		damage(&meta)
		file := withFooter(t, slices.Clone(b[:n]), &meta)
		if _, err := Open(bytes.NewReader(file), int64(len(file))); err == nil {
			t.Errorf("metadata with %s is no error", name)
		}
	}
}

// damageable returns a file with pages of most kinds, without checksums.
func damageable(t testing.TB, codec format.CompressionCodec) []byte {
	text := testColumn{name: "s", typ: format.ByteArray, optional: true, pages: []testPage{
		{dict: true, rows: 3, values: plainTexts("x", "yy", "zzz")},
		{encoding: format.RLEDictionary, rows: 4, valid: []bool{true, false, true, true},
			values: codesOf(2, 2, 0, 1)},
		{encoding: format.DeltaByteArray, rows: 2, valid: []bool{true, true},
			values: must(new(delta.ByteArrayEncoding).EncodeByteArray(nil, []byte("aabab"),
				[]uint32{0, 2, 5})), v2: true},
		{encoding: format.Plain, rows: 1, valid: []bool{true}, values: plainTexts("last")},
	}}
	long := testColumn{name: "n", typ: format.Int64,
		pages: []testPage{{encoding: format.DeltaBinaryPacked, rows: 7,
			values: must(new(delta.BinaryPackedEncoding).EncodeInt64(nil, []int64{1, -5, 9,
				1 << 60, 3, 3, 3}))}}}
	flag := testColumn{name: "b", typ: format.Boolean, pages: []testPage{{encoding: format.RLE,
		rows: 7, values: must((&rle.Encoding{BitWidth: 1}).EncodeBoolean(nil, []byte{0x55}))}}}
	for _, c := range []testColumn{text, long, flag} {
		for i := range c.pages { // without a checksum, so that decoders see the damage
			c.pages[i].unsummed = true
		}
	}
	return fileOf(t, codec, 7, text, long, flag)
}

// A damaged file is an error or has other values. Nothing panics or exhausts memory.
func TestDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, codec := range []format.CompressionCodec{format.Uncompressed, format.Snappy,
		format.Zstd} {
		whole := damageable(t, codec)
		if _, err := read(t.Context(), whole, 0, 1, 2); err != nil {
			t.Fatal(err)
		}
		failed := 0
		for range 3000 {
			b := slices.Clone(whole)
			for range 1 + rng.IntN(3) {
				b[rng.IntN(len(b))] ^= byte(1 << rng.IntN(8))
			}
			if _, err := read(t.Context(), b, 0, 1, 2); err != nil {
				failed++
			}
		}
		if failed < 300 {
			t.Errorf("%v: %d of 3000 damages are errors", codec, failed)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(damageable(f, format.Uncompressed))
	f.Add(damageable(f, format.Zstd))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = read(t.Context(), b, 0, 1, 2)
	})
}

// A list with a large claimed length gets no memory until its elements are checked.
func TestClaims(t *testing.T) {
	for _, b := range [][]byte{
		{0x29, 0xfc, 0xff, 0xff, 0xff, 0xff,
			0x07}, // a schema of 2^31-1 elements
		{0x19, 0xf8, 0xff, 0xff, 0xff, 0xff,
			0x07}, // a list of 2^31-1 strings
		{0x18, 0xff, 0xff, 0xff, 0xff, 0x07,
			'a'}, // a string of 2^31-1 bytes
		bytes.Repeat([]byte{0x1c},
			100), // nested structures
		{0x1b, 0xff, 0xff, 0xff, 0xff, 0x07, 0x88}, // a map
		{0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			0x01}, // a number of 77 bits
	} {
		var meta fileMeta
		if _, err := unmarshal(b, &meta); err == nil {
			t.Errorf("% x is metadata", b)
		}
	}
}
