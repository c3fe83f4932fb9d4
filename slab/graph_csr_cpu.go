package slab

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
)

// exportRows implements graphEngine.
func (e *cpuGraph[V, SV]) exportRows(ctx context.Context, s *device.Stream, b *batch.Batch) (offsets device.Slice[uint64], err error) {
	if err := cpu.SyncStream(s); err != nil {
		return offsets, err
	}
	g := e.generation()
	entries := g.dict.entries()
	starts := make([]uint64, len(entries)+1)
	for u, v := range entries {
		starts[u+1] = starts[u] + uint64(v.degree)
	}
	rows := &batch.Batch{N: len(entries), Columns: batch.Columns{
		batch.Keys: batch.Input(sequence(0, len(entries))), batch.Offsets: batch.OffsetsIn(starts), batch.OutKeys: b.Columns[batch.OutKeys], batch.Vals: b.Columns[batch.Vals],
	}}
	if err := e.rows(ctx, s, g, rows); err != nil {
		return offsets, err
	}
	ids, weights := batch.View[uint32](b.Columns[batch.OutKeys].Host), batch.View[uint32](b.Columns[batch.Vals].Host)
	var limit atomic.Uint64 // largest vertex with an edge, plus 1
	e.Device.Parallel(len(entries), vertexGrain, func(lo, hi int) {
		end := uint64(0)
		var pairs []uint64
		for u := lo; u < hi; u++ {
			row := ids[starts[u]:starts[u+1]]
			if len(row) == 0 {
				continue
			}
			if weights == nil {
				slices.Sort(row)
			} else {
				pairs = sortRow(row, weights[starts[u]:starts[u+1]], pairs)
			}
			end = max(end, uint64(u)+1, uint64(row[len(row)-1])+1)
		}
		for old := limit.Load(); old < end && !limit.CompareAndSwap(old, end); old = limit.Load() {
		}
	})
	n := int(limit.Load())
	if offsets, err = device.Make[uint64](e.Device, n+1); err != nil {
		return offsets, err
	}
	to := offsets.Host()
	for i := copy(to, starts); i <= n; i++ {
		to[i] = uint64(b.N)
	}
	return offsets, ctx.Err()
}

// sortRow sorts a row and its weights together. It returns the buffer pairs for reuse.
func sortRow(row, weights []uint32, pairs []uint64) []uint64 {
	pairs = pairs[:0]
	for i, v := range row {
		pairs = append(pairs, uint64(v)<<32|uint64(weights[i]))
	}
	slices.Sort(pairs)
	for i, p := range pairs {
		row[i], weights[i] = uint32(p>>32), uint32(p)
	}
	return pairs
}
