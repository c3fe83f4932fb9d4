package main

import (
	"slices"
	"testing"

	"github.com/weftgo/weft/device/cpu"
)

func Example() {
	main()
	// Output:
	// 1   9.50 Grace
	// 2  20.00 Ada
	// 3   3.00 -
	// 4   1.25 Grace
}

func TestJoin(t *testing.T) {
	dev, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, c := range []struct {
		name        string
		left, right []int64
		rows        []uint32
		found       []bool
	}{
		{"first of equal keys", []int64{5, 6}, []int64{6, 5, 5, 6}, []uint32{1, 0}, []bool{true, true}},
		{"no row", []int64{5}, []int64{6}, []uint32{0}, []bool{false}},
		{"nothing to join with", []int64{5}, nil, []uint32{0}, []bool{false}},
		{"nothing to join", nil, []int64{6}, nil, nil},
	} {
		rows, found, err := join(t.Context(), dev, c.left, c.right)
		if err != nil || !slices.Equal(rows, c.rows) || !slices.Equal(found, c.found) {
			t.Errorf("%s: %v, %v, %v", c.name, rows, found, err)
		}
	}
}
