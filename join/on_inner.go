package join

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu/budget"
	"github.com/weftgo/weft/internal/gpu/feed"
	"github.com/weftgo/weft/internal/op"
)

const (
	// MinMemoryOn is the least Options.Memory of [InnerOn] on a GPU, in bytes.
	MinMemoryOn = 64 << 20
	// minBuildRows is the minimum number of right rows per index. Fewer do not pay for a copy of
	// the left rows.
	minBuildRows = 1 << 12
)

// InnerOn joins keys in host memory, using a device, and yields the matching pairs. Both sides may
// have any number of rows. On a GPU it builds an index of the right rows and streams the left rows
// through it, as [IndexOn.Inner] does. If device memory cannot hold the index, InnerOn indexes some
// right rows at a time, and streams the left rows once for each index. Pairs then come index by
// index, and in the order of [IndexOn.Inner] for each index. For an outer join whose index does not
// fit, use a [Join], which spills to a file.
//
// Options.Memory bounds the device memory of the call, and is at least MinMemoryOn. By default the
// call may use all free memory. Options.Piece is the maximum number of pairs yielded at a time. Its
// default on a GPU is 2^22, or less with little memory. InnerOn does not spill, so it returns
// [weft.ErrOptions] if Options.TempDir is set. See [NewOn] and [IndexOn.Inner] for other errors.
func InnerOn[K weft.Key](
	ctx context.Context, dev device.Device, left, right []K, opts *Options,
) iter.Seq2[Pairs, error] {
	return func(yield func(Pairs, error) bool) {
		j, err := newInnerOn(dev, left, right, opts)
		if err == nil {
			err = j.run(ctx, func(p Pairs) bool { return yield(p, nil) })
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(Pairs{}, fmt.Errorf("join: InnerOn: %w", err))
		}
	}
}

// innerOn is a call of InnerOn.
type innerOn[K weft.Key] struct {
	dev          device.Device
	left, right  []K
	memory       int64
	piece, chunk int // bytes of left keys and number of pairs to copy at a time
	minRows      int // minimum right rows per index
	nIndexes     int // number of indexes built
}

func newInnerOn[K weft.Key](
	dev device.Device, left, right []K, opts *Options,
) (*innerOn[K], error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	j := &innerOn[K]{
		dev: dev, left: left, right: right, memory: o.Memory, piece: feed.PieceBytes,
		chunk: chunkPairs, minRows: minBuildRows,
	}
	switch _, host := dev.(device.Host); {
	case o.Piece < 0:
		return nil, core.Invalid("Piece %d is negative", o.Piece)
	case o.TempDir != "":
		return nil, core.Invalid("InnerOn does not use TempDir; a Join does")
	case o.Memory != 0 && (host || o.Memory < MinMemoryOn):
		return nil, core.Invalid("Memory is %d, want 0, or at least %d on a GPU", o.Memory,
			MinMemoryOn)
	case max(len(left), len(right)) > maxRows:
		return nil, fmt.Errorf("%w: %d and %d rows; row numbers end at %d", op.ErrOptions,
			len(left), len(right), uint32(maxRows))
	}
	if o.Memory > 0 { // a sixth is for pieces, their matches and pairs
		j.piece = int(min(feed.PieceBytes, o.Memory/64))
		j.chunk = int(min(chunkPairs, o.Memory/256))
	}
	if o.Piece > 0 {
		j.chunk = min(j.chunk, o.Piece)
	}
	return j, nil
}

func (j *innerOn[K]) run(ctx context.Context, yield func(Pairs) bool) (err error) {
	if host, ok := j.dev.(device.Host); ok {
		return j.runOnHost(ctx, host, yield)
	}
	dev := budget.New(j.dev, j.memory)
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer func() {
		if end := errors.Join(s.Close(), dev.Release()); err == nil || end != nil {
			err = errors.Join(end, err)
		}
	}()
	size := len(j.right)
	for at := 0; at < len(j.right); {
		n := min(size, len(j.right)-at)
		ix, err := j.build(ctx, s, j.right[at:at+n])
		if errors.Is(err, device.ErrMemory) && n > j.minRows {
			size = (n + 1) / 2
			continue
		}
		if err != nil {
			return fmt.Errorf("an index of %d rows: %w", n, err)
		}
		j.nIndexes++
		ix.piece, ix.chunk, ix.first = j.piece, j.chunk, uint32(at)
		err = ix.yieldPairs(ctx, j.left, false, yield)
		if end := ix.Close(); end != nil {
			return end
		}
		if err != nil {
			return err
		}
		at += n
	}
	return ctx.Err()
}

func (j *innerOn[K]) runOnHost(ctx context.Context, host device.Host, yield func(Pairs) bool) error {
	ix, err := New(ctx, host, []column.Column{column.Of(j.right)}, &Options{Piece: j.chunk})
	if err != nil {
		return errors.Unwrap(err)
	}
	stopped := false
	err = ix.yieldPairs(ctx, []column.Column{column.Of(j.left)}, false, func(p Pairs) bool {
		stopped = !yield(p)
		return !stopped
	})
	if err = errors.Join(err, ix.Close()); stopped && err == nil {
		return errStopped
	}
	return err
}

// build indexes some right rows, if that leaves enough memory to stream the left rows.
func (j *innerOn[K]) build(ctx context.Context, s *device.Stream, rows []K) (*IndexOn[K], error) {
	reserved, err := device.Make[uint8](s.Device(), j.probeBytes())
	if err != nil {
		return nil, err
	}
	keys, err := device.Upload(s, rows)
	if err != nil {
		return nil, errors.Join(err, reserved.Free())
	}
	ix, err := NewOn(ctx, s, keys)
	if err != nil {
		err = errors.Unwrap(err)
	}
	end := errors.Join(s.Sync(context.WithoutCancel(ctx)), keys.Free(), reserved.Free())
	if end != nil || err != nil {
		if err == nil {
			err = ix.Close()
		}
		return nil, errors.Join(err, end)
	}
	return ix, nil
}

// probeBytes returns the device memory for streaming the left rows: pieces, the matches of one
// piece, and pairs.
func (j *innerOn[K]) probeBytes() int {
	const (
		matchBytes = 24 // per row
		pairBytes  = 16 // per pair, in two chunks
		otherBytes = 1 << 16
	)
	rows := min(len(j.left), feed.Rows(j.piece, []column.Column{column.Of(j.left)}))
	pairs := min(uint64(j.chunk), uint64(len(j.left))*uint64(len(j.right)))
	piece := min(j.piece, len(device.Bytes(j.left)))
	return feed.Slots*piece + matchBytes*rows + pairBytes*int(pairs) + otherBytes
}
