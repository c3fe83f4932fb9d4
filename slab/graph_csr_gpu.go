package slab

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/op"
)

// exportRows implements graphEngine. It copies the arcs and sorts them by target, then by source.
func (e *gpuGraph) exportRows(ctx context.Context, s *device.Stream, b *batch.Batch) (offsets device.Slice[uint64], err error) {
	if b.N == 0 {
		if offsets, err = device.Make[uint64](e.Dev, 1); err == nil {
			err = inOrder(func() error { return s.Fill(offsets.Ptr(), 0, 2) }, func() error { return s.Sync(ctx) })
		}
		return offsets, err
	}
	if err := e.columns.loadKernels(); err != nil {
		return offsets, err
	}
	if b.N > prim.MaxRows {
		return offsets, fmt.Errorf("%w: %d arcs to be sorted; a GPU sorts up to %d", device.ErrUnsupported, b.N, prim.MaxRows)
	}
	a := arcSorter{gpuGraph: e, s: s, n: b.N, weights: b.Columns[batch.Vals].Ptr}
	width := 0
	if a.weights != 0 {
		width = 4
	}
	sort := func(lo, vertices int) prim.Sort {
		return prim.Sort{Widths: prim.Widths{Key: 8, Val: width}, N: b.N, Lo: lo, Hi: lo + max(1, bits.Len(uint(vertices-1)))}
	}
	a.byTarget, a.bySource = sort(0, e.maxVertices), sort(32, e.dict().n)
	size := max(a.byTarget.ScratchBytes(), a.bySource.ScratchBytes())
	var at prim.Carve
	count, arcs, scratch := at.Alloc(8), at.Alloc(8*b.N), at.Alloc(size)
	memory, err := e.Dev.Alloc(int(at))
	if err != nil {
		return offsets, fmt.Errorf("memory to sort %d arcs: %w", b.N, err)
	}
	a.count, a.arcs, a.scratch = memory.Ptr+count, memory.Ptr+arcs, device.Buffer{Ptr: memory.Ptr + scratch, Size: size}
	offsets, err = a.run(ctx, b.Columns[batch.OutKeys].Ptr)
	return offsets, errors.Join(err, s.Sync(context.WithoutCancel(ctx)), e.Dev.Free(memory))
}

// arcSorter holds arcs while they are sorted.
type arcSorter struct {
	*gpuGraph
	s                  *device.Stream
	n                  int
	byTarget, bySource prim.Sort
	count              device.Ptr // number of arcs copied
	arcs               device.Ptr
	weights            device.Ptr // may be null
	scratch            device.Buffer
}

func (a *arcSorter) run(ctx context.Context, targets device.Ptr) (offsets device.Slice[uint64], err error) {
	g := a.generation()
	p := graphExportParams{table: graphRefOf(g, false), to: gpu.Export{Keys: a.arcs, Vals: a.weights, Count: a.count, Rows: uint64(a.n), Hi: g.buckets, Step: 1}}
	err = inOrder(
		func() error { return a.s.Fill(a.count, 0, 2) },
		func() error { return device.Launch(a.s, a.graph.export, tiles(a.Dev, g.buckets), gpu.Block, &p) })
	if err != nil {
		return offsets, err
	}
	var found [1]uint64
	if err := a.s.CopyOut(ctx, device.Bytes(found[:]), a.count); err != nil {
		return offsets, err
	}
	if found[0] != uint64(a.n) {
		return offsets, fmt.Errorf("%w: %d arcs in the tables, but %d by their counts",
			op.ErrCorrupt, found[0], a.n)
	}
	last, err := a.sortArcs(ctx, &a.byTarget)
	if err != nil {
		return offsets, err
	}
	vertices := uint32(last) + 1
	if last, err = a.sortArcs(ctx, &a.bySource); err != nil {
		return offsets, err
	}
	vertices = max(vertices, uint32(last>>32)+1)
	t := targetsParams{arcs: a.arcs, to: targets, n: uint64(a.n)}
	if err := device.Launch(a.s, a.columns.targets, gpu.Wave(a.Dev, a.n), gpu.Block, &t); err != nil {
		return offsets, err
	}
	return a.rowOffsets(int(vertices))
}

// sortArcs sorts the arcs and returns the last one.
func (a *arcSorter) sortArcs(ctx context.Context, order *prim.Sort) (uint64, error) {
	order.From, order.To = prim.Rows{Keys: a.arcs, Vals: a.weights}, prim.Rows{Keys: a.arcs, Vals: a.weights}
	var last [1]uint64
	err := inOrder(
		func() error { return a.columns.prim.Sort(a.s, order, a.scratch) },
		func() error { return a.s.CopyOut(ctx, device.Bytes(last[:]), a.arcs+device.Ptr(8*(a.n-1))) })
	return last[0], err
}

// rowOffsets returns the offsets of the rows of the given vertices.
func (a *arcSorter) rowOffsets(vertices int) (offsets device.Slice[uint64], err error) {
	degrees, err := device.Make[uint32](a.Dev, vertices)
	if err != nil {
		return offsets, err
	}
	if offsets, err = device.Make[uint64](a.Dev, vertices+1); err == nil {
		p := rowsParams{graph: graphRefOf(a.generation(), false), degrees: degrees.Ptr(), n: uint32(vertices)}
		err = inOrder(
			func() error { return device.Launch(a.s, a.graph.degrees, gpu.Wave(a.Dev, vertices), gpu.Block, &p) },
			func() error { return a.Offsets(a.s, degrees.Ptr(), offsets.Ptr(), vertices) })
	}
	return offsets, errors.Join(err, a.s.Sync(context.Background()), degrees.Free())
}
