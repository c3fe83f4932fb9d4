package btree

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// engine has the methods that the policy calls in addition to those of [core.Engine].
type engine interface {
	core.Engine
	// ensure allocates memory for a bulk load of the given number of pairs.
	ensure(pairs int) error
	// fits reports whether memory certainly suffices for n operations. inserts is the number of
	// operations that may insert a key.
	fits(n, inserts int) bool
	// isLoad reports whether a batch would be laid out as a new tree. A load allocates its own
	// memory.
	isLoad(b *batch.Batch) bool
	// reserveOps allocates memory for up to n operations, which may insert if inserts is set. It
	// returns the number of operations that fit. If memory is short, they are fewer than n, but at
	// least one.
	reserveOps(n int, inserts bool) (int, error)
	// presort submits the sort of a batch before capacity for its change is known. discardPresorted
	// discards the sorted batch unless it is b.
	presort(s *device.Stream, b *batch.Batch) error
	discardPresorted(b *batch.Batch)
	// reclaim makes dead nodes free. It does nothing if a lease is held.
	reclaim(ctx context.Context) error
	// compact moves all pairs to as few nodes as Options.Fill allows, and drops dead nodes.
	compact(ctx context.Context) error
	// usage returns the use of memory.
	usage() usage
}

// usage is the use of memory when the counters were last read. All but bytes are numbers of nodes.
type usage struct {
	nodes    int // nodes in use
	dead     int // nodes merged into others and not yet free
	kept     int // nodes that only snapshots read
	capacity int
	bytes    int
}

// newEngine makes the engine for a device: Go code on the host, kernels elsewhere. An exclusive or
// with flip converts keys to stored form.
func newEngine(dev device.Device, w batch.Widths, flip uint64, o *Options) (engine, *core.Leases, error) {
	if host, ok := dev.(device.Host); ok {
		return newCPUEngine(host, w, flip, o)
	}
	return newGPUEngine(dev, w, flip, o)
}

// policy decides when memory is released, and how many operations of a batch run at once.
type policy struct {
	opts   Options
	engine engine
}

// Flags implements core.Policy.
func (p *policy) Flags(op.Kind) batch.Flags { return p.MixedFlags() }

// MixedFlags implements core.Policy.
func (p *policy) MixedFlags() batch.Flags {
	if p.opts.Unordered {
		return 0
	}
	return batch.Order
}

// Prepare implements core.Policy. It allocates all nodes that the change may need.
func (p *policy) Prepare(_ context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	p.engine.discardPresorted(b)
	if p.engine.isLoad(b) {
		return min(b.N, maxLoad), false, nil
	}
	inserts := b.N
	if !b.Inserts() {
		inserts = 0
	}
	if !now.Exact && !p.engine.fits(b.N, inserts) {
		return 0, false, p.engine.presort(s, b)
	}
	n, err = p.engine.reserveOps(min(b.N, maxOps), inserts != 0)
	return n, false, err
}

// maxOps is the maximum number of operations to run at once.
const maxOps = 1 << 24

// Retry implements core.Policy. It never retries, since no operation fails for lack of capacity.
func (p *policy) Retry(_ context.Context, _ core.Counters, failed *batch.Batch) (remaining []uint32, retry bool, err error) {
	return core.AllRows(failed.N), false, nil
}

// Trim implements core.Policy.
func (p *policy) Trim(ctx context.Context, now core.Counters, delta int) error {
	u := p.engine.usage()
	switch {
	case delta >= 0:
		return nil
	case u.nodes >= shrinkNodes && int(now.Live) < u.nodes*shrinkPairs:
		return p.engine.compact(ctx)
	case u.dead >= reclaimNodes && u.dead >= u.nodes/reclaimShare:
		return p.engine.reclaim(ctx)
	}
	return nil
}

const (
	// A tree of at least shrinkNodes nodes is compacted if it has fewer than shrinkPairs pairs per
	// node.
	shrinkNodes, shrinkPairs = 1 << 10, 2
	// Dead nodes are reclaimed if they number at least reclaimNodes, and at least one per
	// reclaimShare nodes in use.
	reclaimNodes, reclaimShare = 1 << 8, 8
)

// Compact implements core.Policy.
func (p *policy) Compact(ctx context.Context, _ core.Counters) error { return p.engine.compact(ctx) }

// Describe implements core.Policy.
func (p *policy) Describe() string { return describe(p.engine.usage().nodes) }
