package linear

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// engine is what a table needs of a machine: the inner loops and the memory
// they run on. There are two, cpuEngine and gpuEngine. An engine knows nothing
// of growth, closing or concurrency; table decides and locks:
//
//   - get, getOn, export and probeLengths may run side by side,
//   - everything else runs alone. On a GPU, lookups and changes submitted by
//     getOn and changeOn overlap on the device.
type engine interface {
	// geometry describes the table in use.
	geometry() geometry
	// counts waits for submitted changes and reads the counters.
	counts(ctx context.Context) (counters, error)

	// get looks up a batch in host memory. If ctx ends, hits and the outputs
	// cover a prefix.
	get(ctx context.Context, b *batch) (hits int, err error)
	// present counts the keys of a batch that are there. The batch lies in host
	// memory or, with a stream, on the device.
	present(ctx context.Context, s *device.Stream, b *batch) (int, error)
	// change runs a batch in host memory. failed are the operations that found
	// no room, as ascending indices. done is the length of the prefix that was
	// run, b.n unless there was an error.
	change(ctx context.Context, b *batch) (done int, failed []uint32, err error)

	// getOn and changeOn submit a batch that lies on the device. Operations of
	// changeOn that find no room are returned, if that is known at once, or
	// counted; lost reads the count and resets it.
	getOn(s *device.Stream, b *batch) error
	changeOn(s *device.Stream, b *batch) (failed []uint32, err error)
	lost(ctx context.Context) (int, error)
	// settle waits until no submitted work uses the table.
	settle(ctx context.Context) error

	// rehash moves the live pairs to a table of that many lines. On an error
	// the old one is unchanged.
	rehash(ctx context.Context, lines uint32) error
	clear(ctx context.Context) error

	// hold returns the generation in use and keeps it until release. The
	// table's lock is held for both.
	hold() *generation
	release(g *generation) error
	// export copies the live pairs of lines [lo,hi) to host columns and
	// returns their number. Line g.lines is the extra line.
	export(ctx context.Context, g *generation, lo, hi uint32, keys, vals []byte) (int, error)
	// probeLengths are the sum and the maximum over all keys of how many slots
	// lie before a key on its path.
	probeLengths(ctx context.Context) (sum uint64, longest uint32, err error)

	// close frees everything; held generations are freed when released.
	close() error
}

// batch is a set of operations in columns. Each column lies in host memory or,
// for the On methods, on the device; a column that is not there is empty.
type batch struct {
	n     int
	kind  weft.OpKind // of all operations, unless kinds is there
	flags flags
	load  float64 // of the table, as far as known: a hint

	keys  column // K
	vals  column // V; written by get, read by change
	kinds column // weft.OpKind
	out   column // V; written by change: what OpGet and OpPutNew found
	ok    column // bool
}

// flags are the choices of a change; the values are those of layout.cuh.
type flags uint32

const (
	// flagReuse lets inserts take dead slots: the batch deletes nothing.
	flagReuse flags = 1 << iota
	// flagOrder gives duplicates the outcome of batch order.
	flagOrder
)

// column is n values of fixed width, in host memory or on the device.
type column struct {
	host []byte
	ptr  device.Ptr
	dev  device.Device // where ptr points
}

func (c column) there() bool { return c.ptr != 0 || c.host != nil }

// sub is rows [lo,hi) of a column whose rows are width bytes wide.
func (c column) sub(lo, hi, width int) column {
	switch {
	case c.host != nil:
		c.host = c.host[lo*width : hi*width]
	case c.ptr != 0:
		c.ptr += device.Ptr(lo * width)
	}
	return c
}

// sub is operations [lo,hi) of a batch.
func (b *batch) sub(lo, hi int, w widths) *batch {
	part := *b
	part.n = hi - lo
	part.keys = b.keys.sub(lo, hi, w.key)
	part.vals = b.vals.sub(lo, hi, w.val)
	part.kinds = b.kinds.sub(lo, hi, 1)
	part.out = b.out.sub(lo, hi, w.val)
	part.ok = b.ok.sub(lo, hi, 1)
	return &part
}

// widths are the sizes in bytes of a key and of a value in a batch, and of a
// slot. A set has val 0.
type widths struct{ key, val, slot int }

// inserts tells whether a batch can need room.
func (b *batch) inserts() bool {
	return b.kinds.there() || b.kind == weft.OpPut || b.kind == weft.OpPutNew
}

// ordered tells whether duplicates have to be settled.
func (b *batch) ordered() bool { return b.flags&flagOrder != 0 && !b.kinds.there() }

// view reads host bytes as values of a type of the right width.
func view[T any](b []byte) []T {
	var zero T
	if len(b) == 0 || unsafe.Sizeof(zero) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// newEngine chooses the engine: Go on a device that is the host, kernels on
// any other.
func newEngine(dev device.Device, w widths, g geometry) (engine, error) {
	host, ok := dev.(device.Host)
	if !ok {
		return newGPUEngine(dev, w, g)
	}
	switch w {
	case widths{4, 4, 8}:
		return newCPUEngine[uint32, uint32, uint32, uint32](host, g)
	case widths{4, 8, 16}:
		return newCPUEngine[uint32, uint64, uint64, uint64](host, g)
	case widths{8, 4, 16}:
		return newCPUEngine[uint64, uint32, uint64, uint64](host, g)
	case widths{8, 8, 16}:
		return newCPUEngine[uint64, uint64, uint64, uint64](host, g)
	case widths{4, 0, 4}:
		return newCPUEngine[uint32, struct{}, uint32, struct{}](host, g)
	case widths{8, 0, 8}:
		return newCPUEngine[uint64, struct{}, uint64, struct{}](host, g)
	}
	return nil, fmt.Errorf("linear: %w: no engine for keys of %d and values of %d bytes", weft.ErrOptions, w.key, w.val)
}
