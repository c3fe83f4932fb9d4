package ordered

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// engine has the methods that the policy calls in addition to those of [core.Engine].
type engine interface {
	core.Engine
	// compact moves all pairs to new memory. A CPU engine does nothing while a version is held. On
	// a GPU held versions keep their old memory.
	compact(ctx context.Context) error
	// ensure allocates memory for the given number of pairs.
	ensure(pairs int) error
	// extent returns an upper bound on the number of leaves in use, and the number of leaves that
	// fit in memory.
	extent() (leaves, capacity int)
	// usage returns the current use of memory.
	usage() (usage, error)
}

type usage struct {
	leaves   int // leaves of the map, without those that only snapshots use
	capacity int // in leaves
	free     int // leaves that are free
	versions int
	bytes    int // memory of leaves and indexes
}

// newEngine chooses the engine by device and widths: Go code on the host, kernels elsewhere.
func newEngine(dev device.Device, w batch.Widths, order uint64, fill int) (engine, *core.Leases, error) {
	host, ok := dev.(device.Host)
	if !ok {
		return newGPUEngine(dev, w, order, fill)
	}
	open, err := cpu.Choose(w, newCPUEngine[uint32, uint32], newCPUEngine[uint32, uint64],
		newCPUEngine[uint64, uint32], newCPUEngine[uint64, uint64], nil, nil)
	if err != nil {
		return nil, nil, err
	}
	return open(host, order, fill)
}

// policy decides when memory is released. Engines allocate memory as they need it.
type policy struct {
	core.ResolvingPolicy
	opts   Options
	engine engine
}

// Prepare implements core.Policy.
func (p *policy) Prepare(_ context.Context, _ core.Counters, _ *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	return b.N, false, nil
}

// Trim implements core.Policy.
func (p *policy) Trim(ctx context.Context, _ core.Counters, delta int) error {
	if leaves, capacity := p.engine.extent(); delta >= 0 || capacity <= p.minLeaves() || leaves > capacity/shrinkShare {
		return nil
	}
	return p.engine.compact(ctx)
}

// minLeaves returns the number of leaves for which memory is always kept.
func (p *policy) minLeaves() int {
	n := firstBlock
	for n*fillOf(p.opts.Fill) < p.opts.Capacity {
		n *= 2
	}
	return n
}

// Compact implements core.Policy.
func (p *policy) Compact(ctx context.Context, _ core.Counters) error { return p.engine.compact(ctx) }

func (p *policy) leaves() int {
	n, _ := p.engine.extent()
	return n
}

// Describe implements core.Policy.
func (p *policy) Describe() string { return describe(p.leaves()) }
