package beam

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
)

// piecesOf returns the pieces of a block for each partition.
func piecesOf(t *testing.T, plan groupPlan, c ...column.Column) map[int][][]byte {
	t.Helper()
	if err := plan.set(&Options{Parts: 2}); err != nil {
		t.Fatal(err)
	}
	pieces := map[int][][]byte{}
	f := &partialGroups{Plan: plan}
	runBundle(t, f, must(EncodeColumns([]string{"k", "v"}, c))(t), true,
		func(part int, b []byte) { pieces[part] = append(pieces[part], b) })
	return pieces
}

// A piece that is damaged, truncated, too long, or from other groups is an error. A bundle without
// groups emits one piece.
func TestPieces(t *testing.T) {
	plan := groupPlan{Keys: []string{"k"}, Values: []string{"v"},
		Aggs: []group.Aggregate{{Func: group.Sum}}}
	numbers := column.Of([]int64{1, 2, 3})
	merge := func(pieces ...[]byte) error {
		return (&mergedGroups{Plan: plan}).ProcessElement(t.Context(), 0, iterate(pieces),
			func([]byte) {})
	}
	piece := piecesOf(t, plan, numbers, numbers)[0][0]
	none := piecesOf(t, plan, numbers.Slice(0, 0), numbers.Slice(0, 0))
	if len(none) != 1 || len(none[0]) != 1 {
		t.Fatalf("pieces without groups: %v", none)
	}
	if err := merge(none[0][0], piece, none[0][0], piece); err != nil {
		t.Fatal(err)
	}
	_, groups, err := cutPiece(piece)
	if err != nil {
		t.Fatal(err)
	}
	for i := range piece {
		if err := merge(piece[:i]); !errors.Is(err, weft.ErrFormat) {
			t.Fatalf("the first %d of %d bytes: %v", i, len(piece), err)
		}
		if i < len(piece)-len(groups) {
			continue
		}
		b := bytes.Clone(piece)
		b[i] ^= 1
		if err := merge(b); !errors.Is(err, weft.ErrFormat) {
			t.Fatalf("byte %d is damaged: %v", i, err)
		}
	}
	if err := merge(slices.Concat(piece, groups)); !errors.Is(err, weft.ErrFormat) {
		t.Errorf("a piece that goes on: %v", err)
	}
	short := column.Of([]int32{1, 2, 3})
	if err := merge(piece, piecesOf(t, plan, short, numbers)[0][0]); !errors.Is(err,
		weft.ErrOptions) {
		t.Errorf("a piece of other keys: %v", err)
	}
	plan.Aggs = append(plan.Aggs, group.Aggregate{Func: group.Rows})
	if err := merge(piece); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("a piece of other aggregates: %v", err)
	}
}
