package alloc

import (
	"context"

	"github.com/weftgo/weft/device"
)

// engine contains the inner loops of a [Pool] for one kind of device. The implementations are
// cpuEngine and gpuEngine. Pool and Owner handle growth, closing and concurrency, and hold the
// locks. They call one method at a time, with a view of an owner's memory. While allocateOn or
// releaseOn runs, earlier submitted batches of the owner may still be running. During the other
// methods none is running.
type engine interface {
	// allocate fills units in host memory with addresses of newly taken units. It stores NoUnit for
	// each unit that it did not find within v.Tries memory blocks. done is the length of the prefix
	// that was run, which is len(units) unless an error occurred. missing is the number of NoUnit
	// in the prefix.
	allocate(ctx context.Context, v view, units []uint32) (done, missing int, err error)
	// release frees the units with addresses in host memory. done is the length of the prefix that
	// was run. invalid is the number of its addresses that were not taken or do not exist.
	release(ctx context.Context, v view, units []uint32) (done, invalid int, err error)
	// allocateOn and releaseOn submit the same operations for addresses in device memory.
	allocateOn(s *device.Stream, v view, units device.Slice[uint32]) error
	releaseOn(s *device.Stream, v view, units device.Slice[uint32]) error
	// used returns the number of taken units.
	used(ctx context.Context, v view) (int, error)
	// close frees the resources of the engine.
	close() error
}

// newEngine returns the engine for a device. table holds the addresses of the super blocks.
func newEngine(dev device.Device, table device.Slice[uint64]) (engine, error) {
	if host, ok := dev.(device.Host); ok {
		return &cpuEngine{dev: host, supers: supersIn(table)}, nil
	}
	return newGPUEngine(dev)
}
