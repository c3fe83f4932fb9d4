package gphash

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
)

// A GPU may take long to map a pool, since its driver locks the pages one by one. Meanwhile the
// engine of the host recovers the pool and works on it. The first writer after the mapping is
// complete hands the pool over, between two batches and with readers excluded. The host then sends
// its state of the pool to the GPU. This is the reverse of losing a GPU (gpu_deferred.go). If
// mapping fails, the host keeps the pool.

// mapping is a mapping in progress, during which the host works on the pool.
type mapping struct {
	cancel context.CancelFunc
	done   chan struct{}         // closed when mapping has succeeded or failed
	failed atomic.Pointer[error] // why the GPU does not work on the pool
	// the pool was handed over, or the host keeps it; guarded by the writer lock
	decided bool
}

// mapTo is device.Map, except in tests that slow it down.
var mapTo = device.Map

// beginOnHost recovers a pool on the host and starts mapping it to the GPU.
func (g *gpuEngine) beginOnHost(ctx context.Context, o OpenOptions) (*Report, error) {
	report, err := g.host.inspect(ctx, o)
	if err == nil {
		err = timed(&report.Times.Resize, func() error { return g.host.resume(ctx, o) })
	}
	if err != nil {
		return report, err
	}
	g.onHost.Store(true)
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m := &mapping{cancel: cancel, done: make(chan struct{})}
	g.mapping = m
	go func() {
		defer close(m.done)
		start := time.Now()
		if err := g.k.attach(background, &Times{}); err != nil {
			m.fail(err)
			return
		}
		g.options.Logger.Info("gphash: a GPU has mapped the pool", "took", time.Since(start))
	}()
	return report, nil
}

func (m *mapping) fail(err error) {
	err = fmt.Errorf("the pool stays on the CPU: %w", err)
	m.failed.Store(&err)
}

// cancelMapping stops a mapping and waits until it has stopped. The host then keeps the pool.
func (g *gpuEngine) cancelMapping() {
	if m := g.mapping; m != nil {
		m.cancel()
		<-m.done
		m.decided = true
	}
}

// handOver hands the pool over to the GPU if it has been mapped. The caller holds the writer lock.
func (g *gpuEngine) handOver() {
	m := g.mapping
	if m == nil || m.decided {
		return
	}
	select {
	case <-m.done:
	default:
		return
	}
	m.decided = true
	if m.failed.Load() == nil {
		err := g.Leases.BeginExclusive(uncancelled)
		if err == nil {
			err = g.passToGPU()
			g.Leases.EndExclusive()
		}
		if err != nil {
			m.fail(err)
		}
	}
	if err := m.failed.Load(); err != nil {
		g.options.Logger.Error("gphash: a GPU does not work on the pool", "error", *err)
	}
}

// passToGPU sends the host's state of a pool to the GPU that has mapped it. No kernel writes to the
// pool meanwhile, so after an error the host continues as before.
func (g *gpuEngine) passToGPU() error {
	if err := g.host.recycle(); err != nil {
		return err
	}
	err := g.prepare()
	if err == nil {
		err = g.k.alloc()
	}
	if err == nil {
		g.host.accel = g
		now := g.host.Parts().(*parts).counters
		if err = g.start(&now); err == nil {
			err = g.sendSpace()
		}
	}
	if err == nil {
		err = g.setUpCaches(g.options)
	}
	if err != nil {
		g.host.accel = nil
		return err
	}
	g.onHost.Store(false)
	return nil
}

// Await implements [core.Awaiter]. Batches on the GPU wait until the pool is mapped.
func (g *gpuEngine) Await(ctx context.Context) error {
	m := g.mapping
	if m == nil || !g.onHost.Load() || g.lossErr.Load() != nil {
		return nil
	}
	select {
	case <-m.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	// WithWriteLock reads the counters, which hands the pool over.
	if err := g.table.WithWriteLock(ctx, "Mapped", func(core.Counters) error { return nil }); err != nil {
		return err
	}
	if err := m.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// WaitMapped waits until the GPU has taken the pool over from the CPU. If the GPU cannot do so,
// WaitMapped returns the reason. Without OpenOptions.HostFirst it returns at once.
func (x *Index) WaitMapped(ctx context.Context) error { return waitMapped(ctx, x.core) }

// WaitMapped waits until the GPU has taken the pool over from the CPU. See [Index.WaitMapped].
func (m *Map[K, V]) WaitMapped(ctx context.Context) error { return waitMapped(ctx, m.core) }

// WaitMapped waits until the GPU has taken the pool over from the CPU. See [Index.WaitMapped].
func (x *Strings) WaitMapped(ctx context.Context) error { return waitMapped(ctx, x.core) }

func waitMapped(ctx context.Context, t *core.Table) error {
	if g, ok := t.Engine.(*gpuEngine); ok {
		return g.Await(ctx)
	}
	return nil
}
