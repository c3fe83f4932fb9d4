package join_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/join"
)

// model is an index in plain Go: the rows of each key, which is a text.
type model map[string][]uint32

// keyOf returns the key of a row as text, and whether the row has a key.
func keyOf(keys []column.Column, row int, nullsMatch bool) (key string, ok bool) {
	var b strings.Builder
	for _, c := range keys {
		v := c.Any(row)
		switch x := v.(type) {
		case nil:
			if !nullsMatch {
				return "", false
			}
		case float32:
			if x == 0 {
				v = float32(0)
			}
		case float64:
			if x == 0 {
				v = 0.
			}
		}
		fmt.Fprintf(&b, "%#v,", v)
	}
	return b.String(), true
}

func modelOf(keys []column.Column, nullsMatch bool) model {
	m := make(model)
	for row := range keys[0].Len() {
		if k, ok := keyOf(keys, row, nullsMatch); ok {
			m[k] = append(m[k], uint32(row))
		}
	}
	return m
}

// answers holds all results of an index for a side.
type answers struct {
	inner, left [][2]uint32
	semi, anti  []uint32
	counts      []uint32
	found       []bool
}

func (m model) answers(keys []column.Column, nullsMatch bool) (a answers) {
	for row := range keys[0].Len() {
		var rows []uint32
		if k, ok := keyOf(keys, row, nullsMatch); ok {
			rows = m[k]
		}
		for _, r := range rows {
			a.inner = append(a.inner, [2]uint32{uint32(row), r})
			a.left = append(a.left, [2]uint32{uint32(row), r})
		}
		if len(rows) == 0 {
			a.left = append(a.left, [2]uint32{uint32(row), join.NoRow})
			a.anti = append(a.anti, uint32(row))
		} else {
			a.semi = append(a.semi, uint32(row))
		}
		a.counts = append(a.counts, uint32(len(rows)))
		a.found = append(a.found, len(rows) > 0)
	}
	return a
}

func collect(t interface{ Fatal(...any) }, pieces func(func(join.Pairs, error) bool)) (pairs [][2]uint32) {
	for p, err := range pieces {
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Len() {
			pairs = append(pairs, [2]uint32{p.Left[i], p.Right[i]})
		}
	}
	return pairs
}

// compare calls all methods of an index, and compares their results with the model.
func compare(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, ix *join.Index, want answers, keys []column.Column) {
	ctx := context.Background()
	if got := collect(t, ix.Inner(ctx, keys)); !slices.Equal(got, want.inner) {
		t.Fatalf("Inner: %v, want %v", got, want.inner)
	}
	if got := collect(t, ix.Left(ctx, keys)); !slices.Equal(got, want.left) {
		t.Fatalf("Left: %v, want %v", got, want.left)
	}
	if got, err := ix.Semi(ctx, keys, []uint32{7}); err != nil || got[0] != 7 || !slices.Equal(got[1:], want.semi) {
		t.Fatalf("Semi: %v, %v, want %v", got, err, want.semi)
	}
	if got, err := ix.Anti(ctx, keys, nil); err != nil || !slices.Equal(got, want.anti) {
		t.Fatalf("Anti: %v, %v, want %v", got, err, want.anti)
	}
	counts, found := make([]uint32, len(want.counts)), make([]bool, len(want.found))
	for i := range found { // old contents are overwritten
		counts[i], found[i] = 99, i%2 == 0
	}
	if total, err := ix.Count(ctx, keys, counts); err != nil || total != uint64(len(want.inner)) || !slices.Equal(counts, want.counts) {
		t.Fatalf("Count: %d of %v, %v, want %v", total, counts, err, want.counts)
	}
	if hits, err := ix.Contains(ctx, keys, found); err != nil || hits != len(want.semi) || !slices.Equal(found, want.found) {
		t.Fatalf("Contains: %d of %v, %v, want %v", hits, found, err, want.found)
	}
}

