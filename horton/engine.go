package horton

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// engine is what a machine does beside what the policy of buckets needs.
type engine interface {
	bucket.Engine
	// geometry describes the table in use.
	geometry() geometry
	// reclaim makes lookups as short again as deletes allow: see cpureclaim.go. It does
	// nothing while user code iterates, and reports whether it has done it.
	reclaim(ctx context.Context) (done bool, err error)
	// deleted is how many keys at most have been deleted that nothing has been reclaimed
	// of since: as many, if keys are counted (Counters) behind each batch of deletes alone.
	deleted() uint64
	// census counts what Stats tells of.
	census(ctx context.Context) (census, error)
}

// mode is what a table does whatever its geometry.
type mode struct {
	layout   layout
	capacity int  // keys that a table of fixed size is for, or 0
	eager    bool // the buckets of deleted keys are reclaimed behind each batch
}

// census is what a pass over the buckets counts.
type census struct {
	arrays    uint64 // buckets of type B
	entries   uint64 // that are set
	secondary uint64 // keys in secondary buckets
	displaced uint64 // of those, the ones in buckets of type B
	full      uint64 // buckets without a free slot
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
