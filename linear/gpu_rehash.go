package linear

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
)

// Maximum work per launch that processes a whole table. The context is checked between launches. A
// launch takes at most some 20 ms.
const (
	rehashBytes     = 1 << 30 // bytes of the old table
	inPlaceSegments = 1 << 19
)

func (e *gpuEngine) rehash(ctx context.Context, lines uint32, _ bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	to, err := allocate(e.Dev, geometry{seed: e.geometry().seed, lines: lines})
	if err != nil {
		return err
	}
	_, err = e.Move(ctx, to, func(s *device.Stream, from core.Parts, dropped device.Ptr) error {
		return e.move(ctx, s, from.(*generation), to, dropped)
	})
	return err
}

// move copies the live pairs of one generation to another, empty one. It stops after a launch in
// which a pair found no slot, because other pairs that crowd there would search a whole path each.
func (e *gpuEngine) move(ctx context.Context, s *device.Stream, from, to *generation, dropped device.Ptr) error {
	p := rehashParams{from: refOf(from), to: refOf(to), lost: dropped}
	for lines := from.lines + 1; p.lo < lines; p.lo = p.hi {
		p.hi = min(lines, p.lo+rehashBytes/lineBytes)
		slots := int(p.hi-p.lo) * lineBytes / e.Widths.Slot
		if err := device.Launch(s, e.kernel.rehash, gpu.Wave(e.Dev, slots), gpu.Block, &p); err != nil {
			return err
		}
		n, err := e.ReadWord(context.WithoutCancel(ctx), gpu.WordResult)
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case n > 0:
			return fmt.Errorf("keys crowd in %d lines: %w", to.lines, op.ErrFull)
		}
	}
	return nil
}

func (e *gpuEngine) keepTable() *core.Lease { return e.Leases.Keep() }

func (e *gpuEngine) revert(to *core.Lease) error {
	return e.RunSync(context.Background(), func(*device.Stream) error { return e.Leases.Revert(to) })
}

// rehashInPlace uses two kernels. The first finds all borders before anything changes, since a line
// between two borders may get empty slots.
func (e *gpuEngine) rehashInPlace(ctx context.Context) (done bool, err error) {
	g := e.Parts().(*generation)
	if err := e.reserveBorders(g.geometry); err != nil {
		return false, err
	}
	p := inPlaceParams{
		table: refOf(g), borders: e.borders.Ptr(), found: e.Word(gpu.WordResult), segments: uint32(g.segments()),
	}
	err = e.RunExclusive(ctx, func(s *device.Stream) error {
		if e.Leases.Held() { // no iteration can begin until f returns
			return nil
		}
		if err := e.SetWord(s, gpu.WordResult, 0); err != nil {
			return err
		}
		if err := e.launchSegments(ctx, e.kernel.borders, p); err != nil {
			return err
		}
		found, err := e.ReadWord(context.WithoutCancel(ctx), gpu.WordResult)
		if err != nil || found == 0 {
			return err
		}
		err = e.launchSegments(ctx, e.kernel.inPlace, p)
		done = err == nil
		return err
	})
	return done, err
}

// reserveBorders allocates memory for the borders of a table. For a fixed table, which never grows,
// newGPUEngine calls it once.
func (e *gpuEngine) reserveBorders(g geometry) (err error) {
	if e.borders.Len() >= g.segments() {
		return nil
	}
	if err = e.borders.Free(); err == nil {
		e.borders, err = device.Make[uint32](e.Dev, g.segments())
	}
	return err
}

// launchSegments launches a kernel for all segments, with one warp per segment, in several
// launches. It waits for each launch except the last and checks the context between them. The
// caller waits for the last launch.
func (e *gpuEngine) launchSegments(ctx context.Context, k device.Kernel, p inPlaceParams) error {
	for ; p.lo < p.segments; p.lo = p.hi {
		if p.lo > 0 {
			if err := e.Stream.Sync(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		p.hi = min(p.segments, p.lo+e.kernel.segments)
		if err := device.Launch(e.Stream, k, gpu.Wave(e.Dev, int(p.hi-p.lo)*warpThreads), gpu.Block, &p); err != nil {
			return err
		}
	}
	return nil
}
