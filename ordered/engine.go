package ordered

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// engine is what the policy needs of a machine beside what all engines do.
type engine interface {
	core.Engine
	// compact moves all pairs to new memory, if no version is held, or versions keep theirs.
	compact(ctx context.Context) error
	// ensure takes memory for so many pairs.
	ensure(pairs int) error
	// extent is how many leaves there are at most, and how many there may be in the memory that there is.
	extent() (leaves, room int)
	// usage is what memory is used for.
	usage() (usage, error)
}

// usage is what memory is used for.
type usage struct {
	leaves   int // of the present
	room     int // leaves that there is memory for
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

// policy decides when memory is given back. There is no more to decide: engines take
// memory as they go.
type policy struct {
	core.Settled
	opts   Options
	engine engine
}

// Before is for [core.Policy].
func (p *policy) Before(_ context.Context, _ core.Counters, _ *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	return b.N, false, nil
}

// After is for [core.Policy].
func (p *policy) After(ctx context.Context, _ core.Counters, delta int) error {
	if leaves, room := p.engine.extent(); delta >= 0 || room <= p.least() || leaves > room/shrinkShare {
		return nil
	}
	return p.engine.compact(ctx)
}

// least is the number of leaves that there is memory for at least.
func (p *policy) least() int {
	n := firstBlock
	for n*fillOf(p.opts.Fill) < p.opts.Capacity {
		n *= 2
	}
	return n
}

// Compact is for [core.Policy].
func (p *policy) Compact(ctx context.Context, _ core.Counters) error { return p.engine.compact(ctx) }

func (p *policy) leaves() int {
	n, _ := p.engine.extent()
	return n
}

// Describe is for [core.Policy].
func (p *policy) Describe() string { return describe(p.leaves()) }
