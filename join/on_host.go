package join

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/gpu/feed"
	"github.com/weftgo/weft/internal/op"
)

// chunkPairs is the number of pairs copied back at a time: 32 MiB, .6 ms on the link of an H200.
const chunkPairs = 1 << 22

// Inner yields the pairs of host keys, which are the left side, and rows of the index. Pairs are in
// the order of [Index.Inner]. On a GPU, keys are copied in pieces of 64 MiB. Meanwhile, kernels
// work on earlier pieces, and earlier pairs are copied back. The keys may thus exceed device
// memory. Page-locked keys (device.Device.Register, AllocHost) are copied from where they lie.
// Other keys are first copied to page-locked memory by all cores of the host. The next pairs reuse
// the memory of the pairs before.
//
// An error comes last, with empty pairs. For more than 2^32 - 2 keys, it is [weft.ErrOptions].
// Other errors are [weft.ErrClosed], [device.ErrMemory] and the error of the context. A call takes
// device memory for three pieces, some 20 bytes for each row of a piece, and 16 bytes for each of
// 2^22 pairs. [IndexOn.Close] does not wait for calls in progress.
func (ix *IndexOn[K]) Inner(ctx context.Context, keys []K) iter.Seq2[Pairs, error] {
	return ix.pairs(ctx, "Inner", keys, false)
}

// Left yields the pairs of [IndexOn.Inner], and one with [NoRow] for each left row without a match.
func (ix *IndexOn[K]) Left(ctx context.Context, keys []K) iter.Seq2[Pairs, error] {
	return ix.pairs(ctx, "Left", keys, true)
}

func (ix *IndexOn[K]) pairs(
	ctx context.Context, method string, keys []K, outer bool,
) iter.Seq2[Pairs, error] {
	return func(yield func(Pairs, error) bool) {
		err := ix.yieldPairs(ctx, keys, outer, func(p Pairs) bool { return yield(p, nil) })
		if err != nil && !errors.Is(err, errStopped) {
			yield(Pairs{}, fmt.Errorf("join: %s: %w", method, err))
		}
	}
}

func (ix *IndexOn[K]) yieldPairs(
	ctx context.Context, keys []K, outer bool, yield func(Pairs) bool,
) (err error) {
	left := []column.Column{column.Of(keys)}
	switch {
	case ix.closed.Load():
		return fmt.Errorf("index %w", device.ErrClosed)
	case len(keys) > maxRows:
		return fmt.Errorf("%w: %d rows; row numbers end at %d", op.ErrOptions, len(keys),
			uint32(maxRows))
	case ctx.Err() != nil || len(keys) == 0:
		return ctx.Err()
	}
	if h, ok := ix.impl.(hostIndex[K]); ok {
		stopped := false
		err := h.yieldPairs(ctx, left, outer, func(p Pairs) bool {
			stopped = !yield(p)
			return !stopped
		})
		if stopped {
			err = errStopped
		}
		return err
	}
	p := probe[K]{ix: ix, ctx: ctx, outer: outer, yield: yield}
	defer func() {
		if end := p.close(); err == nil || end != nil && errors.Is(err, errStopped) {
			err = end
		}
	}()
	if err := p.open(left); err != nil {
		return err
	}
	if err := p.feed.Run(ctx, left, len(keys), p.submitPiece); err != nil {
		return err
	}
	return p.flush(&p.outs[(p.chunks+1)%2])
}

// acquireStream returns a stream for a call. Streams stay until Close, because the map of the index
// keeps references to them.
func (ix *IndexOn[K]) acquireStream() (*device.Stream, error) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if last := len(ix.streams) - 1; last >= 0 {
		s := ix.streams[last]
		ix.streams = ix.streams[:last]
		return s, nil
	}
	return ix.dev.NewStream()
}

// releaseStream keeps a stream for later calls.
func (ix *IndexOn[K]) releaseStream(s *device.Stream) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.streams = append(ix.streams, s)
}

// probe looks up host keys on a GPU, piece by piece.
type probe[K weft.Key] struct {
	ix    *IndexOn[K]
	ctx   context.Context
	outer bool
	yield func(Pairs) bool

	work       *device.Stream
	feed       *feed.Feed
	copyStream *device.Stream // for copies of pairs
	matches    *MatchesOn[K]
	total      device.Slice[uint64]
	outs       [2]pairsOut // the kernel writes one while the other is copied or read
	chunks     int         // number of submitted chunks
	cores      *cpu.Device
}

// pairsOut is a chunk of pairs on its way to the host.
type pairsOut struct {
	left, right     device.Slice[uint32]
	host            []byte // page-locked memory for left and right
	written, copied *device.Event
	first           uint32 // first left row of the piece
	n               int    // number of pairs to yield
}

func (p *probe[K]) open(left []column.Column) (err error) {
	dev := p.ix.dev
	if p.cores, err = cpu.Open(nil); err != nil {
		return err
	}
	if p.work, err = p.ix.acquireStream(); err != nil {
		return err
	}
	if p.feed, err = feed.New(p.work, p.ix.piece); err != nil {
		return err
	}
	if p.copyStream, err = dev.NewStream(); err != nil {
		return err
	}
	if p.matches, err = p.ix.Matches(min(left[0].Len(), feed.Rows(p.ix.piece, left))); err != nil {
		return errors.Unwrap(err)
	}
	if p.total, err = device.Make[uint64](dev, 1); err != nil {
		return err
	}
	for i := range p.outs {
		for _, e := range []**device.Event{&p.outs[i].written, &p.outs[i].copied} {
			if *e, err = dev.NewEvent(); err != nil {
				return err
			}
		}
	}
	return nil
}

