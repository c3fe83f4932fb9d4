package core_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// bites is an engine that processes three operations per call and overflows for every fifth key.
// After some calls it fails.
type bites struct {
	core.Engine
	calls int
}

var errBite = errors.New("no more")

func (e *bites) Change(_ context.Context, _ *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if e.calls--; e.calls < 0 {
		return 0, nil, errBite
	}
	done = min(3, b.N)
	for i, k := range batch.View[uint32](b.Columns[batch.Keys].Host)[:done] {
		if k%5 == 0 {
			failed = append(failed, uint32(i))
		}
	}
	return done, failed, nil
}

// Rerun must run all operations, although the engine processes only some per call. Operations that
// do not run because of an error must count as failed.
func TestRerun(t *testing.T) {
	for calls, want := range map[int][]uint32{100: {0, 5, 10}, 2: {0, 5, 6, 7, 8, 9, 10}, 0: {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}} {
		b := &batch.Batch{N: 11, Columns: batch.Columns{batch.Keys: batch.Input([]uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10})}}
		still, err := core.Rerun(t.Context(), &bites{calls: calls}, b)
		if !slices.Equal(still, want) || errors.Is(err, errBite) != (calls < 4) {
			t.Errorf("%d calls: %v, want %v: %v", calls, still, want, err)
		}
	}
}
