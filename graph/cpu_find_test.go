package graph

import (
	"slices"
	"testing"
)

// TestUpperBound compares upperBound with a search that has branches, with parallel edges, too.
func TestUpperBound(t *testing.T) {
	var ids []uint32
	for n := range 70 {
		for v := range uint32(3*n + 4) {
			want, _ := slices.BinarySearch(ids, v+1)
			if got := upperBound(ids, v); got != want {
				t.Fatalf("%d among %v: behind %d, want %d", v, ids, got, want)
			}
		}
		for range n%3 + 1 {
			ids = append(ids, uint32(3*n+1))
		}
	}
	ids = append(ids, 1<<32-1)
	if got := upperBound(ids, 1<<32-1); got != len(ids) {
		t.Errorf("the last one is before %d of %d", got, len(ids))
	}
}
