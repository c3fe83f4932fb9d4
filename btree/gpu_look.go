package btree

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/staging"
	"github.com/weftgo/weft/internal/op"
)

// Lookup implements core.Engine.
func (e *gpuEngine) Lookup(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, count device.Ptr) (done, hits int, err error) {
	if b.N == 0 {
		return 0, 0, nil
	}
	t := l.Parts.(*tree)
	if s != nil {
		return b.N, 0, e.look(s, t, b, count)
	}
	c, err := e.AcquireTransfer()
	if err != nil {
		return 0, 0, err
	}
	defer e.ReleaseTransfer(c)
	work, err := c.Ring.Work()
	if err == nil {
		err = work.Fill(c.Hits.Ptr(), 0, 2)
	}
	if err != nil {
		return 0, 0, err
	}
	done, err = c.Ring.Run(ctx, b, func(p *staging.Piece) error { return e.look(p.Stream, t, p.Batch, c.Hits.Ptr()) })
	var n [1]uint64
	cerr := work.CopyOut(context.WithoutCancel(ctx), device.Bytes(n[:]), c.Hits.Ptr())
	return done, int(n[0]), errors.Join(err, cerr)
}

// look submits a lookup of a batch on the device.
func (e *gpuEngine) look(s *device.Stream, t *tree, b *batch.Batch, hits device.Ptr) error {
	ranges := b.Columns[batch.Keys2].Given()
	switch {
	case !ranges && b.Kind == op.Get:
		if err := s.Wait(e.Visible); err != nil {
			return err
		}
		return e.find(s, t, b, getParams{hits: hits})
	case ranges && b.Columns[batch.OutKeys].Given(), b.Kind == op.Successor, b.Kind == op.Predecessor:
		return e.submitOrdered(s, func() error { return e.walk(s, t, b, hits) })
	}
	return e.submitOrdered(s, func() error { return e.launchPlaces(s, t, b, hits) })
}

// topKeys is the minimum size of batches for which blocks first read the levels below the root. In
// smaller batches, a block would read more there than its searches save. Tests make it smaller.
var topKeys = 1 << 18

// getBlocks is the number of blocks per multiprocessor in a lookup. All blocks run at the same time
// (btree.cu).
const getBlocks = 5

func (e *gpuEngine) find(s *device.Stream, t *tree, b *batch.Batch, p getParams) error {
	c := &b.Columns
	p.tree, p.keys, p.vals, p.found, p.n = e.refOf(t), c[batch.Keys].Ptr, c[batch.Vals].Ptr, c[batch.OK].Ptr, uint64(b.N)
	return e.launchGet(s, t, b.N, &p, b.Version)
}

// launchGet launches the lookup of keys as of the given time, or in the present if time is 0. If
// kernels may take snapshots, the launched kernel sets the time of each change that it reads and
// that has no time yet.
func (e *gpuEngine) launchGet(s *device.Stream, t *tree, n int, p *getParams, time uint64) error {
	if time != 0 {
		params := thenGetParams{
			tree: p.tree, past: t.readRef(), time: time, keys: p.keys, vals: p.vals, found: p.found, hits: p.hits, count: p.count,
			n: p.n, answer: uint64(p.answer),
		}
		return device.Launch(s, e.thenGet, gpu.Wave(e.Dev, n*e.node/32), gpu.Block, &params)
	}
	threads := n
	if n <= gpu.MaxTiledKeys {
		p.spread, threads = 1, n*e.node/32
	}
	if n >= topKeys {
		p.top = 1
	}
	grid := gpu.Resident(e.Dev, threads, getBlocks)
	if t != nil && t.past != nil && e.versions == OutOfPlace {
		return device.Launch(s, e.nowGet, grid, gpu.Block, &nowGetParams{get: *p, past: t.readRef()})
	}
	return device.Launch(s, e.get, grid, gpu.Block, p)
}

// walk submits the kernel that finds neighbors of keys, or the first pairs of ranges.
func (e *gpuEngine) walk(s *device.Stream, t *tree, b *batch.Batch, hits device.Ptr) error {
	c := &b.Columns
	p := seekParams{
		tree: e.refOf(t), lo: c[batch.Keys].Ptr, hi: c[batch.Keys2].Ptr, keys: c[batch.OutKeys].Ptr, vals: c[batch.Vals].Ptr,
		ok: c[batch.OK].Ptr, counts: c[batch.Counts].Ptr, hits: hits, n: uint64(b.N), bounds: boundsOf(b.Ranges), kind: uint32(b.Kind),
	}
	grid := gpu.Wave(e.Dev, b.N*e.node/32)
	if b.Version == 0 {
		return device.Launch(s, e.seek, grid, gpu.Block, &p)
	}
	params := thenSeekParams{seek: p, past: t.readRef(), time: b.Version}
	return device.Launch(s, e.thenSeek, grid, gpu.Block, &params)
}

