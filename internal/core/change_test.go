package core_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

var errBroken = errors.New("broken")

// broken is a toy that fails where a test says so.
type broken struct {
	*toy
	counters int // the reading of the counters that fails, counted down; then all do
}

func (e *broken) Counters(ctx context.Context) (core.Counters, error) {
	if e.counters--; e.counters < 0 {
		return core.Counters{}, errBroken
	}
	return e.toy.Counters(ctx)
}

// What a change returns beside an error is what is known of it, and never a loss
// of pairs because the counters could not be read.
func TestCountersFail(t *testing.T) {
	s := mapShape[uint64, uint64]("map uint64 uint64", "")
	for good, want := range []int{0, 0, 2} { // before, behind a chunk, behind all
		table, e := newToy(openCPU(t), s.kind, s.widths, s.types)
		s.fill(t, table, 3)
		table.Engine = &broken{toy: e, counters: good}
		keys := []uint64{11, 12}
		delta, err := table.Change(t.Context(), "Put", &batch.Batch{N: 2, Kind: op.Put, Columns: columns(keys, keys)})
		if delta != want || !errors.Is(err, errBroken) || table.Len() != 3+want {
			t.Errorf("with %d readings that work: %d, %v, and Len is %d", good, delta, err, table.Len())
		}
	}
}
