package gpu

import (
	"context"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/gpu/staging"
	"github.com/weftgo/weft/internal/op"
)

// Seeker launches the kernels of an ordered map that writes each change to new memory, a
// generation. Its methods submit work and never wait.
type Seeker interface {
	// Seek launches a lookup of any kind (see [core.OrderedMap]). It adds the number of keys found
	// to hits unless hits is 0.
	Seek(s *device.Stream, p core.Parts, b *batch.Batch, hits device.Ptr) error
	// WriteRows launches a kernel that writes the pairs inside each range to rows [first,limit).
	// The pairs of range i begin at row Offsets[i]. Element 0 of each column holds row first.
	WriteRows(s *device.Stream, p core.Parts, b *batch.Batch, first, limit uint64) error
	// WritePairs launches a kernel that writes n pairs to the columns keys and vals. The first pair
	// has rank from, or rank from-1 if backward is set; further pairs follow in that direction.
	WritePairs(s *device.Stream, p core.Parts, keys, vals device.Ptr, from uint64, n int, backward bool) error
}

// Seek implements method Lookup of [core.Engine].
func (q *Queue) Seek(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, count device.Ptr, x Seeker) (done, hits int, err error) {
	if b.N == 0 {
		return 0, 0, nil
	}
	if s != nil {
		return b.N, 0, q.seek(s, l.Parts, b, count, x)
	}
	return q.LookupPieces(ctx, b, func(s *device.Stream, b *batch.Batch, hits device.Ptr) error { return q.seek(s, l.Parts, b, hits, x) })
}

// seek submits a lookup after the changes that callers have submitted, because the last change may
// still be writing the generation.
func (q *Queue) seek(s *device.Stream, p core.Parts, b *batch.Batch, hits device.Ptr, x Seeker) error {
	if err := s.Wait(q.Visible); err != nil {
		return err
	}
	return x.Seek(s, p, b, hits)
}

// SeekRows implements method Expand of [core.Expander].
func (q *Queue) SeekRows(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, x Seeker) error {
	if s != nil {
		return q.submitSeekRows(s, l, b, x)
	}
	small := func(p *staging.Piece) error {
		vals := &p.Batch.Columns[batch.Vals]
		return x.WriteRows(p.Stream, l.Parts, p.Batch, vals.Offsets[0], vals.Offsets[p.Batch.N])
	}
	return q.ExpandRanges(ctx, b, small, func(c *Transfer, b *batch.Batch) error {
		rows, from, err := LargeRange(b, func(b *batch.Batch) error {
			_, _, err := q.Seek(ctx, nil, l, b, 0, x)
			return err
		})
		if err != nil {
			return err
		}
		return q.seekPairs(ctx, c, l, rows, batch.OutKeys, from, b.Backward, x)
	})
}

// submitSeekRows submits kernels that count the pairs, compute the offsets and write the pairs. It
// copies nothing to the host and does not wait.
func (q *Queue) submitSeekRows(s *device.Stream, l *core.Lease, b *batch.Batch, x Seeker) error {
	c := &b.Columns
	if b.N == 0 {
		return s.Fill(c[batch.Offsets].Ptr, 0, 2)
	}
	count := &batch.Batch{N: b.N, Ranges: b.Ranges}
	count.Columns[batch.Keys], count.Columns[batch.Keys2], count.Columns[batch.Counts] = c[batch.Keys], c[batch.Keys2], c[batch.Counts]
	if err := q.seek(s, l.Parts, count, 0, x); err != nil {
		return err
	}
	if err := q.Offsets(s, c[batch.Counts].Ptr, c[batch.Offsets].Ptr, b.N); err != nil {
		return err
	}
	return x.WriteRows(s, l.Parts, b, 0, uint64(c[batch.Vals].Rows()))
}

// SeekPairs copies b.N pairs to the columns Keys and Vals of b in host memory. from is the rank of
// the first pair.
func (q *Queue) SeekPairs(ctx context.Context, l *core.Lease, b *batch.Batch, from uint64, x Seeker) error {
	c, err := q.AcquireTransfer()
	if err != nil {
		return err
	}
	defer q.ReleaseTransfer(c)
	return q.seekPairs(ctx, c, l, b, batch.Keys, from, false, x)
}

