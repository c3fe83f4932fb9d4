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

// A lost GPU leaves the pool, which is memory of the host, as a crash does. Nothing runs on it any
// more that could change the pool. Calls in flight return the error of the device. The next writer
// inspects the pool on the CPU, as Open does, and from then on the engine of the host runs all
// operations. That engine admits no readers alongside a change, so changes that were admitted for
// the GPU without excluding readers are refused.

// rescue is the state of a GPU's engine for the loss of the GPU.
type rescue struct {
	options   OpenOptions
	table     *core.Table // nil while the pool is being opened; then a loss is an ordinary error
	submitted bool        // changes by streams since the last Sync

	lost atomic.Pointer[error] // the first error that reported the loss
	// The host works on the pool: it has taken over, or has not handed over yet.
	over atomic.Bool
	work sync.WaitGroup
}

// note records the loss of the device if err reports it, and returns err. A takeover requires the
// writer lock. The caller may be a reader that a writer waits for, so a goroutine takes over.
func (g *gpuEngine) note(err error) error {
	if !errors.Is(err, device.ErrLost) || g.table == nil || !g.lost.CompareAndSwap(nil, &err) {
		return err
	}
	g.options.Logger.Error("gphash: the GPU that works on a pool is lost", "error", err)
	g.work.Go(func() { // Alone counts, which takes over; by then the pool may be closed
		_ = g.table.Alone(all, "Recover", func(core.Counters) error { return nil })
	})
	return err
}

// takeOver recovers the pool and passes it to the engine of the host. The caller holds the writer
// lock. If ctx ends or the pool is damaged, the next writer tries again.
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

// settle finds a loss that no call has met, before Close, so that the pool is closed properly.
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

// ---- the engine, on the GPU or on the host -------------------------------------------

// Caps implements [core.Engine], as do the methods that follow.
func (g *gpuEngine) Caps() core.Caps {
	c := g.Engine.Caps() // streams stay those of the GPU
	c.DeletesTakeRoom, c.Updates = g.host.redo != nil, true
	c.Beside = g.lost.Load() == nil && !g.over.Load() && !g.host.records()
	return c
}

// Counters takes over from a lost GPU, or hands over to one that has mapped the pool. Every writer
// calls it before and after its work on the pool.
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

// Lost makes Sync return the loss, if the outcome of some changes is unknown.
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

// ---- work of the GPU for the host ----------------------------------------------------------

// Do is gpu.Engine.Do, which also notes a loss.
func (g *gpuEngine) Do(ctx context.Context, submit func(*device.Stream) error) error {
	return g.note(g.Engine.Do(ctx, submit))
}

// read copies memory of the GPU to the host.
func (g *gpuEngine) read(to []byte, from device.Ptr) error {
	return g.note(g.Stream.CopyOut(all, to, from))
}
