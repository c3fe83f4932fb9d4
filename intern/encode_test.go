package intern

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/rowkey"
)

// Rows are encoded as package rowkey encodes them, whatever forms and nulls their columns have.
func TestEncoder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		n := rapid.IntRange(1, 3*encodedRows).Draw(t, "rows")
		cols := []column.Column{columnOf(2, words(rng, n))} // one of byte strings at least
		for range rapid.IntRange(0, 20).Draw(t, "columns") {
			cols = append(cols, anyColumn(rng, n))
		}
		rng.Shuffle(len(cols), func(i, j int) { cols[i], cols[j] = cols[j], cols[i] })
		codec, err := rowkey.New(rowkey.TypesOf(cols))
		if err != nil {
			t.Fatal(err)
		}
		e := newEncoder(codec.Types())
		lo := rng.IntN(n)
		want, sizes := make([]int64, n-lo), make([]int64, n-lo)
		codec.Sizes(cols, lo, want)
		e.sizes(cols, lo, sizes)
		offsets := []int64{0}
		for i := range want {
			if sizes[i] != want[i] {
				t.Fatalf("row %d has size %d, want %d", lo+i, sizes[i], want[i])
			}
			offsets = append(offsets, offsets[i]+want[i])
		}
		a, b := bytes.Repeat([]byte{7}, int(offsets[n-lo])), bytes.Repeat([]byte{9}, int(offsets[n-lo]))
		codec.Encode(cols, lo, n-lo, a, offsets)
		e.encode(cols, lo, b, offsets)
		if !bytes.Equal(a, b) {
			t.Fatalf("%x, want %x", b, a)
		}
	})
}

// words are strings of all lengths.
func words(rng *rand.Rand, n int) (s []string) {
	for range n {
		s = append(s, strings.Repeat(fmt.Sprint(rng.IntN(10)), max(0, rng.IntN(20)-2)*(1+rng.IntN(2)*20)))
	}
	return s
}

func anyColumn(rng *rand.Rand, n int) (c column.Column) {
	switch rng.IntN(7) {
	case 0:
		c = numbers[int8](rng, n, 100, false)
	case 1:
		c = numbers[int64](rng, n, 100, false)
	case 2:
		floats := make([]float64, n)
		for i := range floats {
			floats[i] = float64(rng.IntN(3)-1) / float64(rng.IntN(2))
		}
		c = column.Of(floats)
	case 3:
		c = column.OfStrings(words(rng, n))
	case 4:
		wide := make([]string, n)
		for i := range wide {
			wide[i] = fmt.Sprintf("%04d", rng.IntN(100))
		}
		c = columnOf(4, wide)
	default:
		c = columnOf(2+rng.IntN(2), words(rng, n))
	}
	if rng.IntN(2) == 0 {
		c = withNulls(rng, c)
	}
	return c
}
