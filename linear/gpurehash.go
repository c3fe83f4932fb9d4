package linear

import (
	"context"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpubatch"
)

// Lengths of launches that work on whole tables: between two of them the context
// is looked at. A launch takes some 20 ms at most.
const (
	rehashBytes     = 1 << 30 // of the old table
	inPlaceSegments = 1 << 19
)

func (e *gpuEngine) rehash(ctx context.Context, lines uint32, _ bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// Lookups may be under way on streams of the caller.
	if err := e.settle(ctx); err != nil {
		return err
	}
	g := e.gen.geometry
	g.lines = lines
	to, err := e.allocate(g)
	if err != nil {
		return err
	}
	if err := e.move(ctx, e.gen, to); err != nil {
		e.dev.Free(to.buf)
		return err
	}
	old := e.gen
	e.gen, e.stale = to, true
	return e.release(old)
}

// move copies the live pairs of one generation to an empty other and waits for
// it. It gives up when one finds no slot: others that crowd there would search a
// whole path each.
func (e *gpuEngine) move(ctx context.Context, from, to *generation) error {
	s := e.queue.Stream
	if err := e.queue.Set(s, gpubatch.WordResult, 0); err != nil {
		return err
	}
	p := rehashParams{from: refOf(from), to: refOf(to), lost: e.queue.Word(gpubatch.WordResult)}
	for lines := from.lines + 1; p.lo < lines; p.lo = p.hi {
		p.hi = min(lines, p.lo+rehashBytes/lineBytes)
		slots := int(p.hi-p.lo) * lineBytes / e.widths.Slot
		if err := device.Launch(s, e.kernel.rehash, gpubatch.Wave(e.dev, slots), gpubatch.Block, &p); err != nil {
			return err
		}
		lost, err := e.queue.Read(context.WithoutCancel(ctx), gpubatch.WordResult)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if lost > 0 {
			return fmt.Errorf("linear: keys crowd in %d lines: %w", to.lines, weft.ErrFull)
		}
	}
	return nil
}

// rehashInPlace does it with two kernels. The borders are found before anything
// changes: a line between two of them may get empty slots.
func (e *gpuEngine) rehashInPlace(ctx context.Context) (bool, error) {
	if e.gen.refs > 1 {
		return false, nil
	}
	if err := e.reserveBorders(e.gen.geometry); err != nil {
		return false, err
	}
	// Lookups may be under way on streams of the caller.
	if err := e.settle(ctx); err != nil {
		return false, err
	}
	if err := e.queue.Set(e.queue.Stream, gpubatch.WordResult, 0); err != nil {
		return false, err
	}
	p := inPlaceParams{
		table: refOf(e.gen), borders: e.borders.Ptr(), found: e.queue.Word(gpubatch.WordResult), segments: uint32(e.gen.segments()),
	}
	if err := e.inSegments(ctx, e.kernel.borders, p); err != nil {
		return false, err
	}
	found, err := e.queue.Read(ctx, gpubatch.WordResult)
	if err != nil || found == 0 {
		return false, err
	}
	e.stale = true
	err = e.inSegments(ctx, e.kernel.inPlace, p)
	return err == nil, err
}

// reserveBorders makes room for the borders of a table: New does it for a fixed
// one, which is never larger.
func (e *gpuEngine) reserveBorders(g geometry) (err error) {
	if e.borders.Len() >= g.segments() {
		return nil
	}
	if err = e.borders.Free(); err == nil {
		e.borders, err = device.Make[uint32](e.dev, g.segments())
	}
	return err
}

// inSegments launches a kernel for all segments, some at a time, a warp for
// each, and waits for it.
func (e *gpuEngine) inSegments(ctx context.Context, k device.Kernel, p inPlaceParams) error {
	for ; p.lo < p.segments; p.lo = p.hi {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.hi = min(p.segments, p.lo+inPlaceSegments)
		grid := gpubatch.Wave(e.dev, int(p.hi-p.lo)*warpThreads)
		if err := device.Launch(e.queue.Stream, k, grid, gpubatch.Block, &p); err != nil {
			return err
		}
		// What is under way is waited for whatever becomes of the context: lookups
		// on other streams come next.
		if err := e.queue.Stream.Sync(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}
