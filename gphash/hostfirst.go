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
// engine of the host recovers the pool and works on it. The first writer after the end of the
// mapping hands the pool over, between two batches and with readers excluded. This is the reverse
// of the loss of a GPU (gpu_deferred.go). The host then passes its state of the pool to the GPU. A
// pool that cannot be mapped stays with the host.

// mapping is the mapping of a pool on which the host works first.
type mapping struct {
	cancel context.CancelFunc
	done   chan struct{}         // closed when the pool is mapped, or will not be
	failed atomic.Pointer[error] // why the GPU does not work on it
	// the pool has been handed over, or stays with the host; under the writer lock
	decided bool
}

// mapTo is device.Map. Tests make it slow.
var mapTo = device.Map

// beginOnHost recovers a pool on the host, and begins to map it.
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
	err = fmt.Errorf("the pool stays with the CPU: %w", err)
	m.failed.Store(&err)
}

// cancelMapping ends a mapping and waits for that. The pool is not handed over any more.
func (g *gpuEngine) cancelMapping() {
	if m := g.mapping; m != nil {
		m.cancel()
		<-m.done
		m.decided = true
	}
}

// handOver hands the pool over if it has been mapped. The caller holds the writer lock.
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

// passToGPU passes the host's state of a pool to the GPU that has mapped it. No kernel writes to
// the pool meanwhile, so after an error the host goes on as before.
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

// Await implements [core.Awaiter]. Batches on the GPU wait for the mapping of the pool.
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
	// Alone reads the counters, which hands the pool over.
	if err := g.table.WithWriteLock(ctx, "Mapped", func(core.Counters) error { return nil }); err != nil {
		return err
	}
	if err := m.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// WaitMapped waits until the GPU works on the pool, if OpenOptions.HostFirst makes the CPU do so
// first. Otherwise it returns the reason.
func (x *Index) WaitMapped(ctx context.Context) error { return waitMapped(ctx, x.core) }

// WaitMapped is [Index.WaitMapped].
func (m *Map[K, V]) WaitMapped(ctx context.Context) error { return waitMapped(ctx, m.core) }

// WaitMapped is [Index.WaitMapped].
func (x *Strings) WaitMapped(ctx context.Context) error { return waitMapped(ctx, x.core) }

func waitMapped(ctx context.Context, t *core.Table) error {
	if g, ok := t.Engine.(*gpuEngine); ok {
		return g.Await(ctx)
	}
	return nil
}