// launchPlaces submits the kernel of Rank, Count and Select.
func (e *gpuEngine) launchPlaces(s *device.Stream, t *tree, b *batch.Batch, hits device.Ptr) error {
	if err := e.listLeaves(s, t, b.Version); err != nil {
		return err
	}
	c := &b.Columns
	p := placeParams{
		tree: e.refOf(t), order: t.orderRef(b.Version), lo: c[batch.Keys].Ptr, hi: c[batch.Keys2].Ptr, keys: c[batch.OutKeys].Ptr,
		vals: c[batch.Vals].Ptr, ok: c[batch.OK].Ptr, ranks: c[batch.Ranks].Ptr, counts: c[batch.Counts].Ptr, hits: hits,
		n: uint64(b.N), bounds: boundsOf(b.Ranges), kind: uint32(b.Kind),
	}
	return device.Launch(s, e.places, gpu.Wave(e.Dev, b.N), gpu.Block, &p)
}

func boundsOf(r batch.Ranges) boundsRef {
	b := boundsRef{limit: uint32(min(r.Limit, 1<<32-1))}
	if r.Backward {
		b.backward = 1
	}
	return b
}

// Answer implements core.Answerer.
func (e *gpuEngine) Answer(_ context.Context, s *device.Stream, b *batch.Batch) error {
	if b.N == 0 {
		return nil
	}
	return e.submitOrdered(s, func() error { return e.find(s, e.current(), b, getParams{answer: 1}) })
}

// unitPairs is the number of pairs in a unit. Extent counts units, and Export copies whole units.
const unitPairs = 1 << 10

// Extent implements core.Engine. The counters must have been read since the last change.
func (e *gpuEngine) Extent(l *core.Lease) (units uint32, rows int) {
	return uint32((e.pairsAt(l.Parts.(*tree), l.Version) + unitPairs - 1) / unitPairs), unitPairs
}

// Export implements core.Engine.
func (e *gpuEngine) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (n int, err error) {
	t := l.Parts.(*tree)
	from, to := uint64(lo)*unitPairs, min(uint64(hi)*unitPairs, e.pairsAt(t, l.Version))
	if n = int(to - from); n > out.N {
		return n, nil
	}
	c, err := e.AcquireTransfer()
	if err != nil {
		return 0, err
	}
	defer e.ReleaseTransfer(c)
	part := out.Chunk(0, n)
	part.Version = l.Version
	return n, e.copyPairs(ctx, c, t, part, batch.Keys, copyParams{from: from})
}

// copyPairs copies adjacent pairs to the columns of a batch in host memory, one pair per row.
func (e *gpuEngine) copyPairs(ctx context.Context, c *gpu.Transfer, t *tree, b *batch.Batch, keys batch.Role, p copyParams) error {
	_, err := c.Ring.Run(ctx, b, func(piece *staging.Piece) error {
		return e.submitOrdered(piece.Stream, func() error {
			if err := e.listLeaves(piece.Stream, t, b.Version); err != nil {
				return err
			}
			part := p
			part.tree, part.order = e.refOf(t), t.orderRef(b.Version)
			part.keys, part.vals, part.n = piece.Batch.Columns[keys].Ptr, piece.Batch.Columns[batch.Vals].Ptr, uint64(piece.Batch.N)
			if part.backward != 0 {
				part.from -= uint64(piece.Lo)
			} else {
				part.from += uint64(piece.Lo)
			}
			return device.Launch(piece.Stream, e.copy, gpu.Wave(e.Dev, piece.Batch.N), gpu.Block, &part)
		})
	})
	return err
}

