package linear

import (
	"context"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// engine is what a table needs of a machine: the inner loops and the memory
// they run on. There are two, cpuEngine and gpuEngine. An engine knows nothing
// of growth, closing or concurrency; table decides and locks:
//
//   - get, getOn, export and probeLengths may run side by side,
//   - present, clear, probeLengths and the first export of an iteration come
//     behind counts, which has waited for all changes; so does what is called
//     next come behind clear,
//   - everything else runs alone. On a GPU, lookups and changes submitted by
//     getOn and changeOn overlap on the device.
type engine interface {
	// geometry describes the table in use.
	geometry() geometry
	// counts waits for submitted changes and reads the counters.
	counts(ctx context.Context) (counters, error)

	// get looks up a batch in host memory. If ctx ends, hits and the outputs
	// cover a prefix.
	get(ctx context.Context, b *batch.Batch) (hits int, err error)
	// present counts the keys of a batch that are there. The batch lies in host
	// memory or, with a stream, on the device.
	present(ctx context.Context, s *device.Stream, b *batch.Batch) (int, error)
	// change runs a batch in host memory. failed are the operations that found
	// no room, as ascending indices. done is the length of the prefix that was
	// run, b.N unless there was an error.
	change(ctx context.Context, b *batch.Batch) (done int, failed []uint32, err error)

	// getOn and changeOn submit a batch that lies on the device. Operations of
	// changeOn that find no room are returned, if that is known at once, or
	// counted; lost reads the count and resets it.
	getOn(s *device.Stream, b *batch.Batch) error
	changeOn(s *device.Stream, b *batch.Batch) (failed []uint32, err error)
	lost(ctx context.Context) (int, error)
	// settle waits until no submitted work uses the table.
	settle(ctx context.Context) error

	// rehash moves the live pairs to a table of that many lines. If they crowd
	// there, so that some find no slot or all take long, that is weft.ErrFull;
	// thorough gives up later. On an error the old table is unchanged.
	rehash(ctx context.Context, lines uint32, thorough bool) error
	// revert goes back to a generation that has been held since before the last
	// rehash, and releases that hold.
	revert(to *generation) error
	// rehashInPlace drops the dead slots within the memory that the table has, but
	// for those of the extra line. It reports false if it can't: iterations read
	// that memory, or no slot is empty. Between lines it stops when ctx ends; then
	// the table is as good as before, and no slot has come to be dead.
	rehashInPlace(ctx context.Context) (bool, error)
	clear(ctx context.Context) error

	// hold returns the generation in use and keeps it until release. The
	// table's lock is held for both.
	hold() *generation
	release(g *generation) error
	// export copies the live pairs of lines number [lo,hi) in the order of
	// core.Spread to host columns and returns their number. Number g.lines is the
	// extra line.
	export(ctx context.Context, g *generation, lo, hi uint32, keys, vals []byte) (int, error)
	// probeLengths are the sum and the maximum over all keys of how many slots
	// lie before a key on its path.
	probeLengths(ctx context.Context) (sum uint64, longest uint32, err error)

	// close frees everything; held generations are freed when released.
	close() error
}

// newEngine chooses the engine: Go on a device that is the host, kernels on
// any other.
func newEngine(dev device.Device, w batch.Widths, g geometry, fixed bool) (engine, error) {
	host, ok := dev.(device.Host)
	if !ok {
		return newGPUEngine(dev, w, g, fixed)
	}
	switch w {
	case batch.Widths{Key: 4, Val: 4, Slot: 8}:
		return newCPUEngine[uint32, uint32, uint32, uint32](host, g)
	case batch.Widths{Key: 4, Val: 8, Slot: 16}:
		return newCPUEngine[uint32, uint64, uint64, uint64](host, g)
	case batch.Widths{Key: 8, Val: 4, Slot: 16}:
		return newCPUEngine[uint64, uint32, uint64, uint64](host, g)
	case batch.Widths{Key: 8, Val: 8, Slot: 16}:
		return newCPUEngine[uint64, uint64, uint64, uint64](host, g)
	case batch.Widths{Key: 4, Slot: 4}:
		return newCPUEngine[uint32, struct{}, uint32, struct{}](host, g)
	case batch.Widths{Key: 8, Slot: 8}:
		return newCPUEngine[uint64, struct{}, uint64, struct{}](host, g)
	}
	return nil, fmt.Errorf("linear: %w: no engine for keys of %d and values of %d bytes", weft.ErrOptions, w.Key, w.Val)
}
