package slab

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/triangles"
)

// triangles counts triangles. The caller holds the writer lock. It reads all rows and keeps each
// edge only at its end of smaller degree. A kernel then looks up an edge between any two neighbors
// left in a row.
func (e *gpuGraph) triangles(ctx context.Context) (count uint64, err error) {
	rows, err := e.allRows(ctx)
	if err != nil || rows.Neighbors.Len() == 0 {
		return 0, errors.Join(err, e.Stream.Sync(context.Background()), rows.Free())
	}
	k, err := triangles.Load(e.Dev)
	var view triangles.Rows
	if err == nil {
		view, err = k.Orient(ctx, e.Stream, rows)
	}
	if err == nil {
		count, err = e.countClosed(ctx, view)
	}
	return count, errors.Join(err, e.Stream.Sync(context.Background()), rows.Free(), view.Free())
}

// allRows reads the rows of all vertices. The neighbors are in no order.
func (e *gpuGraph) allRows(ctx context.Context) (rows triangles.Rows, err error) {
	s, n := e.Stream, e.dict().n
	degrees, err := device.Make[uint32](e.Dev, n)
	if err != nil {
		return rows, err
	}
	defer func() { err = errors.Join(err, s.Sync(context.Background()), degrees.Free()) }()
	if rows.Offsets, err = device.Make[uint64](e.Dev, n+1); err != nil {
		return rows, err
	}
	p := rowsParams{graph: graphRefOf(e.Parts(), false), degrees: degrees.Ptr(), offsets: rows.Offsets.Ptr(), n: uint32(n)}
	if err := launchNonempty(s, e.graph.degrees, gpu.Wave(e.Dev, n), n, &p); err != nil {
		return rows, err
	}
	if err := e.Offsets(s, p.degrees, p.offsets, n); err != nil {
		return rows, err
	}
	var arcs [1]uint64
	if err := rows.Offsets.Sub(n, n+1).CopyTo(ctx, s, arcs[:]); err != nil {
		return rows, err
	}
	if rows.Neighbors, err = device.Make[uint32](e.Dev, int(arcs[0])); err != nil {
		return rows, err
	}
	p.ids, p.limit = rows.Neighbors.Ptr(), arcs[0]
	return rows, launchNonempty(s, e.graph.rows, gpu.Wave(e.Dev, 32*n), n, &p)
}

// countClosed counts, over all rows of a view, the pairs of neighbors that an edge connects.
func (e *gpuGraph) countClosed(ctx context.Context, view triangles.Rows) (uint64, error) {
	var count [1]uint64
	to, err := device.Upload(e.Stream, count[:])
	if err != nil {
		return 0, err
	}
	arcs := view.Neighbors.Len()
	p := closeParams{
		graph: graphRefOf(e.Parts(), false), offsets: view.Offsets.Ptr(), neighbors: view.Neighbors.Ptr(), closed: to.Ptr(),
		vertices: uint32(view.Offsets.Len() - 1), arcs: uint32(arcs),
	}
	if err = launchNonempty(e.Stream, e.graph.close, gpu.Wave(e.Dev, arcs), arcs, &p); err == nil {
		err = to.CopyTo(ctx, e.Stream, count[:])
	}
	if err != nil {
		err = errors.Join(err, e.Stream.Sync(context.Background()))
	}
	return count[0], errors.Join(err, to.Free())
}
