package gpu

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// Expander is a structure whose keys have rows of variable number.
type Expander interface {
	// Scan launches adding up n counts (uint32) to n+1 offsets (uint64).
	Scan(s *device.Stream, counts, offsets device.Ptr, n int) error
	// Rows launches writing the values of n keys, those of key i from row
	// offsets[i] on, none beyond row offsets[i+1] or limit.
	Rows(s *device.Stream, p core.Parts, n int, keys, offsets, vals device.Ptr, limit uint64) error
}

// expandKeys and expandBytes bound the keys and the values that are on their
// way at a time, unless one key has more.
const expandKeys, expandBytes = 1 << 22, 64 << 20

// Expand is for [core.Expander], with what the structure brings.
func (e *Engine) Expand(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, x Expander) error {
	if s != nil {
		return e.expandOn(s, l, b, x)
	}
	c := b.Columns[batch.Vals]
	for lo := 0; lo < b.N; {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := lo + 1
		for hi < b.N && hi-lo < expandKeys && c.Bytes(lo, hi+1) <= expandBytes {
			hi++
		}
		if err := e.expandPart(ctx, l, b.Chunk(lo, hi), x); err != nil {
			return err
		}
		lo = hi
	}
	return nil
}

// expandPart fetches the values of some keys, whose pairs have been counted
// behind all changes that they are to be seen of.
func (e *Engine) expandPart(ctx context.Context, l *core.Lease, b *batch.Batch, x Expander) (err error) {
	keys, vals := b.Columns[batch.Keys], b.Columns[batch.Vals]
	if len(vals.Host) == 0 {
		return nil
	}
	c, err := e.Take()
	if err != nil {
		return err
	}
	defer e.Give(c)
	s, err := c.Ring.Work()
	if err != nil {
		return err
	}
	// One block of memory: offsets, values, keys.
	starts, rows := 8*len(vals.Offsets), (len(vals.Host)+7)/8*8
	buf, err := e.Dev.Alloc(starts + rows + len(keys.Host))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Dev.Free(buf)) }()
	to := buf.Ptr + device.Ptr(starts)
	in := to + device.Ptr(rows)
	if err := errors.Join(s.Wait(e.Visible), s.CopyIn(buf.Ptr, device.Bytes(vals.Offsets)), s.CopyIn(in, keys.Host)); err != nil {
		return err
	}
	base := device.Ptr(vals.Offsets[0]) * device.Ptr(vals.Width)
	if err := x.Rows(s, l.Parts, b.N, in, buf.Ptr, to-base, vals.Offsets[b.N]); err != nil {
		return err
	}
	return s.CopyOut(context.WithoutCancel(ctx), vals.Host, to)
}

// expandOn counts, adds up and writes: no copy, no wait.
func (e *Engine) expandOn(s *device.Stream, l *core.Lease, b *batch.Batch, x Expander) error {
	keys, counts, offsets, vals := b.Columns[batch.Keys], b.Columns[batch.Counts], b.Columns[batch.Offsets], b.Columns[batch.Vals]
	if b.N == 0 {
		return s.Fill(offsets.Ptr, 0, 2)
	}
	if err := e.structure.Look(s, l.Parts, b, 0); err != nil {
		return err
	}
	if err := x.Scan(s, counts.Ptr, offsets.Ptr, b.N); err != nil {
		return err
	}
	return x.Rows(s, l.Parts, b.N, keys.Ptr, offsets.Ptr, vals.Ptr, uint64(vals.Rows()))
}
