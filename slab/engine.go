package slab

import (
	"context"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// engine is what a table needs of a machine: the inner loops and the memory
// they run on. There are two, cpuEngine and gpuEngine. An engine knows nothing
// of growth, closing or concurrency; table decides and locks:
//
//   - get, getOn, tally, collect, export and chains may run side by side,
//   - present, clear, chains and the first export of an iteration come behind
//     counts, which has waited for all changes; so does what is called next
//     come behind clear,
//   - everything else runs alone. On a GPU, lookups and changes submitted by
//     getOn and changeOn overlap on the device.
type engine interface {
	// geometry describes the table in use, pool its chained slabs.
	geometry() geometry
	pool() *alloc.Owner
	// counts waits for submitted changes and reads the counters.
	counts(ctx context.Context) (counters, error)

	// get looks up a batch in host memory: in a multimap, the first pair of
	// each key. If ctx ends, hits and the outputs cover a prefix.
	get(ctx context.Context, b *batch.Batch) (hits int, err error)
	// present counts the keys of a batch that are there. The batch lies in host
	// memory or, with a stream, on the device.
	present(ctx context.Context, s *device.Stream, b *batch.Batch) (int, error)
	// tally writes how many pairs each key of a batch in host memory has.
	tally(ctx context.Context, b *batch.Batch, counts []uint32) error
	// collect writes the values of each key of a batch in host memory to vals,
	// those of key i from row offsets[i] on, in the order of the chain; never
	// past row offsets[i+1].
	collect(ctx context.Context, b *batch.Batch, offsets []uint64, vals []byte) error
	// change runs a batch in host memory. failed are the operations that found
	// no room, as ascending indices; what is in b.Out stays there, since b.Vals
	// may be the same memory. If the batch is ordered, and the key of one of them
	// is there afterwards, then that has been settled as for duplicates. done is
	// the length of the prefix that was run, b.N unless there was an error.
	change(ctx context.Context, b *batch.Batch) (done int, failed []uint32, err error)

	// getOn and changeOn submit a batch that lies on the device. With wait,
	// changeOn waits and returns the operations that found no room; without,
	// the table has made sure that there is room for all, or these operations
	// are counted: lost reads the count and resets it.
	getOn(s *device.Stream, b *batch.Batch) error
	changeOn(s *device.Stream, b *batch.Batch, wait bool) (failed []uint32, err error)
	lost(ctx context.Context) (int, error)
	// tallyOn and collectOn are tally and collect on the device. counts are
	// uint32, b.N of them; offsets are uint64, b.N+1 of them. collectOn writes
	// both, and the values to b.Vals as far as its rows go: the last offset tells
	// how many there are.
	tallyOn(s *device.Stream, b *batch.Batch, counts batch.Column) error
	collectOn(s *device.Stream, b *batch.Batch, counts, offsets batch.Column, rows int) error
	// settle waits until no submitted work uses the table.
	settle(ctx context.Context) error

	// rehash moves the live pairs to a table of that many buckets, those of a
	// key in their order, with a pool of at least that many units. On an error
	// the old one is unchanged.
	rehash(ctx context.Context, buckets uint32, units int) error
	// flush drops dead slots bucket by bucket, keeps the order of the others,
	// and gives back the slabs this empties (FLUSH). Lookups must not begin
	// before it is done: counts or a change of the host come next.
	flush(ctx context.Context) error
	clear(ctx context.Context) error

	// hold returns the generation in use and keeps it until release. The
	// table's lock is held for both.
	hold() *generation
	release(g *generation) error
	// export copies the live pairs of buckets [lo,hi) to host columns, bucket
	// g.buckets being the extra one, and returns their number. If the columns
	// are too short, that number is the length they need and the content is
	// undefined.
	export(ctx context.Context, g *generation, lo, hi uint32, keys, vals []byte) (int, error)
	// chains counts the buckets by their number of slabs, the last count being
	// of those with more.
	chains(ctx context.Context) ([chainLengths]uint64, error)

	// close frees everything; held generations are freed when released.
	close() error
}

// Flags of changes beside those of package batch; the values are those of
// layout.cuh.
const (
	// flagMulti: the structure is a multimap. OpPut adds a pair, no slot is
	// revived or reused, and of several pairs of a key the first one counts.
	flagMulti batch.Flags = 1 << 2
)

// chainLengths is the number of classes that chains distinguishes.
const chainLengths = 32

// newEngine chooses the engine: Go on a device that is the host, kernels on
// any other. The pool has at least that many units; a light one never grows.
func newEngine(dev device.Device, w batch.Widths, g geometry, units int, fixed bool) (engine, error) {
	host, ok := dev.(device.Host)
	if !ok {
		return newGPUEngine(dev, w, g, units, fixed)
	}
	switch w {
	case batch.Widths{Key: 4, Val: 4, Slot: 8}:
		return newCPUEngine[uint32, uint32, uint32, uint32](host, g, units, fixed)
	case batch.Widths{Key: 4, Val: 8, Slot: 16}:
		return newCPUEngine[uint32, uint64, uint64, uint64](host, g, units, fixed)
	case batch.Widths{Key: 8, Val: 4, Slot: 16}:
		return newCPUEngine[uint64, uint32, uint64, uint64](host, g, units, fixed)
	case batch.Widths{Key: 8, Val: 8, Slot: 16}:
		return newCPUEngine[uint64, uint64, uint64, uint64](host, g, units, fixed)
	case batch.Widths{Key: 4, Slot: 4}:
		return newCPUEngine[uint32, struct{}, uint32, struct{}](host, g, units, fixed)
	case batch.Widths{Key: 8, Slot: 8}:
		return newCPUEngine[uint64, struct{}, uint64, struct{}](host, g, units, fixed)
	}
	return nil, fmt.Errorf("slab: %w: no engine for keys of %d and values of %d bytes", weft.ErrOptions, w.Key, w.Val)
}
