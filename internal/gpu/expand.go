package gpu

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu/staging"
)

// Expander launches the kernel of a structure that may hold several values per key.
type Expander interface {
	// WriteRows launches a kernel that writes the values of n keys to rows [first,limit). The
	// values of key i begin at row offsets[i] and end at row offsets[i+1] at most. vals is the
	// address of row first; no key's rows end before first. Unless found is 0, found receives the
	// number of rows of each key (uint32).
	WriteRows(s *device.Stream, p core.Parts, n int, keys, offsets, vals, found device.Ptr, first, limit uint64) error
}

// rangeBytes is the maximum size of the values that one launch writes for a key whose values exceed
// a piece. Each launch walks the key's chain of values from the beginning.
const rangeBytes = 64 << 20

// Expand implements [core.Expander] with the launches of x. If the batch is in host memory, it
// waits for no change: its caller has already counted the pairs, after all changes that the result
// must include.
func (e *Engine) Expand(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, x Expander) error {
	if s != nil {
		return e.submitExpand(s, l, b, x)
	}
	c, err := e.AcquireTransfer()
	if err != nil {
		return err
	}
	defer e.ReleaseTransfer(c)
	vals := b.Columns[batch.Vals]
	piece := c.Ring.PieceBytes()
	for lo, hi := 0, 0; lo < b.N; lo = hi {
		large := vals.Bytes(lo, lo+1) > piece
		for hi = lo; hi < b.N && !large && vals.Bytes(hi, hi+1) <= piece; {
			hi++
		}
		if large {
			hi = lo + 1
			err = e.expandLarge(ctx, c, l, b.Chunk(lo, hi), x)
		} else if vals.Bytes(lo, hi) > 0 {
			err = e.expandSmall(ctx, c, l, b.Chunk(lo, hi), x)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// expandSmall fetches the values of keys if the values of each key fit a piece. Pieces copy keys
// and offsets to the device, and values back.
func (e *Engine) expandSmall(ctx context.Context, c *Transfer, l *core.Lease, b *batch.Batch, x Expander) error {
	b.Columns[batch.Offsets] = batch.OffsetsIn(b.Columns[batch.Vals].Offsets)
	_, err := c.Ring.Run(ctx, b, func(p *staging.Piece) error {
		vals := p.Batch.Columns[batch.Vals]
		first, limit := vals.Offsets[0], vals.Offsets[p.Batch.N]
		if first == limit {
			return nil
		}
		return x.WriteRows(p.Stream, l.Parts, p.Batch.N, p.Batch.Columns[batch.Keys].Ptr, p.Batch.Columns[batch.Offsets].Ptr,
			vals.Ptr, p.Batch.Columns[batch.Counts].Ptr, first, limit)
	})
	return err
}

// expandLarge fetches the values of one key. For each range of rows, it writes them to scratch
// memory and copies them to the host in pieces.
func (e *Engine) expandLarge(ctx context.Context, c *Transfer, l *core.Lease, b *batch.Batch, x Expander) (err error) {
	keys, vals := b.Columns[batch.Keys], b.Columns[batch.Vals]
	scratch, err := e.AcquireScratch(ctx, (min(len(vals.Host), rangeBytes)+largeHead)/scratchOp+1)
	if err != nil {
		return err
	}
	defer e.ReleaseScratch(scratch)
	s, err := c.Ring.Work()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil { // the device may still use the scratch
			err = errors.Join(err, s.Sync(context.Background()))
		}
	}()
	if err := e.waitScratch(s, scratch); err != nil {
		return err
	}
	head := [2]uint64{vals.Offsets[0], vals.Offsets[1]}
	offsets, key, found, to := scratch.buf.Ptr, scratch.buf.Ptr+16, scratch.buf.Ptr+24, scratch.buf.Ptr+largeHead
	nRows := ^uint32(0)
	if err := errors.Join(s.CopyIn(offsets, device.Bytes(head[:])), s.CopyIn(key, keys.Host)); err != nil {
		return err
	}
	rows := uint64((scratch.buf.Size - largeHead) / vals.Width)
	for first := head[0]; first < head[1]; first += rows {
		limit := min(first+rows, head[1])
		if err := x.WriteRows(s, l.Parts, 1, key, offsets, to, found, first, limit); err != nil {
			return err
		}
		part := &batch.Batch{N: int(limit - first)}
		at := int(first-head[0]) * vals.Width
		part.Columns[batch.Vals] = batch.Output(vals.Host[at : at+part.N*vals.Width]).WithWidth(vals.Width)
		_, err := c.Ring.Run(ctx, part, func(p *staging.Piece) error {
			return p.Stream.Copy(p.Batch.Columns[batch.Vals].Ptr, to+device.Ptr(p.Lo*vals.Width), p.Batch.N*vals.Width)
		})
		if err != nil {
			return err
		}
		// The minimum over all ranges is the number of rows that existed during all launches.
		var now [1]uint32
		if err := s.CopyOut(ctx, device.Bytes(now[:]), found); err != nil {
			return err
		}
		nRows = min(nRows, now[0])
	}
	batch.View[uint32](b.Columns[batch.Counts].Host)[0] = nRows
	return nil
}

// largeHead is the size of the scratch memory that precedes the values of a large key. It holds two
// offsets, the key, and the number of rows.
const largeHead = 256

// submitExpand submits kernels that count the values, compute the offsets and write the values. It
// copies nothing to the host and does not wait.
func (e *Engine) submitExpand(s *device.Stream, l *core.Lease, b *batch.Batch, x Expander) error {
	keys, counts, offsets, vals := b.Columns[batch.Keys], b.Columns[batch.Counts], b.Columns[batch.Offsets], b.Columns[batch.Vals]
	if b.N == 0 {
		return s.Fill(offsets.Ptr, 0, 2)
	}
	if err := e.structure.Lookup(s, l.Parts, b, 0); err != nil {
		return err
	}
	if err := e.Offsets(s, counts.Ptr, offsets.Ptr, b.N); err != nil {
		return err
	}
	return x.WriteRows(s, l.Parts, b.N, keys.Ptr, offsets.Ptr, vals.Ptr, 0, 0, uint64(vals.Rows()))
}
