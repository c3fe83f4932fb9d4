package alloc

import (
	"context"

	"github.com/weftgo/weft/device"
)

// engine is what a [Pool] requires of a machine: the inner loops. The two engines are cpuEngine and
// gpuEngine. Pool and Owner handle growth, closing and concurrency, and hold the locks. They call
// one method at a time, with a view of an owner's memory. Submitted batches of the owner may still
// be running in allocateOn and releaseOn, and in no other method.
type engine interface {
	// allocate fills units in host memory with addresses, or NoUnit where none was found within
	// v.Tries memory blocks. done is the length of the prefix that was run, which is len(units)
	// unless an error occurred. missing counts the addresses in it that are NoUnit.
	allocate(ctx context.Context, v view, units []uint32) (done, missing int, err error)
	// release frees units with addresses in host memory. invalid counts those in the prefix that
	// were not taken or do not exist.
	release(ctx context.Context, v view, units []uint32) (done, invalid int, err error)
	// allocateOn and releaseOn submit the same for addresses on the device.
	allocateOn(s *device.Stream, v view, units device.Slice[uint32]) error
	releaseOn(s *device.Stream, v view, units device.Slice[uint32]) error
	// used counts the units that are taken.
	used(ctx context.Context, v view) (int, error)
	// close frees what the engine itself holds.
	close() error
}

// newEngine chooses the engine. table holds the addresses of the super blocks.
func newEngine(dev device.Device, table device.Slice[uint64]) (engine, error) {
	if host, ok := dev.(device.Host); ok {
		return &cpuEngine{dev: host, supers: supersIn(table)}, nil
	}
	return newGPUEngine(dev)
}