func (q *Queue) seekPairs(ctx context.Context, c *Transfer, l *core.Lease, b *batch.Batch, keys batch.Role, from uint64, backward bool, x Seeker) error {
	_, err := c.Ring.Run(ctx, b, func(p *staging.Piece) error {
		at := from + uint64(p.Lo)
		if backward {
			at = from - uint64(p.Lo)
		}
		return x.WritePairs(p.Stream, l.Parts, p.Batch.Columns[keys].Ptr, p.Batch.Columns[batch.Vals].Ptr, at, p.Batch.N, backward)
	})
	return err
}

// Gap is a run of pairs [From,To) to delete. Before is the number of deleted pairs that precede
// From. Kernels have the same struct.
type Gap struct{ From, To, Before uint64 }

// GapBytes is the device memory that deleting needs per range: for its rank, its number of pairs,
// and two gaps.
const GapBytes = 8 + 4 + 2*int(unsafe.Sizeof(Gap{})) + 512

// FindGaps returns the pairs inside the ranges of b as gaps, for a call that deletes them. It
// writes the number of pairs that each range deletes to column Counts, if given. The device finds
// the pairs of each range; the host waits, and assigns each pair to the first range that contains
// it. at points to GapBytes of device memory per range.
func (q *Queue) FindGaps(ctx context.Context, s *device.Stream, p core.Parts, b *batch.Batch, at device.Ptr, x Seeker) ([]Gap, error) {
	spans, err := q.findSpans(ctx, s, p, b, at, x)
	if err != nil {
		return nil, err
	}
	deleted, counts := core.AssignRanges(spans)
	if c := &b.Columns[batch.Counts]; c.Given() {
		if err := s.CopyIn(c.Ptr, device.Bytes(counts)); err != nil {
			return nil, err
		}
	}
	gaps := make([]Gap, len(deleted))
	before := uint64(0)
	for i, g := range deleted {
		gaps[i] = Gap{uint64(g.From), uint64(g.To), before}
		before += uint64(g.To - g.From)
	}
	return gaps, nil
}

// findSpans returns the pairs inside each range of b. The lookups run after all changes, and
// findSpans waits for them.
func (q *Queue) findSpans(ctx context.Context, s *device.Stream, p core.Parts, b *batch.Batch, at device.Ptr, x Seeker) ([]core.Span, error) {
	c := prim.Carve(at)
	from, n := make([]uint64, b.N), make([]uint32, b.N)
	rank, count := b.Select(batch.Keys), b.Select(batch.Keys)
	rank.Kind, rank.Columns[batch.Ranks] = op.Rank, batch.Column{Ptr: c.Alloc(8 * b.N), Width: 8}
	count.Kind, count.Columns[batch.Keys2], count.Columns[batch.Counts] = op.Get, b.Columns[batch.Keys2], batch.Column{Ptr: c.Alloc(4 * b.N), Width: 4}
	err := q.Submit(s, func() error {
		if err := x.Seek(s, p, rank, 0); err != nil {
			return err
		}
		return x.Seek(s, p, count, 0)
	})
	if err == nil {
		err = s.CopyOut(ctx, device.Bytes(from), rank.Columns[batch.Ranks].Ptr)
	}
	if err == nil {
		err = s.CopyOut(ctx, device.Bytes(n), count.Columns[batch.Counts].Ptr)
	}
	spans := make([]core.Span, b.N)
	for i := range spans {
		spans[i] = core.Span{From: int(from[i]), To: int(from[i]) + int(n[i])}
	}
	return spans, err
}

// CopyGaps submits a copy of gaps to device memory.
func CopyGaps(s *device.Stream, to device.Ptr, gaps []Gap) error {
	return s.CopyIn(to, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(gaps))), len(gaps)*int(unsafe.Sizeof(Gap{}))))
}
