package horton

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// engine is what a structure requires of an engine beyond bucket.Engine.
type engine interface {
	bucket.Engine
	// geometry describes the table in use.
	geometry() geometry
	// reclaim makes lookups as short again as deletes allow; see cpu_reclaim.go. It does nothing
	// while user code iterates. done reports whether it ran.
	reclaim(ctx context.Context) (done bool, err error)
	// deleted returns an upper bound on the keys deleted since the last reclaim. It is exact if
	// keys are counted (Counters) after each batch that only deletes.
	deleted() uint64
	// countBuckets counts what Stats reports.
	countBuckets(ctx context.Context) (bucketCounts, error)
}

// mode is how a table behaves whatever its geometry.
type mode struct {
	layout   layout
	capacity int  // of a table of fixed size, or 0
	eager    bool // the buckets of deleted keys are reclaimed after each batch
}

// bucketCounts holds the counts of a pass over the buckets.
type bucketCounts struct {
	arrays    uint64 // buckets of type B
	entries   uint64 // entries that are set
	secondary uint64 // keys in secondary buckets
	displaced uint64 // secondary keys in buckets of type B
	full      uint64 // buckets without a free slot
}

// newEngine chooses the engine: Go code on a device that is the host, kernels on any other.
func newEngine(dev device.Device, w batch.Widths, first bucket.Size, m mode) (engine, *core.Leases, error) {
	host, ok := dev.(device.Host)
	if !ok {
		return newGPUEngine(dev, w, first, m)
	}
	open, err := cpu.Choose(w,
		newCPUEngine[uint32, uint32, uint32, uint32], newCPUEngine[uint32, uint64, uint64, uint64],
		newCPUEngine[uint64, uint32, uint64, uint64], newCPUEngine[uint64, uint64, uint64, uint64],
		newCPUEngine[uint32, struct{}, uint32, struct{}], newCPUEngine[uint64, struct{}, uint64, struct{}])
	if err != nil {
		return nil, nil, err
	}
	return open(host, first, m)
}
