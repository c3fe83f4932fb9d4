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

// Losing a GPU leaves the pool, which is host memory, as a crash does. Nothing that could change
// the pool still runs on the GPU. Calls in flight return the device's error. The next writer
// inspects the pool on the CPU, as Open does. From then on the engine of the host runs all
// operations. That engine does not allow readers alongside a change. So it refuses changes that
// were admitted for the GPU without excluding readers.

// failover is the state of a GPU engine that concerns the loss of the GPU.
type failover struct {
	options   OpenOptions
	table     *core.Table // nil while the pool is being opened; a loss is then an ordinary error
	submitted bool        // streams have submitted changes since the last Sync

	lossErr atomic.Pointer[error] // first error that reported the loss
	// the host works on the pool, after a loss or before the GPU has mapped it
	onHost atomic.Bool
	work   sync.WaitGroup
}

// noteLoss records the loss of the device if err reports it, and returns err. Failing over requires
// the writer lock. The caller may be a reader that a writer waits for, so a goroutine does it.
func (g *gpuEngine) noteLoss(err error) error {
	if !errors.Is(err, device.ErrLost) || g.table == nil || !g.lossErr.CompareAndSwap(nil, &err) {
		return err
	}
	g.options.Logger.Error("gphash: the GPU that works on a pool is lost", "error", err)
	// WithWriteLock reads the counters, which fails over; an error means that the pool was closed
	g.work.Go(func() {
		_ = g.table.WithWriteLock(uncancelled, "Recover", func(core.Counters) error { return nil })
	})
	return err
}

// failOver recovers the pool and lets the engine of the host run all operations. The caller holds
// the writer lock. If ctx ends or the pool is damaged, the next writer tries again.
func (g *gpuEngine) failOver(ctx context.Context) error {
	if g.onHost.Load() {
		return nil
	}
	h := g.host
	found, err := tableOf(h.pool)
	if err != nil {
		return fmt.Errorf("after the loss of the GPU: %w", err)
	}
	h.live, h.closed, h.values, h.drained, h.next, h.skippedLevel = found.live, found.closed, found.values, 0, nil, 0
	report, err := h.inspect(ctx, OpenOptions{})
	if err != nil {
		return fmt.Errorf("after the loss of the GPU: %w", err)
	}
	h.accel, h.lostErr = nil, *g.lossErr.Load()
	err = h.resume(ctx, g.options) // no reader uses the host's engine yet
	g.onHost.Store(true)
	g.options.Logger.Warn("gphash: the pool continues on the CPU",
		"keys", report.Keys, "unfinished", report.Unfinished, "tombs", report.Tombs, "moved", report.Moved, "resumed", report.Resumed)
	return err
}

// checkLoss detects a loss that no call has noticed, so that Close handles the pool correctly. It
// also copies the counters to the host.
func (g *gpuEngine) checkLoss() error {
	if g.table == nil {
		return nil
	}
	now, err := g.ReadCounters(uncancelled)
	if err == nil && !g.onHost.Load() {
		err = g.writeBackTail()
	}
	if err == nil {
		g.host.Parts().(*parts).counters = core.Tally{Live: now.Live, Used: now.Used}
	}
	g.work.Wait()
	return err
}

// ---- the engine, on the GPU or on the host -------------------------------------------

// Caps and the methods below implement [core.Engine].
func (g *gpuEngine) Caps() core.Caps {
	c := g.Engine.Caps() // streams still belong to the GPU
	c.DeletesMayOverflow, c.Updates = g.host.redo != nil, true
	c.ConcurrentReads = g.lossErr.Load() == nil && !g.onHost.Load() && !g.host.records()
	return c
}

// ReadCounters fails over from a lost GPU, or hands the pool over to a GPU that has mapped it.
// Every writer calls it before and after its work on the pool.
func (g *gpuEngine) ReadCounters(ctx context.Context) (core.Counters, error) {
	g.handOver()
	if g.lossErr.Load() == nil && !g.onHost.Load() {
		now, err := g.Engine.ReadCounters(ctx)
		if g.noteLoss(err); g.lossErr.Load() == nil {
			return now, err
		}
	}
	if err := g.failOver(ctx); err != nil {
		return core.Counters{}, err
	}
	return g.host.ReadCounters(ctx)
}

func (g *gpuEngine) Lookup(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, count device.Ptr) (done, hits int, err error) {
	if g.onHost.Load() {
		return g.host.Lookup(ctx, s, l, b, count)
	}
	if g.host.records() {
		done, hits, err = g.lookStrings(ctx, b)
	} else {
		done, hits, err = g.Engine.Lookup(ctx, s, l, b, count)
	}
	return done, hits, g.noteLoss(err)
}

func (g *gpuEngine) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (int, error) {
	if g.onHost.Load() {
		return g.host.Export(ctx, l, lo, hi, out)
	}
	if g.host.records() {
		n, err := g.exportStrings(ctx, lo, hi, out)
		return n, g.noteLoss(err)
	}
	n, err := g.Engine.Export(ctx, l, lo, hi, out)
	return n, g.noteLoss(err)
}

// ReadDropped makes Sync return the loss if the results of submitted changes are unknown.
func (g *gpuEngine) ReadDropped(ctx context.Context) (n int, err error) {
	unknown := g.submitted
	g.submitted = false
	if !g.onHost.Load() {
		n, err = g.Engine.ReadDropped(ctx)
		return n, g.noteLoss(err)
	}
	if unknown {
		err = g.host.lostErr
	}
	return 0, err
}

// ---- work of the GPU for the host ----------------------------------------------------------

// RunSync calls gpu.Engine.RunSync and records a loss.
func (g *gpuEngine) RunSync(ctx context.Context, submit func(*device.Stream) error) error {
	return g.noteLoss(g.Engine.RunSync(ctx, submit))
}

// copyOut copies device memory to the host and records a loss.
func (g *gpuEngine) copyOut(to []byte, from device.Ptr) error {
	return g.noteLoss(g.Stream.CopyOut(uncancelled, to, from))
}
