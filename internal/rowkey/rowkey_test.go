package rowkey

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/column"
)

// encoded returns the encodings of rows.
func encoded(c *Codec, cols []column.Column) []string {
	n := cols[0].Len()
	sizes, offsets := make([]int64, n), make([]int64, n+1)
	sum := c.Sizes(cols, 0, sizes)
	for i, size := range sizes {
		offsets[i+1] = offsets[i] + size
	}
	out := make([]byte, sum)
	c.Encode(cols, 0, n, out, offsets)
	rows := make([]string, n)
	for i := range rows {
		rows[i] = string(out[offsets[i]:offsets[i+1]])
	}
	return rows
}

// text returns a row as text, which is the same for rows that are the same key.
func text(cols []column.Column, i int) string {
	s := ""
	for _, c := range cols {
		switch v := c.Any(i).(type) {
		case float32:
			s += fmt.Sprintf("%v,", v+0) // -0 + 0 is 0
		case float64:
			s += fmt.Sprintf("%v,", v+0)
		case string:
			s += fmt.Sprintf("%q,", v)
		case nil:
			s += "null,"
		default:
			s += fmt.Sprintf("%v,", v)
		}
	}
	return s
}

func drawColumn(t *rapid.T, n int) column.Column {
	c := []func() column.Column{
		func() column.Column { return column.Of(draw(t, n, rapid.SampledFrom([]int8{-1, 0, 1}))) },
		func() column.Column { return column.Of(draw(t, n, rapid.SampledFrom([]int16{-256, 0, 1}))) },
		func() column.Column { return column.Of(draw(t, n, rapid.SampledFrom([]int32{-1 << 16, 0, 1}))) },
		func() column.Column { return column.Of(draw(t, n, rapid.SampledFrom([]int64{-1 << 40, 0, 1}))) },
		func() column.Column { return column.Of(draw(t, n, rapid.SampledFrom([]uint8{255, 0, 1}))) },
		func() column.Column { return column.Of(draw(t, n, rapid.SampledFrom([]uint16{256, 0, 1}))) },
		func() column.Column { return column.Of(draw(t, n, rapid.SampledFrom([]uint32{1 << 31, 0, 1}))) },
		func() column.Column { return column.Of(draw(t, n, rapid.SampledFrom([]uint64{1 << 63, 0, 1}))) },
		func() column.Column {
			return column.Of(draw(t, n, rapid.SampledFrom([]float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), math.Float32frombits(0xffc00001), -1.5})))
		},
		func() column.Column {
			return column.Of(draw(t, n, rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.NaN(), math.Float64frombits(0xfff8000000000001), math.Inf(1)})))
		},
		func() column.Column { return column.Of(draw(t, n, rapid.Bool())) },
		func() column.Column {
			return column.OfStrings(draw(t, n, rapid.SampledFrom([]string{"", "\x00", "a", "ab", "é\xff"})))
		},
	}[rapid.IntRange(0, 11).Draw(t, "type")]()
	if rapid.Bool().Draw(t, "nulls") {
		c = c.WithValid(column.OfBools(draw(t, n, rapid.Bool())))
	}
	return c
}

func draw[T any](t *rapid.T, n int, from *rapid.Generator[T]) []T {
	return rapid.SliceOfN(from, n, n).Draw(t, "values")
}

// Rows have the same encoding if they are the same key, and decode to equal values.
func TestRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "rows")
		cols := make([]column.Column, rapid.SampledFrom([]int{1, 1, 2, 3, 4, 10}).Draw(t, "columns"))
		for i := range cols {
			cols[i] = drawColumn(t, n)
		}
		c, err := New(TypesOf(cols))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(cols); err != nil {
			t.Fatal(err)
		}
		rows := encoded(c, cols)
		checkPacked(t, c, cols, rows)
		back, err := c.Decode(n, func(i int) []byte { return []byte(rows[i]) })
		if err != nil {
			t.Fatal(err)
		}
		seen, texts := make(map[string]string), make(map[string]string)
		for i, row := range rows {
			want := text(cols, i)
			if got := text(back, i); got != want {
				t.Fatalf("row %d is %s, and was %s", i, got, want)
			}
			if w := c.Width(); w > 0 && len(row) != w {
				t.Fatalf("row %d has %d bytes, not %d", i, len(row), w)
			}
			if err := c.Valid([]byte(row)); err != nil {
				t.Fatalf("row %d: %v", i, err)
			}
			if other, ok := seen[row]; ok && other != want {
				t.Fatalf("%s is encoded as %s", want, other)
			}
			if other, ok := texts[want]; ok && other != row {
				t.Fatalf("%s is encoded as %x and as %x", want, other, row)
			}
			seen[row], texts[want] = want, row
		}
	})
}

// checkPacked compares the words of rows with their encodings, if rows fit words.
func checkPacked(t *rapid.T, c *Codec, cols []column.Column, rows []string) {
	w, ok := c.Words()
	if !ok {
		return
	}
	lo := rapid.IntRange(0, len(rows)).Draw(t, "lo")
	words := make([]uint64, len(rows)-lo)
	for i := range words {
		words[i] = ^uint64(0) // former contents
	}
	Pack(&w, cols, lo, words)
	row := make([]byte, c.Width())
	for i, word := range words {
		c.Unpack(&w, word, !w.Nulls() && cols[0].Null(lo+i), row)
		if string(row) != rows[lo+i] {
			t.Fatalf("row %d, %s: word %x stands for %x, and not for %x", lo+i, text(cols, lo+i), word, row, rows[lo+i])
		}
	}
}

// Any bytes are an error or the encoding of a row.
func TestNoRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		types := rapid.SliceOfN(rapid.SampledFrom([]column.Type{column.Bytes, column.Bool, column.Float32, column.Int16}), 1, 9).Draw(t, "types")
		c, err := New(types)
		if err != nil {
			t.Fatal(err)
		}
		row := rapid.SliceOfN(rapid.ByteRange(0, 3), 0, 40).Draw(t, "row")
		if c.Valid(row) != nil {
			return
		}
		cols, err := c.Decode(1, func(int) []byte { return row })
		if err != nil {
			t.Fatal(err)
		}
		if again := encoded(c, cols)[0]; again != string(row) {
			t.Fatalf("%x is encoded as %x", row, again)
		}
	})
}

func TestTypes(t *testing.T) {
	for _, types := range [][]column.Type{nil, {column.None}, {column.Int8, column.None}, make([]column.Type, MaxColumns+1)} {
		if _, err := New(types); err == nil {
			t.Errorf("%d columns, %v: no error", len(types), types[:min(2, len(types))])
		}
	}
	c, err := New([]column.Type{column.Int8, column.Bytes})
	if err != nil {
		t.Fatal(err)
	}
	one, word := column.Of([]int8{1}), column.OfStrings([]string{"a"})
	for _, cols := range [][]column.Column{nil, {one}, {word, one}, {one, word, one}} {
		if err := c.Check(cols); err == nil {
			t.Errorf("%v: no error", TypesOf(cols))
		}
	}
}
