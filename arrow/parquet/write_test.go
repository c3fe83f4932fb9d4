package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go/format"
	"github.com/weftgo/weft/column"
)

var inf = math.Inf(1)

func bitsOf(v float64) uint64 { return math.Float64bits(v) }

// Files that are written and read have the same values: all types, with nulls, in several row
// groups and pages, with text in dictionaries and outside of them.
func TestWriter(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const n = 3 * pageRows / 2
	fields := []Field{
		{"i8", Type{Column: column.Int8}}, {"u8", Type{Column: column.Uint8}}, {"i16",
			Type{Column: column.Int16}}, {"u16", Type{Column: column.Uint16}},
		{"i32", Type{Column: column.Int32}}, {"u32", Type{Column: column.Uint32}}, {"i64",
			Type{Column: column.Int64}}, {"u64", Type{Column: column.Uint64}},
		{"f32", Type{Column: column.Float32}}, {"f64", Type{Column: column.Float64}}, {"bool",
			Type{Kind: Bool, Column: column.Bool}},
		{"few", Type{Kind: Text, Column: column.Bytes}}, {"many", Type{Kind: Binary,
			Column: column.Bytes}}, {"one", Type{Kind: Text, Column: column.Bytes}},
		{"fixed", Type{Kind: Fixed, Column: column.Bytes, Width: 5}}, {"date", Type{Kind: Date,
			Column: column.Int32}},
		{"time", Type{Kind: Time, Column: column.Int32, Unit: time.Millisecond}}, {"nanos",
			Type{Kind: Time, Column: column.Int64, Unit: time.Nanosecond}},
		{"at", Type{Kind: Timestamp, Column: column.Int64, Unit: time.Microsecond,
			UTC: true}}, {"null", Type{Kind: Null, Column: column.Bytes}},
	}
	columns := make([]column.Column, len(fields))
	raw := make([]uint64, n)
	for i := range raw {
		raw[i] = rng.Uint64()
	}
	for i, f := range fields {
		switch t := f.Type.Column; {
		case f.Type.Kind == Null:
			columns[i] = column.OfStrings(make([]string, n)).WithValid(column.OfBools(make([]bool,
				n)))
			continue
		case f.Type.Width > 0:
			columns[i] = must(column.OfWidth(5, bytes.Repeat([]byte("abcdefg"), n)[:5*n]))
		case t == column.Bytes:
			texts := make([]string, n)
			for j, v := range raw {
				texts[j] = map[string]string{"few": fmt.Sprint("w", v%300), "many": fmt.Sprint(v),
					"one": "the same"}[f.Name]
			}
			columns[i] = column.OfStrings(texts)
		case t == column.Bool:
			values := make([]bool, n)
			for j, v := range raw {
				values[j] = v%3 == 0
			}
			columns[i] = column.Of(values)
		case t.Float():
			floats, doubles := make([]float32, n), make([]float64, n)
			for j, v := range raw {
				floats[j], doubles[j] = float32(v), float64(v)
			}
			if columns[i] = column.Of(floats); t == column.Float64 {
				columns[i] = column.Of(doubles)
			}
		default:
			memory := make([]byte, 8*n)
			for j := range memory {
				memory[j] = byte(rng.Uint32())
			}
			columns[i] = ofNumbers(t, memory[:n*t.Size()])
		}
		if i%2 == 0 {
			valid := make([]bool, n)
			for j, v := range raw {
				valid[j] = v>>7%5 != 0
			}
			columns[i] = columns[i].WithValid(column.OfBools(valid))
		}
	}
	var b bytes.Buffer
	w, err := NewWriter(&b, fields, "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range [][2]int{{0, 7}, {7, 7}, {7, n / 2}, {n / 2, n}} {
		part := make([]column.Column, len(columns))
		for i, c := range columns {
			part[i] = c.Slice(at[0], at[1])
		}
		if err := w.Write(part); err != nil {
			t.Fatal(err)
		}
		if at[1] == n/2 {
			w.flush()
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f := must(Open(bytes.NewReader(b.Bytes()), int64(b.Len())))
	if f.Rows() != n || f.RowGroups() != 2 || f.CreatedBy() != "test" || !slices.Equal(f.Fields(),
		fields) {
		t.Errorf("%d rows in %d groups by %q: %v", f.Rows(), f.RowGroups(), f.CreatedBy(),
			f.Fields())
	}
	for i := range fields {
		row := 0
		for batch, err := range f.Columns(t.Context(), i) {
			if err != nil {
				t.Fatal(err)
			}
			if c := batch[0]; (fields[i].Name == "few") != c.HasCodes() &&
				fields[i].Name != "one" && fields[i].Name != "many" {
				t.Errorf("%s has codes: %v", fields[i].Name, c.HasCodes())
			}
			for j := range batch[0].Len() {
				if got, want := batch[0].Any(j), columns[i].Any(row); got != want &&
					!(got != got && want != want) {
					t.Fatalf("%s: row %d is %v, want %v", fields[i].Name, row, got, want)
				}
				row++
			}
		}
		if row != n {
			t.Errorf("%s has %d rows, want %d", fields[i].Name, row, n)
		}
	}
}

// broken is a writer that fails after a number of bytes.
type broken struct{ left int }

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestWriterRefuses(t *testing.T) {
	number := Field{"n", Type{Column: column.Int64}}
	for _, typ := range []Type{{}, {Kind: Nested, Column: column.Int64}, {Kind: Text,
		Column: column.Int64}, {Kind: Time, Column: column.Int64},
		{Kind: Timestamp, Column: column.Int64, Unit: time.Second}, {Kind: Date,
			Column: column.Int64}, {Kind: Decimal, Column: column.Float64}} {
		if _, err := NewWriter(io.Discard, []Field{{"f", typ}}, ""); err == nil ||
			!strings.Contains(err.Error(), `field "f"`) {
			t.Errorf("%v of %v: %v", typ, typ.Column, err)
		}
	}
	for want, columns := range map[string][]column.Column{
		"1 columns for 2": {column.Of([]int64{1})}, "has 2 rows": {column.Of([]int64{1}),
			column.Of([]int64{1, 2})},
		"a column of int32": {column.Of([]int64{1}), column.Of([]int32{1})},
	} {
		w := must(NewWriter(io.Discard, []Field{number, {"m", number.Type}}, ""))
		if err := w.Write(columns); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	size := 0
	for left := 1 << 20; left >= 0; left = min(left,
		size) - 1 { // the whole file, then shorter prefixes
		to := &broken{left}
		w, err := NewWriter(to, []Field{number}, "")
		if err == nil {
			err = errors.Join(w.Write([]column.Column{column.Of([]int64{1, 2, 3})}), w.Close())
		}
		if size == 0 {
			size = left - to.left
		} else if err == nil {
			t.Fatalf("%d of %d bytes are a file", left, size)
		}
	}
	if size < 100 {
		t.Errorf("a file of %d bytes", size)
	}
}

// A page that readers reject, or with a length that exceeds 32 bits, is not written.
func TestPageTooLarge(t *testing.T) {
	var h format.PageHeader
	out, raw, err := appendPage(nil, &h, make([]byte, maxPage+1))
	if err == nil || len(out) != 0 || raw != 0 || !strings.Contains(err.Error(), "too long") {
		t.Errorf("%d bytes of %d, %v", len(out), raw, err)
	}
}