// close waits for all work and frees the memory.
func (p *probe[K]) close() (err error) {
	if p.feed != nil {
		err = p.feed.Close()
	}
	if p.copyStream != nil {
		err = errors.Join(err, p.copyStream.Close())
	}
	if p.matches != nil {
		err = errors.Join(err, p.matches.Close())
	}
	err = errors.Join(err, p.total.Free())
	for i := range p.outs {
		o := &p.outs[i]
		err = errors.Join(err, o.free(p.ix.dev))
		for _, e := range []*device.Event{o.written, o.copied} {
			if e != nil {
				err = errors.Join(err, e.Close())
			}
		}
	}
	if p.cores != nil {
		err = errors.Join(err, p.cores.Close())
	}
	if p.work != nil {
		p.ix.releaseStream(p.work)
	}
	return err
}

func (o *pairsOut) free(dev device.Device) error {
	err := errors.Join(o.left.Free(), o.right.Free())
	if o.host != nil {
		err = errors.Join(err, dev.FreeHost(o.host))
	}
	o.host = nil
	return err
}

// reserve reserves memory for n pairs. The earlier memory must not be in use.
func (o *pairsOut) reserve(dev device.Device, n int) (err error) {
	if o.left.Len() >= n {
		return nil
	}
	if err := o.free(dev); err != nil {
		return err
	}
	if o.left, err = device.Make[uint32](dev, n); err != nil {
		return err
	}
	if o.right, err = device.Make[uint32](dev, n); err != nil {
		return err
	}
	o.host, err = dev.AllocHost(8 * n)
	return err
}

// submitPiece submits the lookup of a piece, and yields pairs that have arrived meanwhile.
func (p *probe[K]) submitPiece(piece *feed.Piece) error {
	s := p.work
	var key K
	b := device.Buffer{Ptr: piece.Columns[0].Values, Size: piece.N * int(unsafe.Sizeof(key))}
	keys, err := device.Wrap[K](p.ix.dev, b, piece.N)
	if err != nil {
		return err
	}
	if err := s.Fill(p.total.Ptr(), 0, 2); err != nil {
		return err
	}
	find := p.matches.FindOn
	if p.outer {
		find = p.matches.FindLeftOn
	}
	if err := find(s, keys, p.total); err != nil {
		return errors.Unwrap(err)
	}
	var total [1]uint64
	if err := p.total.CopyTo(context.WithoutCancel(p.ctx), s, total[:]); err != nil {
		return err
	}
	chunk := uint64(chunkPairs)
	if p.ix.chunk > 0 {
		chunk = uint64(p.ix.chunk)
	}
	for lo := uint64(0); lo < total[0]; lo += chunk {
		if err := p.submitChunk(piece, lo, int(min(chunk, total[0]-lo))); err != nil {
			return err
		}
	}
	return nil
}

// submitChunk submits a kernel that writes n pairs of a piece from number lo on, and their copy to
// the host. Earlier pairs in the same buffer have been yielded. It then yields the previous chunk.
func (p *probe[K]) submitChunk(piece *feed.Piece, lo uint64, n int) error {
	s, o := p.work, &p.outs[p.chunks%2]
	if err := o.reserve(p.ix.dev, n); err != nil {
		return err
	}
	left, right := o.left.Sub(0, n), o.right.Sub(0, n)
	if err := p.matches.PairsOn(s, lo, left, right); err != nil {
		return errors.Unwrap(err)
	}
	if err := s.Record(o.written); err != nil {
		return err
	}
	if err := p.copyStream.Wait(o.written); err != nil {
		return err
	}
	if err := p.copyStream.CopyOutAsync(o.host[:4*n], left.Ptr()); err != nil {
		return err
	}
	if err := p.copyStream.CopyOutAsync(o.host[4*n:8*n], right.Ptr()); err != nil {
		return err
	}
	if err := p.copyStream.Record(o.copied); err != nil {
		return err
	}
	o.first, o.n = uint32(piece.First), n
	p.chunks++
	return p.flush(&p.outs[p.chunks%2])
}

// flush waits until the pairs of o have arrived, and yields them.
func (p *probe[K]) flush(o *pairsOut) error {
	if o.n == 0 {
		return nil
	}
	if err := o.copied.Sync(p.ctx); err != nil {
		return err
	}
	rows := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(o.host))), 2*o.n)
	pairs := Pairs{rows[:o.n:o.n], rows[o.n:]}
	o.n = 0
	p.addOffset(pairs.Left, o.first)
	p.addOffset(pairs.Right, p.ix.first) // ix.first is 0 if rows may be NoRow
	if !p.yield(pairs) {
		return errStopped
	}
	return nil
}

// addOffset adds first to row numbers.
func (p *probe[K]) addOffset(rows []uint32, first uint32) {
	if first == 0 {
		return
	}
	p.cores.Parallel(len(rows), 1<<16, func(lo, hi int) {
		for i := range rows[lo:hi] {
			rows[lo+i] += first
		}
	})
}
