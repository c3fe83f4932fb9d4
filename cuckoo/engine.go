package cuckoo

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// engine is what a machine does beside what the policy needs. There are two,
// cpuEngine and gpuEngine.
type engine interface {
	bucket.Engine
	// geometry describes the table in use.
	geometry() geometry
	// census counts what Stats tells of.
	census(ctx context.Context) (census, error)
}

// mode is what a table does whatever its geometry.
type mode struct {
	layout   layout
	capacity int  // keys that a table of fixed size is for, or 0
	balances bool // a new key goes to the bucket with most free slots
	all      bool // lookups read all buckets at once
}

// census is what a pass over the buckets counts.
type census struct {
	passed  uint64 // buckets of each key before the one that it is in
	full    uint64 // buckets without a slot that was never used
	stashed uint64 // keys in the stash
}

// newEngine chooses the engine: Go on a device that is the host, kernels on any
// other.
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
