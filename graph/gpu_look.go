package graph

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/gpu/staging"
)

// find implements engine.
func (e *gpuEngine) find(ctx context.Context, s *device.Stream, v *view, b *batch.Batch, count device.Ptr) (uint64, error) {
	launch := func(s *device.Stream, b *batch.Batch, hits device.Ptr) error {
		p := findParams{
			graph: refOf(v), from: b.Columns[batch.Keys].Ptr, to: b.Columns[batch.Keys2].Ptr,
			weights: b.Columns[batch.Vals].Ptr, ok: b.Columns[batch.OK].Ptr, hits: hits, n: uint64(b.N),
		}
		return launchAfterChanges(e, s, e.findKernel, b.N, &p)
	}
	if s != nil {
		return 0, launch(s, b, count)
	}
	_, hits, err := e.LookupPieces(ctx, b, launch)
	return uint64(hits), err
}

// launchAfterChanges makes s wait for all changes and launches a kernel.
func launchAfterChanges[P any](e *gpuEngine, s *device.Stream, k device.Kernel, threads int, p *P) error {
	if threads == 0 {
		return nil
	}
	if err := s.Wait(e.LastChange()); err != nil {
		return err
	}
	return device.Launch(s, k, gpu.Wave(e.Dev, threads), gpu.Block, p)
}

// degrees implements engine.
func (e *gpuEngine) degrees(ctx context.Context, s *device.Stream, v *view, b *batch.Batch) error {
	launch := func(s *device.Stream, b *batch.Batch, first int) error {
		p := rowsParams{graph: refOf(v), vertices: b.Columns[batch.Keys].Ptr, degrees: b.Columns[batch.Counts].Ptr, n: uint32(b.N), first: uint32(first)}
		return launchAfterChanges(e, s, e.degreesKernel, b.N, &p)
	}
	if s != nil {
		return launch(s, b, 0)
	}
	c, err := e.AcquireTransfer()
	if err != nil {
		return err
	}
	defer e.ReleaseTransfer(c)
	_, err = c.Ring.Run(ctx, b, func(p *staging.Piece) error { return launch(p.Stream, p.Batch, p.Lo) })
	return err
}

// offsets implements engine.
func (e *gpuEngine) offsets(s *device.Stream, b *batch.Batch) error {
	return e.Offsets(s, b.Columns[batch.Counts].Ptr, b.Columns[batch.Offsets].Ptr, b.N)
}

// copyEntries is the maximum number of row entries that are copied to the host at a time. A longer
// row is copied as a whole.
const copyEntries = 1 << 22

// rows implements engine.
func (e *gpuEngine) rows(ctx context.Context, s *device.Stream, v *view, b *batch.Batch) error {
	if s != nil {
		out := &b.Columns[batch.OutKeys]
		return e.rowsTo(s, v, b, 0, out.Rows())
	}
	offsets := batch.View[uint64](b.Columns[batch.Offsets].Host)
	return e.WithTransfer(func(_ *gpu.Transfer, s *device.Stream) error {
		for lo, hi := 0, 0; lo < b.N; lo = hi {
			for hi = lo + 1; hi < b.N && offsets[hi+1]-offsets[lo] <= copyEntries && hi-lo < copyEntries; {
				hi++
			}
			if err := e.copyRows(ctx, s, v, b, lo, hi); err != nil {
				return err
			}
		}
		return nil
	})
}

// rowsTo submits a kernel that writes rows to columns in device memory, which have room for limit
// entries. If the batch has no Keys, its vertices are first, first+1 and so on.
func (e *gpuEngine) rowsTo(s *device.Stream, v *view, b *batch.Batch, first, limit int) error {
	p := rowsParams{
		graph: refOf(v), vertices: b.Columns[batch.Keys].Ptr, offsets: b.Columns[batch.Offsets].Ptr,
		ids: b.Columns[batch.OutKeys].Ptr, weights: b.Columns[batch.Vals].Ptr, limit: uint64(limit), n: uint32(b.N), first: uint32(first),
	}
	return launchAfterChanges(e, s, e.rowsKernel, max(b.N, min(limit, 1<<20)), &p)
}

// copyRows copies rows lo to hi-1 of a batch to host memory.
func (e *gpuEngine) copyRows(ctx context.Context, s *device.Stream, v *view, b *batch.Batch, lo, hi int) error {
	all := batch.View[uint64](b.Columns[batch.Offsets].Host)
	first, n := all[lo], int(all[hi]-all[lo])
	if n == 0 {
		return nil
	}
	offsets := make([]uint64, hi-lo+1)
	for i := range offsets {
		offsets[i] = all[lo+i] - first
	}
	var c prim.Carve
	offsetsAt, idsAt, keysAt := c.Alloc(8*len(offsets)), c.Alloc(4*n), c.Alloc(4*(hi-lo))
	valsAt := c.Alloc(max(1, n*v.weight))
	buf, err := e.Dev.Alloc(int(c))
	if err != nil {
		return err
	}
	part := &batch.Batch{N: hi - lo}
	column := func(at device.Ptr) batch.Column { return batch.Column{Ptr: buf.Ptr + at} }
	part.Columns[batch.Offsets], part.Columns[batch.OutKeys] = column(offsetsAt), column(idsAt)
	err = s.CopyIn(buf.Ptr+offsetsAt, device.Bytes(offsets))
	if keys := b.Columns[batch.Keys].Host; err == nil && keys != nil {
		part.Columns[batch.Keys] = column(keysAt)
		err = s.CopyIn(buf.Ptr+keysAt, keys[4*lo:4*hi])
	}
	vals := b.Columns[batch.Vals].Host
	if len(vals) > 0 {
		part.Columns[batch.Vals] = column(valsAt)
	}
	if err == nil {
		err = e.rowsTo(s, v, part, lo, n)
	}
	if err == nil {
		err = s.CopyOut(ctx, b.Columns[batch.OutKeys].Host[4*first:4*all[hi]], buf.Ptr+idsAt)
	}
	if err == nil && len(vals) > 0 {
		w := uint64(v.weight)
		err = s.CopyOut(ctx, vals[w*first:w*all[hi]], buf.Ptr+valsAt)
	}
	if err != nil {
		err = errors.Join(err, s.Sync(context.Background()))
	}
	return errors.Join(err, e.Dev.Free(buf))
}
