package gphash

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// A GPU that is lost leaves the pool, which is memory of the host, as a crash does; and nothing
// runs on it any more that would change the pool. Calls in flight return the error of the device.
// The next writer looks through the pool on the CPU, as who opens one, and from then on the engine
// of the host runs all operations. That lets no reader in beside a change: changes that came in
// for the GPU without a bar are refused.

// rescue is what an engine of a GPU has for when that is lost.
type rescue struct {
	options   OpenOptions
	table     *core.Table // nil while the pool is opened: then a loss is an error as any
	submitted bool        // changes by streams since the last Sync

	lost atomic.Pointer[error] // the first error that said so
	over atomic.Bool           // the host works on the pool: it has taken over, or has not handed over yet
	work sync.WaitGroup
}

// note looks at an error of the device, and returns it. When it is lost, somebody has to take over
// who is in a writer's turn; whoever notes it may be a reader, for whom writers wait.
func (g *gpuEngine) note(err error) error {
	if !errors.Is(err, device.ErrLost) || g.table == nil || !g.lost.CompareAndSwap(nil, &err) {
		return err
	}
	g.options.Logger.Error("gphash: the GPU that works on a pool is lost", "error", err)
	g.work.Go(func() { // it counts, which takes over; by then the pool may be closed
		_ = g.table.Alone(all, "Recover", func(core.Counters) error { return nil })
	})
	return err
}

// takeOver mends the pool and leaves it to the engine of the host, in a writer's turn. While ctx
// ends it, or the pool is damaged, it is for the next one to try.
func (g *gpuEngine) takeOver(ctx context.Context) error {
	if g.over.Load() {
		return nil
	}
	h := g.host
	found, err := tableOf(h.pool)
	if err != nil {
		return fmt.Errorf("behind the loss of the GPU: %w", err)
	}
	h.live, h.closed, h.values, h.drained, h.next, h.unplaced = found.live, found.closed, found.values, 0, nil, 0
	report, err := h.inspect(ctx, OpenOptions{})
	if err != nil {
		return fmt.Errorf("behind the loss of the GPU: %w", err)
	}
	h.far, h.lost = nil, *g.lost.Load()
	err = h.resume(ctx, g.options) // no reader sees the pool yet
	g.over.Store(true)
	g.options.Logger.Warn("gphash: the pool goes on on the CPU",
		"keys", report.Keys, "unfinished", report.Unfinished, "tombs", report.Tombs, "moved", report.Moved, "resumed", report.Resumed)
	return err
}

// settle is for Close: a loss that no call has met is met here, and the pool is closed as it
// should be.
func (g *gpuEngine) settle() error {
	if g.table == nil {
		return nil
	}
	now, err := g.Counters(all)
	if err == nil && !g.over.Load() {
		err = g.home()
	}
	if err == nil {
		g.host.Parts().(*parts).counters = core.Tally{Live: now.Live, Used: now.Used}
	}
	g.work.Wait()
	return err
}

// ---- the engine, whichever works ------------------------------------------------------

// Caps is for [core.Engine], as are the methods that follow.
func (g *gpuEngine) Caps() core.Caps {
	c := g.Engine.Caps() // streams stay those of the GPU
	c.DeletesTakeRoom, c.Updates = g.host.redo != nil, true
	c.Beside = g.lost.Load() == nil && !g.over.Load() && !g.host.records()
	return c
}

// Counters takes over from a GPU that is lost, or hands over to one that has mapped the pool: every writer
// comes here before it does anything in the pool, and behind.
func (g *gpuEngine) Counters(ctx context.Context) (core.Counters, error) {
	g.takeUp()
	if g.lost.Load() == nil && !g.over.Load() {
		now, err := g.Engine.Counters(ctx)
		if g.note(err); g.lost.Load() == nil {
			return now, err
		}
	}
	if err := g.takeOver(ctx); err != nil {
		return core.Counters{}, err
	}
	return g.host.Counters(ctx)
}

func (g *gpuEngine) Look(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, count device.Ptr) (done, hits int, err error) {
	if g.over.Load() {
		return g.host.Look(ctx, s, l, b, count)
	}
	if g.host.records() {
		done, hits, err = g.lookStrings(ctx, b)
	} else {
		done, hits, err = g.Engine.Look(ctx, s, l, b, count)
	}
	return done, hits, g.note(err)
}

func (g *gpuEngine) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (int, error) {
	if g.over.Load() {
		return g.host.Export(ctx, l, lo, hi, out)
	}
	if g.host.records() {
		n, err := g.exportStrings(ctx, lo, hi, out)
		return n, g.note(err)
	}
	n, err := g.Engine.Export(ctx, l, lo, hi, out)
	return n, g.note(err)
}

// Lost tells Sync of the loss, if there are changes of which nobody knows what has become.
func (g *gpuEngine) Lost(ctx context.Context) (n int, err error) {
	unknown := g.submitted
	g.submitted = false
	if !g.over.Load() {
		n, err = g.Engine.Lost(ctx)
		return n, g.note(err)
	}
	if unknown {
		err = g.host.lost
	}
	return 0, err
}

// ---- what the host has the GPU do ----------------------------------------------------------

// Do is that of the engine of a GPU.
func (g *gpuEngine) Do(ctx context.Context, submit func(*device.Stream) error) error {
	return g.note(g.Engine.Do(ctx, submit))
}

// read copies memory of the GPU to the host.
func (g *gpuEngine) read(to []byte, from device.Ptr) error {
	return g.note(g.Stream.CopyOut(all, to, from))
}
