package btree

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// cpuEngine runs on the cores of the host. K and V are the stored types of keys and values. T is
// the type of both in a slot.
//
// Changes exclude lookups, so nodes need no latches and no versions in their states. A batch is
// sorted, and each subtree's operations are run by one core (cpu_change.go). Nodes that leave the
// tree are free at once, unless a version needs them.
type cpuEngine[K, V, T word] struct {
	cpu.Engine
	shape
	flip   K
	fill   int // slots per node that a bulk load uses
	sorter cpu.Sorter[K]
	clock  uint64 // time of the newest version in all generations
}

func newCPUEngine(dev device.Host, w batch.Widths, flip uint64, o *Options) (engine, *core.Leases, error) {
	open, err := cpu.Choose(w, openCPU[uint32, uint32, uint32], openCPU[uint32, uint64, uint64],
		openCPU[uint64, uint32, uint64], openCPU[uint64, uint64, uint64], nil, nil)
	if err != nil {
		return nil, nil, err
	}
	return open(dev, shapeOf(w.Slot), flip, o)
}

func openCPU[K, V, T word](dev device.Host, s shape, flip uint64, o *Options) (engine, *core.Leases, error) {
	e := &cpuEngine[K, V, T]{Engine: cpu.Engine{Device: dev}, shape: s, flip: K(flip), fill: fillOf(o.Fill, s.slots)}
	first, err := e.make(newNodes)
	if err != nil {
		return nil, nil, err
	}
	e.Leases = core.NewLeases(first)
	return e, e.Leases, nil
}

// make returns an empty tree with memory for at least the given number of nodes.
func (e *cpuEngine[K, V, T]) make(nodes int) (*cpuTree[T], error) {
	t, err := newTree(e.Device, e.shape, max(nodes, newNodes))
	if err != nil {
		return nil, err
	}
	c := &cpuTree[T]{tree: t}
	c.reset()
	return c, nil
}

func (e *cpuEngine[K, V, T]) tree() *cpuTree[T] { return e.Parts().(*cpuTree[T]) }

// Caps implements core.Engine.
func (e *cpuEngine[K, V, T]) Caps() core.Caps { return core.Caps{Updates: true} }

// Clear implements core.Engine. If the tree has open leases, a new tree replaces it.
func (e *cpuEngine[K, V, T]) Clear(context.Context) error {
	if !e.Leases.Held() {
		e.tree().reset()
		return nil
	}
	to, err := e.make(newNodes)
	if err != nil {
		return err
	}
	return e.Leases.Replace(to)
}

// ensure implements engine.
func (e *cpuEngine[K, V, T]) ensure(pairs int) error { return e.tree().grow(nodesFor(pairs, e.fill)) }

// fits implements engine. A change allocates its own memory.
func (e *cpuEngine[K, V, T]) fits(_, _ int) bool { return true }

// presort and discardPresorted implement engine. They do nothing on a CPU.
func (e *cpuEngine[K, V, T]) presort(*device.Stream, *batch.Batch) error { return nil }
func (e *cpuEngine[K, V, T]) discardPresorted(*batch.Batch)              {}

// isLoad implements engine. Change decides itself whether to load.
func (e *cpuEngine[K, V, T]) isLoad(*batch.Batch) bool { return false }

// reserveOps implements engine.
func (e *cpuEngine[K, V, T]) reserveOps(n int, _ bool) (int, error) { return n, nil }

// reclaim implements engine. Dead nodes become free at once on a CPU.
func (e *cpuEngine[K, V, T]) reclaim(context.Context) error { return nil }

// compact implements engine. If the tree has open leases, it stays in memory beside the new tree.
func (e *cpuEngine[K, V, T]) compact(ctx context.Context) error {
	from := e.tree()
	n := int(from.tally.Live)
	to, err := e.make(nodesFor(n, e.fill))
	if err != nil {
		return err
	}
	if n > 0 {
		if err = to.build(ctx, e.Device, n, e.fill, from.copier()); err != nil {
			return errors.Join(err, to.Free())
		}
	}
	return e.Leases.Replace(to)
}

// usage implements engine.
func (e *cpuEngine[K, V, T]) usage() usage {
	t := e.tree()
	return usage{nodes: t.inUse() - t.versions.nKept(), kept: t.versions.nKept(), capacity: t.capacity(), bytes: t.buf.Size}
}
