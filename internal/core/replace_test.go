package core_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

type ending struct {
	context.Context
	left int
}

func (c *ending) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// Wherever a context ends, the error must contain the number of rows run. Present keys among these
// rows must have new values, and absent keys must stay absent.
func TestReplaceUpToAnEnd(t *testing.T) {
	s := mapShape[uint64, uint64]("map uint64 uint64", "")
	keys := []uint64{1, 100, 2, 101, 102, 3, 4, 103}
	const absent = 100
	for left := 0; ; left++ {
		table := s.open(t)
		s.readFull(t, table, 4)
		vals, found := make([]uint64, len(keys)), make([]bool, len(keys))
		for i := range vals {
			vals[i] = 1000 + uint64(i)
		}
		n, err := table.Replace(&ending{t.Context(), left}, "Update", &batch.Batch{N: len(keys), Kind: op.Put, Columns: batch.Columns{
			batch.Keys: batch.Input(keys), batch.Vals: batch.Input(vals), batch.OK: batch.Output(found),
		}})
		done := len(keys)
		var p *op.PartialError
		if errors.As(err, &p) {
			done = p.Done
		}
		got, there := numbersOf(t, table), 0
		for i, k := range keys {
			want := 10 * k
			if i < done {
				want = vals[i]
			}
			if k < absent && got[k] != want || k >= absent && got[k] != 0 || found[i] != (k < absent && i < done) {
				t.Fatalf("end at look %d, %d rows done: key %d has %d, want %d, found %v", left, done, k, got[k], want, found[i])
			}
			if found[i] {
				there++
			}
		}
		if n != there || table.Len() != 4 {
			t.Fatalf("end at look %d: %d pairs replaced, want %d, Len %d", left, n, there, table.Len())
		}
		if err == nil {
			if done != len(keys) || left < len(keys) {
				t.Errorf("%d rows done, after %d looks", done, left)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}

func numbersOf(t *testing.T, table *core.Table) map[uint64]uint64 {
	t.Helper()
	all := map[uint64]uint64{}
	err := table.Pages(t.Context(), "Pages", nil, func(p *core.Page) bool {
		for i, k := range batch.View[uint64](p.Keys.Host)[:p.N] {
			all[k] = batch.View[uint64](slices.Clone(p.Vals.Host))[i]
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
