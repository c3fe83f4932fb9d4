package horton

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// engine has the methods that a table and its policy call in addition to those of bucket.Engine.
type engine interface {
	bucket.Engine
	// geometry returns the geometry of the current table.
	geometry() geometry
	// reclaim shortens lookups after deletes; see cpu_reclaim.go. It does nothing while a lease is
	// held, as in an iteration. done reports whether it ran.
	reclaim(ctx context.Context) (done bool, err error)
	// deleted returns an upper bound on the number of keys deleted since the last reclaim. It is
	// exact if ReadCounters is called after each batch that only deletes.
	deleted() uint64
	// countBuckets counts buckets, entries and keys for Stats.
	countBuckets(ctx context.Context) (bucketCounts, error)
}

// mode is the part of a table's configuration that does not depend on its size.
type mode struct {
	layout   layout
	capacity int  // maximum number of keys of a fixed table, or 0
	eager    bool // reclaim the buckets of deleted keys after each batch
}

// bucketCounts has the results of a pass over the buckets.
type bucketCounts struct {
	arrays    uint64 // buckets of type B
	entries   uint64 // remap entries that are set
	secondary uint64 // keys in secondary buckets
	displaced uint64 // secondary keys in buckets of type B
	full      uint64 // buckets without a free slot
}

// newEngine chooses the engine: Go code on the host, kernels elsewhere.
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
