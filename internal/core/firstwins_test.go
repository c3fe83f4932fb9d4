package core_test

import (
	"context"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// tardy is a toy that has no room for the first operations of a batch but room for later ones. That
// happens when concurrent operations of a launch return slabs.
type tardy struct {
	*toy
	refuses int
}

func (e *tardy) Flags(op.Kind) batch.Flags { return batch.Order }

func (e *tardy) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	n := min(e.refuses, b.N)
	e.refuses -= n
	_, failed, err = e.toy.Change(ctx, s, b.Chunk(n, b.N))
	for i := range failed {
		failed[i] += uint32(n)
	}
	return b.N, append(core.AllRows(n), failed...), err
}

func (e *tardy) Retry(ctx context.Context, _ core.Counters, b *batch.Batch) ([]uint32, bool, error) {
	still, err := core.Rerun(ctx, e, b)
	return still, true, err
}

// The first operation on a key must count as the insertion, even if it overflowed at first and a
// later operation did not.
func TestFirstWins(t *testing.T) {
	for name, tt := range map[string]struct {
		kind    op.Kind
		untold  bool
		refuses int
		values  []uint64 // of the keys 1 to 4
		flags   []bool
	}{
		"PutNew":                  {op.PutNew, false, 3, []uint64{10, 20, 30, 50}, []bool{true, true, true, false, true, false, false}},
		"PutNew, untold":          {op.PutNew, true, 3, []uint64{10, 20, 30, 50}, nil},
		"PutNew, all late":        {op.PutNew, false, 7, []uint64{10, 20, 30, 50}, []bool{true, true, true, false, true, false, false}},
		"PutNew, the first is in": {op.PutNew, false, 1, []uint64{10, 20, 30, 50}, []bool{true, true, true, false, true, false, false}},
		"Put":                     {op.Put, false, 3, []uint64{40, 70, 30, 60}, []bool{true, true, true, false, true, false, false}},
		"Put, all late":           {op.Put, false, 7, []uint64{40, 70, 30, 60}, []bool{true, true, true, false, true, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			w := batch.MapWidths[uint64, uint64]()
			table, e := newToy(openCPU(t), core.Map, w, core.MapTypes[uint64, uint64]())
			l := &tardy{e, tt.refuses}
			table.Engine, table.Policy = l, l
			flags := make([]bool, 7)
			b := &batch.Batch{N: 7, Kind: tt.kind, Columns: batch.Columns{
				batch.Keys: batch.Input([]uint64{1, 2, 3, 1, 4, 4, 2}), batch.Vals: batch.Input([]uint64{10, 20, 30, 40, 50, 60, 70}),
			}}
			if !tt.untold {
				b.Columns[batch.OK] = batch.Output(flags)
			}
			n, err := table.Change(t.Context(), "Change", b)
			if n != 4 || err != nil || !tt.untold && !slices.Equal(flags, tt.flags) {
				t.Errorf("%d inserted: %v, want %v: %v", n, flags, tt.flags, err)
			}
			for k, want := range tt.values {
				if got := e.pairs(e.leases.Current()).vals[uint64(k)+1]; !slices.Equal(got, []uint64{want}) {
					t.Errorf("key %d has %d, want %d", k+1, got, want)
				}
			}
		})
	}
}
