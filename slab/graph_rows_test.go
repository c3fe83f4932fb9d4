package slab

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/op"
)

// TestPartialErrorInEdges checks the conversion of an error of arcs to an error of edges. An edge
// is done if all its arcs are, and failed once if any of its arcs failed.
func TestPartialErrorInEdges(t *testing.T) {
	edgeOf := func(arc int) int { return arc / 2 }
	for _, c := range []struct {
		done  int
		arcs  []int
		edges int
		rows  []int
	}{
		{10, []int{0, 1, 5, 8, 9}, 5, []int{0, 2, 4}},
		{9, []int{3, 8}, 4, []int{1}}, // only one arc of the last edge has been tried
		{0, nil, 0, nil},
	} {
		err := inEdges(fmt.Errorf("slab: Insert: %w", op.Partial(c.done, c.arcs, op.ErrFull)), 100, edgeOf)
		var p *weft.PartialError
		for i := range c.rows {
			c.rows[i] += 100
		}
		if !errors.As(err, &p) || p.Done != 100+c.edges || p.Failed != len(c.rows) || !slices.Equal(p.Rows, c.rows) {
			t.Errorf("%d arcs, %v failed: %+v, want %d and %v", c.done, c.arcs, p, 100+c.edges, c.rows)
		}
	}
	var p *weft.PartialError
	if err := inEdges(op.ErrClosed, 7, edgeOf); !errors.As(err, &p) || p.Done != 7 || !errors.Is(err, weft.ErrClosed) {
		t.Errorf("another error: %v", err)
	}
	if err := inEdges(nil, 7, edgeOf); err != nil {
		t.Error(err)
	}
}
