package ordered

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// engine is what the policy needs of a machine beside what all engines do.
type engine interface {
	core.Engine
	// compact moves all pairs to new memory, if no version is held.
	compact(ctx context.Context) error
	// ensure takes memory for so many pairs.
	ensure(pairs int) error
	// usage is what memory is used for.
	usage() usage
}

// usage is what memory is used for.
type usage struct {
	leaves   int // of the present
	room     int // leaves that there is memory for
	free     int // leaves that hold nothing
	versions int
	bytes    int // of leaves and indexes
}

// newEngine chooses the engine by the device and the widths.
func newEngine(dev device.Device, w batch.Widths, order uint64, fill int) (engine, *core.Leases, error) {
	host, ok := dev.(device.Host)
	if !ok {
		return nil, nil, fmt.Errorf("%w: there are no kernels for ordered maps yet, open a CPU", device.ErrUnsupported)
	}
	open, ok := map[[2]int]func(device.Host, uint64, int) (engine, *core.Leases, error){
		{4, 4}: newCPUEngine[uint32, uint32], {4, 8}: newCPUEngine[uint32, uint64],
		{8, 4}: newCPUEngine[uint64, uint32], {8, 8}: newCPUEngine[uint64, uint64],
	}[[2]int{w.Key, w.Val}]
	if !ok {
		return nil, nil, core.Invalid("no engine for keys of %d and values of %d bytes", w.Key, w.Val)
	}
	return open(host, order, fill)
}

// policy decides when memory is given back. There is no more to decide: engines take
// memory as they go.
type policy struct {
	opts   Options
	engine engine
}

// Flags is for [core.Policy].
func (p *policy) Flags(op.Kind) batch.Flags { return batch.Order }

// Mixed is for [core.Policy].
func (p *policy) Mixed() batch.Flags { return 0 }

// Before is for [core.Policy].
func (p *policy) Before(_ context.Context, _ core.Counters, _ *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	return b.N, false, nil
}

// Retry is for [core.Policy]: an engine without memory says so, and operations don't fail one
// by one.
func (p *policy) Retry(_ context.Context, _ core.Counters, failed *batch.Batch) (still []uint32, more bool, err error) {
	return core.All(failed.N), false, nil
}

// After is for [core.Policy].
func (p *policy) After(ctx context.Context, _ core.Counters, delta int) error {
	u := p.engine.usage()
	if delta >= 0 || u.room <= p.least() || u.leaves > u.room/shrinkShare {
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

// Describe is for [core.Policy].
func (p *policy) Describe() string { return describe(p.engine.usage().leaves) }