// drawColumn draws n values of a type from a small set, including edge cases.
func drawColumn(t *rapid.T, typ column.Type, n int) column.Column {
	pick := func(choices int) []int {
		return rapid.SliceOfN(rapid.IntRange(0, choices-1), n, n).Draw(t, typ.String())
	}
	var c column.Column
	switch typ {
	case column.Int8:
		c = chosen(pick(4), int8(-128), 0, -1, 127)
	case column.Int16:
		c = chosen(pick(4), int16(-1), 0, 255, math.MinInt16)
	case column.Int32:
		c = chosen(pick(5), int32(-1), 0, 1, math.MaxInt32, math.MinInt32)
	case column.Int64:
		c = chosen(pick(6), int64(-1), 0, 1, 1<<32, math.MaxInt64, math.MinInt64)
	case column.Uint8:
		c = chosen(pick(3), uint8(0), 1, 255)
	case column.Uint16:
		c = chosen(pick(3), uint16(0), 1, math.MaxUint16)
	case column.Uint32:
		c = chosen(pick(3), uint32(0), 1, math.MaxUint32)
	case column.Uint64:
		c = chosen(pick(4), uint64(0), 1, math.MaxUint64, 1<<63)
	case column.Float32:
		c = chosen(pick(6), float32(math.NaN()), 0, float32(math.Copysign(0, -1)), 1, float32(math.Inf(1)), math.Float32frombits(0xffc00001))
	case column.Float64:
		c = chosen(pick(6), math.NaN(), 0, math.Copysign(0, -1), 1, math.Inf(-1), math.Float64frombits(0xfff8000000000001))
	case column.Bool:
		c = chosen(pick(2), true, false)
	case column.Bytes:
		values := make([]string, n)
		for i, rows := range pick(4) {
			values[i] = []string{"", "a", "a\x00", "\xff"}[rows]
		}
		c = column.OfStrings(values)
	}
	if rapid.Bool().Draw(t, "nulls") {
		c = c.WithValid(column.OfBools(rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "valid")))
	}
	lo := rapid.IntRange(0, n).Draw(t, "lo")
	return c.Slice(lo, n)
}

func chosen[T column.Fixed](rows []int, values ...T) column.Column {
	all := make([]T, len(rows))
	for i, w := range rows {
		all[i] = values[w]
	}
	return column.Of(all)
}

// drawSide draws columns of the types, all of one length.
func drawSide(t *rapid.T, types []column.Type, maxRows int) []column.Column {
	n := rapid.IntRange(0, maxRows).Draw(t, "rows")
	var keys []column.Column
	for _, typ := range types {
		keys = append(keys, drawColumn(t, typ, n))
	}
	for _, c := range keys {
		n = min(n, c.Len())
	}
	for i, c := range keys {
		keys[i] = c.Slice(c.Len()-n, c.Len())
	}
	return keys
}

// Random columns of all types, alone and together, with nulls and without.
func TestRandomKeys(t *testing.T) {
	checkRandomKeys(t, devicetest.OpenCPU(t, 2), 40)
}

func checkRandomKeys(t *testing.T, dev device.Device, maxRows int) {
	rapid.Check(t, func(t *rapid.T) {
		types := rapid.SliceOfN(rapid.SampledFrom(drawn), 1, 3).Draw(t, "types")
		opts := &join.Options{NullsMatch: rapid.Bool().Draw(t, "NullsMatch"), Piece: rapid.IntRange(1, 50).Draw(t, "Piece")}
		right := drawSide(t, types, maxRows)
		ix, err := join.New(context.Background(), dev, right, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := ix.Close(); err != nil {
				t.Fatal(err)
			}
		}()
		m := modelOf(right, opts.NullsMatch)
		if ix.Len() != right[0].Len() || ix.Distinct() != len(m) {
			t.Fatalf("%d rows and %d keys, want %d and %d", ix.Len(), ix.Distinct(), right[0].Len(), len(m))
		}
		for range 2 {
			left := drawSide(t, types, maxRows)
			compare(t, ix, m.answers(left, opts.NullsMatch), left)
		}
	})
}

var drawn = []column.Type{
	column.Int8, column.Int16, column.Int32, column.Int64, column.Uint8, column.Uint16, column.Uint32, column.Uint64,
	column.Float32, column.Float64, column.Bool, column.Bytes,
}
