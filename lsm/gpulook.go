package lsm

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/staging"
	"github.com/weftgo/weft/internal/op"
)

// Look is for [core.Engine].
func (e *gpuEngine) Look(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, count device.Ptr) (done, hits int, err error) {
	if b.N == 0 {
		return 0, 0, nil
	}
	if s != nil {
		return b.N, 0, e.look(s, l.Parts, b, count)
	}
	return e.LookPieces(ctx, b, func(s *device.Stream, b *batch.Batch, hits device.Ptr) error { return e.look(s, l.Parts, b, hits) })
}

// look submits a lookup, behind the changes that callers have submitted: the last one may be
// about to write a level.
func (e *gpuEngine) look(s *device.Stream, p core.Parts, b *batch.Batch, hits device.Ptr) error {
	if err := s.Wait(e.Visible); err != nil {
		return err
	}
	c := &b.Columns
	q := seekParams{
		levels: e.levelsOf(p), lo: c[batch.Keys].Ptr, hi: c[batch.Keys2].Ptr, keys: c[batch.OutKeys].Ptr, vals: c[batch.Vals].Ptr,
		ok: c[batch.OK].Ptr, ranks: c[batch.Ranks].Ptr, counts: c[batch.Counts].Ptr, hits: hits,
		n: uint64(b.N), bounds: boundsOf(b.Ranges), kind: uint32(b.Kind),
	}
	return device.Launch(s, e.kernelFor(b), gpu.Wave(e.Dev, b.N), gpu.Block, &q)
}

// kernelFor is the kernel of a lookup.
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

// Expand is for [core.Expander].
func (e *gpuEngine) Expand(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch) error {
	if s != nil {
		return e.expandOn(s, l, b)
	}
	many := func(p *staging.Piece) error {
		vals := &p.Batch.Columns[batch.Vals]
		return e.writeRows(p.Stream, l.Parts, p.Batch, vals.Offsets[0], vals.Offsets[p.Batch.N])
	}
	return e.ExpandRanges(ctx, b, many, func(c *gpu.Carrier, b *batch.Batch) error { return e.expandLarge(ctx, c, l, b) })
}

// writeRows submits writing the pairs of ranges to rows [first,limit), of which the first is
// where the columns begin.
func (e *gpuEngine) writeRows(s *device.Stream, parts core.Parts, b *batch.Batch, first, limit uint64) error {
	c := &b.Columns
	p := rowsParams{
		levels: e.levelsOf(parts), lo: c[batch.Keys].Ptr, hi: c[batch.Keys2].Ptr, offsets: c[batch.Offsets].Ptr,
		keys: c[batch.OutKeys].Ptr, vals: c[batch.Vals].Ptr, found: c[batch.Counts].Ptr,
		n: uint64(b.N), first: first, limit: limit, bounds: boundsOf(b.Ranges),
	}
	return device.Launch(s, e.rows, gpu.Wave(e.Dev, b.N), gpu.Block, &p)
}

// expandLarge fetches the pairs of one range, of neighboring ranks.
func (e *gpuEngine) expandLarge(ctx context.Context, c *gpu.Carrier, l *core.Lease, b *batch.Batch) error {
	part, from, err := gpu.LargeRange(b, func(b *batch.Batch) error {
		_, _, err := e.Look(ctx, nil, l, b, 0)
		return err
	})
	if err != nil {
		return err
	}
	p := copyParams{levels: e.levelsOf(l.Parts), from: from}
	if b.Backward {
		p.backward = 1
	}
	return e.carry(ctx, c, part, batch.OutKeys, &p)
}

// expandOn counts, adds up and writes: no copy, no wait.
func (e *gpuEngine) expandOn(s *device.Stream, l *core.Lease, b *batch.Batch) error {
	c := &b.Columns
	if b.N == 0 {
		return s.Fill(c[batch.Offsets].Ptr, 0, 2)
	}
	count := &batch.Batch{N: b.N, Ranges: b.Ranges}
	count.Columns[batch.Keys], count.Columns[batch.Keys2], count.Columns[batch.Counts] = c[batch.Keys], c[batch.Keys2], c[batch.Counts]
	if err := e.look(s, l.Parts, count, 0); err != nil {
		return err
	}
	if err := e.Offsets(s, c[batch.Counts].Ptr, c[batch.Offsets].Ptr, b.N); err != nil {
		return err
	}
	return e.writeRows(s, l.Parts, b, 0, uint64(c[batch.Vals].Rows()))
}