// Expand implements core.Expander.
func (e *gpuEngine) Expand(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch) error {
	t := l.Parts.(*tree)
	if s != nil {
		return e.expandOn(s, t, b)
	}
	c, err := e.AcquireTransfer()
	if err != nil {
		return err
	}
	defer e.ReleaseTransfer(c)
	row := e.Widths.Key + e.Widths.Val
	offsets := b.Columns[batch.Vals].Offsets
	size := func(lo, hi int) int { return int(offsets[hi]-offsets[lo]) * row }
	for lo, hi := 0, 0; lo < b.N; lo = hi {
		for hi = lo; hi < b.N && size(hi, hi+1) <= c.Ring.PieceBytes(); {
			hi++
		}
		if hi > lo {
			err = e.expandMany(ctx, c, t, b.Chunk(lo, hi))
		} else {
			hi = lo + 1
			err = e.expandLarge(ctx, c, l, b.Chunk(lo, hi))
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// expandMany copies the pairs inside ranges to host memory. The pairs of each range must fit one
// piece of c.
func (e *gpuEngine) expandMany(ctx context.Context, c *gpu.Transfer, t *tree, b *batch.Batch) error {
	b.Columns[batch.Offsets] = batch.OffsetsIn(b.Columns[batch.Vals].Offsets)
	_, err := c.Ring.Run(ctx, b, func(p *staging.Piece) error {
		vals := &p.Batch.Columns[batch.Vals]
		return e.submitOrdered(p.Stream, func() error {
			return e.writeRows(p.Stream, t, p.Batch, vals.Offsets[0], vals.Offsets[p.Batch.N])
		})
	})
	return err
}

// writeRows submits the kernel that writes the pairs of ranges to rows [first,limit). Element 0 of
// each column is the row with index first.
func (e *gpuEngine) writeRows(s *device.Stream, t *tree, b *batch.Batch, first, limit uint64) error {
	if err := e.listLeaves(s, t, b.Version); err != nil {
		return err
	}
	c := &b.Columns
	p := rowsParams{
		tree: e.refOf(t), order: t.orderRef(b.Version), lo: c[batch.Keys].Ptr, hi: c[batch.Keys2].Ptr, offsets: c[batch.Offsets].Ptr,
		keys: c[batch.OutKeys].Ptr, vals: c[batch.Vals].Ptr, found: c[batch.Counts].Ptr,
		n: uint64(b.N), first: first, limit: limit, bounds: boundsOf(b.Ranges),
	}
	return device.Launch(s, e.rows, gpu.Wave(e.Dev, rowLanes*b.N), gpu.Block, &p)
}

// rowLanes is the number of lanes that copy the pairs of a range (btree.cu).
const rowLanes = 8

// expandLarge fetches the pairs of one large range, up to the number that was counted.
func (e *gpuEngine) expandLarge(ctx context.Context, c *gpu.Transfer, l *core.Lease, b *batch.Batch) error {
	from, all := make([]uint64, 1), make([]uint32, 1)
	rank, count := b.Select(batch.Keys), b.Select(batch.Keys)
	rank.Version, count.Version = b.Version, b.Version
	rank.Kind, rank.Columns[batch.Ranks] = op.Rank, batch.Output(from)
	count.Columns[batch.Keys2], count.Columns[batch.Counts] = b.Columns[batch.Keys2], batch.Output(all)
	for _, look := range []*batch.Batch{rank, count} {
		if _, _, err := e.Lookup(ctx, nil, l, look, 0); err != nil {
			return err
		}
	}
	offsets := b.Columns[batch.Vals].Offsets
	n := min(offsets[1]-offsets[0], uint64(all[0])) // the map may have changed since the count
	p := copyParams{from: from[0]}
	if b.Backward {
		p.backward, p.from = 1, from[0]+uint64(all[0])
	}
	part := &batch.Batch{N: int(n), Version: b.Version}
	for _, r := range []batch.Role{batch.OutKeys, batch.Vals} {
		col := &b.Columns[r]
		part.Columns[r] = batch.Output(col.Host[:int(n)*col.Width]).WithWidth(col.Width)
	}
	batch.View[uint32](b.Columns[batch.Counts].Host)[0] = uint32(n)
	return e.copyPairs(ctx, c, l.Parts.(*tree), part, batch.OutKeys, p)
}

// expandOn counts the pairs, sums up the counts and writes the pairs, without a wait. The sum needs
// memory while the stream runs. The work is ordered with the changes, so it can use memory that
// they share.
func (e *gpuEngine) expandOn(s *device.Stream, t *tree, b *batch.Batch) error {
	c := &b.Columns
	if b.N == 0 {
		return s.Fill(c[batch.Offsets].Ptr, 0, 2)
	}
	count := &batch.Batch{N: b.N, Ranges: b.Ranges, Version: b.Version}
	count.Columns[batch.Keys], count.Columns[batch.Keys2], count.Columns[batch.Counts] = c[batch.Keys], c[batch.Keys2], c[batch.Counts]
	return e.submitOrdered(s, func() error {
		if err := e.launchPlaces(s, t, count, 0); err != nil {
			return err
		}
		if err := e.Offsets(s, c[batch.Counts].Ptr, c[batch.Offsets].Ptr, b.N); err != nil {
			return err
		}
		return e.writeRows(s, t, b, 0, uint64(c[batch.Vals].Rows()))
	})
}
