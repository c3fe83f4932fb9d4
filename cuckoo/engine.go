package cuckoo

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// engine has the methods that a table calls in addition to those of bucket.Engine.
type engine interface {
	bucket.Engine
	// geometry returns the geometry of the current table.
	geometry() geometry
	// countBuckets counts buckets and keys for Stats.
	countBuckets(ctx context.Context) (bucketCounts, error)
}

// mode is the part of a table's configuration that does not depend on its size.
type mode struct {
	layout        layout
	capacity      int  // maximum number of keys of a fixed table, or 0
	loadBalancing bool // a new key goes to the bucket with the most free slots
	readsAll      bool // lookups read all buckets at once
}

// bucketCounts has the results of a pass over the buckets.
type bucketCounts struct {
	passed  uint64 // sum over all keys of the buckets before the key's own
	full    uint64 // buckets in which every slot has been used
	stashed uint64 // keys in the stash
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
