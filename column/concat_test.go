package column

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft/internal/op"
)

func TestConcat(t *testing.T) {
	width, err := OfWidth(2, []byte("abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := Of([]int16{1, -2, 3, 4}).WithValid(OfBools([]bool{true, true, false, true}))
	for _, columns := range [][]Column{
		{numbers.Slice(1, 3), Of([]int16{}), Of([]int16{7})},
		{OfStrings([]string{"x", "", "yz"}).WithValid(OfBools([]bool{true, true, false})), width.Slice(1, 3)},
		{Of([]bool{true, false}), Of([]bool{true})},
		{numbers.Slice(0, 0)},
	} {
		got, err := Concat(columns...)
		if err != nil {
			t.Fatal(err)
		}
		var want, have []any
		for _, c := range columns {
			for i := range c.Len() {
				want = append(want, c.Any(i))
			}
		}
		for i := range got.Len() {
			have = append(have, got.Any(i))
		}
		if !slices.Equal(have, want) || got.Type() != columns[0].Type() {
			t.Errorf("%v of %v, want %v", have, got.Type(), want)
		}
	}
	if _, err := Concat(numbers, width); !errors.Is(err, op.ErrOptions) {
		t.Error(err)
	}
	if c, err := Concat(); err != nil || c.Len() != 0 {
		t.Error(c, err)
	}
}
