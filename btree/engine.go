package btree

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// engine is what a machine does beside [core.Engine].
type engine interface {
	core.Engine
	// ensure takes memory for so many pairs, loaded in bulk.
	ensure(pairs int) error
	// fits reports whether there certainly is memory for changes of n operations, so many of which may insert.
	fits(n, inserts int) bool
	// loads reports whether a batch is laid out as a new tree, for which memory is taken then.
	loads(b *batch.Batch) bool
	// room takes memory for changes of n operations at the most, all or none of which may insert, and
	// returns for how many there is: fewer, if memory is short, but one at least.
	room(n int, inserts bool) (int, error)
	// sortAhead submits what a change of a batch on the device begins with, before there is room for it, and keepAhead forgets that unless it is
	// of this batch.
	sortAhead(s *device.Stream, b *batch.Batch) error
	keepAhead(b *batch.Batch)
	// reclaim makes dead nodes free, when no reader is under way.
	reclaim(ctx context.Context) error
	// compact moves all pairs to as few nodes as Options.Fill says, and frees dead ones.
	compact(ctx context.Context) error
	// usage is what memory is used for.
	usage() usage
}

// usage is what memory is used for, as of the last reading of the counters.
type usage struct {
	nodes int // in use
	dead  int // merged into others
	kept  int // that only snapshots read
	room  int // that there is memory for
	bytes int
}

// newEngine makes the engine for a device: Go on the host, kernels on any other. Keys become
// unsigned numbers in order by exclusive or with flip.
func newEngine(dev device.Device, w batch.Widths, flip uint64, o *Options) (engine, *core.Leases, error) {
	if host, ok := dev.(device.Host); ok {
		return newCPUEngine(host, w, flip, o)
	}
	return newGPUEngine(dev, w, flip, o)
}

// policy decides when memory is given back, and how much of a batch there is room for.
type policy struct {
	opts   Options
	engine engine
}

// Flags is for [core.Policy].
func (p *policy) Flags(op.Kind) batch.Flags { return p.Mixed() }

// Mixed is for [core.Policy].
func (p *policy) Mixed() batch.Flags {
	if p.opts.Unordered {
		return 0
	}
	return batch.Order
}

// Before is for [core.Policy]: a change has all nodes that it may need before it begins.
func (p *policy) Before(_ context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	p.engine.keepAhead(b)
	if p.engine.loads(b) {
		return min(b.N, maxLoad), false, nil
	}
	inserts := b.N
	if !b.Inserts() {
		inserts = 0
	}
	if !now.Exact && !p.engine.fits(b.N, inserts) {
		return 0, false, p.engine.sortAhead(s, b)
	}
	n, err = p.engine.room(min(b.N, maxOps), inserts != 0)
	return n, false, err
}

// maxOps is the number of operations that are run at once.
const maxOps = 1 << 24

// Retry is for [core.Policy]: no operation finds no room.
func (p *policy) Retry(_ context.Context, _ core.Counters, failed *batch.Batch) (still []uint32, more bool, err error) {
	return core.All(failed.N), false, nil
}

// After is for [core.Policy].
func (p *policy) After(ctx context.Context, now core.Counters, delta int) error {
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
	// A tree of shrinkNodes and more that has fewer than shrinkPairs pairs a node is compacted.
	shrinkNodes, shrinkPairs = 1 << 10, 2
	// Dead nodes are made free when they are so many, and such a share of those in use.
	reclaimNodes, reclaimShare = 1 << 8, 8
)

// Compact is for [core.Policy].
func (p *policy) Compact(ctx context.Context, _ core.Counters) error { return p.engine.compact(ctx) }

// Describe is for [core.Policy].
func (p *policy) Describe() string { return describe(p.engine.usage().nodes) }
