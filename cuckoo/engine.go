package cuckoo

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// engine is what a structure requires of an engine beyond bucket.Engine. cpuEngine and gpuEngine
// implement it.
type engine interface {
	bucket.Engine
	// geometry describes the table in use.
	geometry() geometry
	// countBuckets counts what Stats reports.
	countBuckets(ctx context.Context) (bucketCounts, error)
}

// mode is how a table behaves whatever its geometry.
type mode struct {
	layout        layout
	capacity      int  // of a table of fixed size, or 0
	loadBalancing bool // a new key goes to the bucket with most free slots
	readsAll      bool // lookups read all buckets at once
}

// bucketCounts holds the counts of a pass over the buckets.
type bucketCounts struct {
	passed  uint64 // buckets of each key before the one that it is in
	full    uint64 // buckets without a slot that was never used
	stashed uint64 // keys in the stash
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
