package ordered

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// engine is what the policy requires of an engine beside [core.Engine].
type engine interface {
	core.Engine
	// compact moves all pairs to new memory if no version is held, or if versions keep theirs.
	compact(ctx context.Context) error
	// ensure allocates memory for that many pairs.
	ensure(pairs int) error
	// extent returns the maximum number of leaves in use, and the number that the memory allows.
	extent() (leaves, capacity int)
	// usage returns the use of memory.
	usage() (usage, error)
}

// usage is the use of memory.
type usage struct {
	leaves   int // of the present
	capacity int // in leaves
	free     int // leaves that hold nothing
	versions int
	bytes    int // of leaves and indexes
}

// newEngine chooses the engine by the device and the widths: Go on the host, kernels on any other.
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

// policy decides when memory is released. Nothing else needs a decision, since engines allocate
// memory as they go.
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

// minLeaves returns the minimum number of leaves to keep memory for.
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
