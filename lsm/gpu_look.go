package lsm

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
)

// Lookup implements core.Engine.
func (e *gpuEngine) Lookup(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, count device.Ptr) (done, hits int, err error) {
	return e.Queue.Seek(ctx, s, l, b, count, e)
}

// Expand implements core.Expander.
func (e *gpuEngine) Expand(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch) error {
	return e.SeekRows(ctx, s, l, b, e)
}

// Seek implements gpu.Seeker.
func (e *gpuEngine) Seek(s *device.Stream, p core.Parts, b *batch.Batch, hits device.Ptr) error {
	c := &b.Columns
	q := seekParams{
		levels: e.levelsOf(p), lo: c[batch.Keys].Ptr, hi: c[batch.Keys2].Ptr, keys: c[batch.OutKeys].Ptr, vals: c[batch.Vals].Ptr,
		ok: c[batch.OK].Ptr, ranks: c[batch.Ranks].Ptr, counts: c[batch.Counts].Ptr, hits: hits,
		n: uint64(b.N), bounds: boundsOf(b.Ranges), kind: uint32(b.Kind),
	}
	return device.Launch(s, e.kernelFor(b), gpu.Wave(e.Dev, b.N), gpu.Block, &q)
}

func (e *gpuEngine) kernelFor(b *batch.Batch) device.Kernel {
	c := &b.Columns
	switch ranges := c[batch.Keys2].Given(); {
	case ranges && c[batch.OutKeys].Given(), b.Kind == op.Successor, b.Kind == op.Predecessor:
		return e.walk
	case ranges, b.Kind == op.Rank, b.Kind == op.Select:
		return e.seek
	}
	return e.get
}

func boundsOf(r batch.Ranges) boundsRef {
	b := boundsRef{limit: uint32(min(r.Limit, 1<<32-1))}
	if r.Backward {
		b.backward = 1
	}
	return b
}

// WriteRows implements gpu.Seeker.
func (e *gpuEngine) WriteRows(s *device.Stream, parts core.Parts, b *batch.Batch, first, limit uint64) error {
	c := &b.Columns
	p := rowsParams{
		levels: e.levelsOf(parts), lo: c[batch.Keys].Ptr, hi: c[batch.Keys2].Ptr, offsets: c[batch.Offsets].Ptr,
		keys: c[batch.OutKeys].Ptr, vals: c[batch.Vals].Ptr, found: c[batch.Counts].Ptr,
		n: uint64(b.N), first: first, limit: limit, bounds: boundsOf(b.Ranges),
	}
	return device.Launch(s, e.rows, gpu.Wave(e.Dev, b.N), gpu.Block, &p)
}

// WritePairs implements gpu.Seeker.
func (e *gpuEngine) WritePairs(s *device.Stream, parts core.Parts, keys, vals device.Ptr, from uint64, n int, backward bool) error {
	p := copyParams{levels: e.levelsOf(parts), keys: keys, vals: vals, from: from, n: uint64(n)}
	if backward {
		p.backward = 1
	}
	return e.launchCopy(s, &p)
}
