package graph

import (
	"slices"
	"testing"
)

// A search without branches finds what one with them does.
func TestSearch(t *testing.T) {
	var ids []uint32
	for n := range 70 {
		for v := range uint32(3*n + 4) {
			want, _ := slices.BinarySearch(ids, v)
			if got := search(ids, v); got != want {
				t.Fatalf("%d among %v: at %d, want %d", v, ids, got, want)
			}
		}
		ids = append(ids, uint32(3*n+1))
	}
	ids = append(ids, 1<<32-1)
	if got := search(ids, 1<<32-1); got != len(ids)-1 {
		t.Errorf("the last one is at %d of %d", got, len(ids))
	}
}
