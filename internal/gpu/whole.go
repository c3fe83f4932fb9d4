package gpu

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/gpu/staging"
	"github.com/weftgo/weft/internal/op"
)

// This file serves engines on a [Queue] that sort each batch and therefore run the batch as a
// whole. It also holds lookups by ranges for these engines.

// Work is device memory that the current change uses. Changes run one after another, so the next
// change can reuse it without a wait.
type Work struct{ Buf device.Buffer }

// Grow grows the memory to at least the given number of bytes, after it waits for the last change.
// From the second growth on, it adds a quarter as reserve.
func (w *Work) Grow(q *Queue, bytes int) error {
	if w.Buf.Size >= bytes {
		return nil
	}
	spare := 0
	if w.Buf.Size > 0 {
		spare = bytes / 4
	}
	if err := w.Free(q); err != nil {
		return err
	}
	buf, err := q.Dev.Alloc(bytes + spare)
	if spare > 0 && errors.Is(err, device.ErrMemory) {
		buf, err = q.Dev.Alloc(bytes)
	}
	if err == nil {
		w.Buf = buf
	}
	return err
}

// Free waits for the last change and frees the memory.
func (w *Work) Free(q *Queue) error {
	buf := w.Buf
	w.Buf = device.Buffer{}
	if buf.Size == 0 {
		return nil
	}
	return errors.Join(q.LastChange().Sync(context.Background()), q.Dev.Free(buf))
}

// RunWhole copies a batch from host memory to w, calls run with the copy, and copies the outputs
// back. run also receives the size of the copy, at. It may use the extra bytes of w that follow.
// The caller has read the counters after the previous change, so w is no longer in use.
func (q *Queue) RunWhole(ctx context.Context, w *Work, b *batch.Batch, extra int, run func(onDevice *batch.Batch, at int) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var at prim.Carve
	var ptrs [len(batch.Columns{})]device.Ptr
	for r, c := range b.Columns {
		if c.Given() {
			ptrs[r] = at.Alloc(len(c.Host))
		}
	}
	if err := w.Grow(q, int(at)+extra); err != nil {
		return err
	}
	onDevice := *b
	for r, c := range b.Columns {
		if !c.Given() {
			continue
		}
		onDevice.Columns[r] = c.WithPtr(w.Buf.Ptr + ptrs[r])
		if c.IsInput() {
			if err := q.Stream.CopyIn(w.Buf.Ptr+ptrs[r], c.Host); err != nil {
				return err
			}
		}
	}
	err := run(&onDevice, int(at))
	for r, c := range b.Columns {
		if err == nil && c.Given() && c.IsOutput() {
			err = q.Stream.CopyOut(context.WithoutCancel(ctx), c.Host, w.Buf.Ptr+ptrs[r])
		}
	}
	return err
}

// SubmitSync submits a change and waits until it ends.
func (q *Queue) SubmitSync(s *device.Stream, launch func() error) error {
	return errors.Join(q.Submit(s, launch), s.Sync(context.Background()))
}

// LookupPieces runs a lookup of a batch in host memory, piece by piece. look submits the lookup of
// one piece after the changes that callers have submitted, and adds the number of keys found to
// hits.
func (q *Queue) LookupPieces(ctx context.Context, b *batch.Batch, look func(s *device.Stream, b *batch.Batch, hits device.Ptr) error) (done, hits int, err error) {
	c, err := q.AcquireTransfer()
	if err != nil {
		return 0, 0, err
	}
	defer q.ReleaseTransfer(c)
	if err := c.resetHits(); err != nil {
		return 0, 0, err
	}
	whole := false // the batch is a single piece
	done, err = c.Ring.Run(ctx, b, func(p *staging.Piece) error {
		err := look(p.Stream, p.Batch, c.Hits.Ptr())
		if p.Batch.N < b.N || err != nil {
			return err
		}
		whole = true
		return c.submitHits(p)
	})
	if whole && err == nil {
		return done, c.hitCount(), nil
	}
	// All submitted pieces have arrived, so the counter covers exactly these. If no piece was
	// submitted, the counter may not be zero yet, but readHits reads it on the stream that zeroes
	// it.
	hits, e2 := c.readHits(ctx)
	if err == nil {
		err = e2
	}
	return done, hits, err
}

// ExpandRanges copies the pairs inside each range of b to host memory. The caller has counted the
// pairs. small submits a kernel that writes the pairs of a piece to the piece's columns. large
// copies the pairs of one range that does not fit a piece.
func (q *Queue) ExpandRanges(ctx context.Context, b *batch.Batch, small func(p *staging.Piece) error, large func(c *Transfer, b *batch.Batch) error) error {
	c, err := q.AcquireTransfer()
	if err != nil {
		return err
	}
	defer q.ReleaseTransfer(c)
	row := q.Widths.Key + q.Widths.Val
	offsets := b.Columns[batch.Vals].Offsets
	size := func(lo, hi int) int { return int(offsets[hi]-offsets[lo]) * row }
	for lo, hi := 0, 0; lo < b.N; lo = hi {
		for hi = lo; hi < b.N && size(hi, hi+1) <= c.Ring.PieceBytes(); {
			hi++
		}
		if hi > lo {
			part := b.Chunk(lo, hi)
			part.Columns[batch.Offsets] = batch.OffsetsIn(part.Columns[batch.Vals].Offsets)
			_, err = c.Ring.Run(ctx, part, small)
		} else {
			hi = lo + 1
			err = large(c, b.Chunk(lo, hi))
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// LargeRange returns a batch with one row per pair of the single range in b. from is the rank of
// the range's first pair or, backward, the rank after its last pair. look runs a lookup in host
// memory.
func LargeRange(b *batch.Batch, look func(b *batch.Batch) error) (rows *batch.Batch, from uint64, err error) {
	rank, total := make([]uint64, 1), make([]uint32, 1)
	first, count := b.Select(batch.Keys), b.Select(batch.Keys)
	first.Kind, first.Columns[batch.Ranks] = op.Rank, batch.Output(rank)
	count.Columns[batch.Keys2], count.Columns[batch.Counts] = b.Columns[batch.Keys2], batch.Output(total)
	for _, b := range []*batch.Batch{first, count} {
		if err := look(b); err != nil {
			return nil, 0, err
		}
	}
	if from = rank[0]; b.Backward {
		from += uint64(total[0])
	}
	offsets := b.Columns[batch.Vals].Offsets
	n := offsets[1] - offsets[0]
	rows = &batch.Batch{N: int(n)}
	for _, r := range []batch.Role{batch.OutKeys, batch.Vals} {
		col := &b.Columns[r]
		rows.Columns[r] = batch.Output(col.Host).WithWidth(col.Width)
	}
	batch.View[uint32](b.Columns[batch.Counts].Host)[0] = uint32(n)
	return rows, from, nil
}
