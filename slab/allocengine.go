package slab

import (
	"context"

	"github.com/weftgo/weft/device"
)

// allocEngine is what an [Alloc] needs of a machine: the inner loops. There
// are two, cpuAlloc and gpuAlloc. An engine knows nothing of growth, closing or
// concurrency: Alloc decides and locks. It calls one method at a time, with an
// AllocRef that says how things are; submitted batches may still be running in
// allocateOn and releaseOn, and in no other method.
type allocEngine interface {
	// allocate fills units in host memory with addresses, noUnit where none
	// was found within ref.Tries memory blocks. done is the length of the
	// prefix that was run, len(units) unless there was an error; missing counts
	// the addresses that are noUnit in it.
	allocate(ctx context.Context, ref AllocRef, units []uint32) (done, missing int, err error)
	// release frees units whose addresses lie in host memory; invalid counts
	// those in the prefix that were not taken or don't exist.
	release(ctx context.Context, ref AllocRef, units []uint32) (done, invalid int, err error)
	// allocateOn and releaseOn submit the same for addresses on the device.
	allocateOn(s *device.Stream, ref AllocRef, units device.Slice[uint32]) error
	releaseOn(s *device.Stream, ref AllocRef, units device.Slice[uint32]) error
	// used counts the units that are taken.
	used(ctx context.Context, ref AllocRef) (int, error)
	// close frees what the engine itself holds.
	close() error
}

// newAllocEngine chooses the engine. table is where the addresses of the super
// blocks lie.
func newAllocEngine(dev device.Device, table device.Slice[uint64]) (allocEngine, error) {
	if host, ok := dev.(device.Host); ok {
		return newCPUAlloc(host, table), nil
	}
	return newGPUAlloc(dev)
}
