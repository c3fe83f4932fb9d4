package alloc

import (
	"context"

	"github.com/weftgo/weft/device"
)

// engine is what a [Pool] needs of a machine: the inner loops. There are two,
// cpuEngine and gpuEngine. An engine knows nothing of growth, closing or
// concurrency: pool and owner decide and lock. They call one method at a time,
// with a view that says what an owner has; the owner's submitted batches may
// still be running in allocateOn and releaseOn, and in no other method.
type engine interface {
	// allocate fills units in host memory with addresses, None where none
	// was found within v.Tries memory blocks. done is the length of the
	// prefix that was run, len(units) unless there was an error; missing counts
	// the addresses that are None in it.
	allocate(ctx context.Context, v view, units []uint32) (done, missing int, err error)
	// release frees units whose addresses are in host memory; invalid counts
	// those in the prefix that were not taken or don't exist.
	release(ctx context.Context, v view, units []uint32) (done, invalid int, err error)
	// allocateOn and releaseOn submit the same for addresses on the device.
	allocateOn(s *device.Stream, v view, units device.Slice[uint32]) error
	releaseOn(s *device.Stream, v view, units device.Slice[uint32]) error
	// used counts the units that are taken.
	used(ctx context.Context, v view) (int, error)
	// close frees what the engine itself holds.
	close() error
}

// newEngine chooses the engine. table is where the addresses of the super
// blocks are.
func newEngine(dev device.Device, table device.Slice[uint64]) (engine, error) {
	if host, ok := dev.(device.Host); ok {
		return &cpuEngine{dev: host, supers: supersIn(table)}, nil
	}
	return newGPUEngine(dev)
}
