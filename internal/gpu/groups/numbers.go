package groups

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
)

const (
	// defaultNumbers is the default capacity.
	defaultNumbers = 1 << 16
	// minChunk and maxChunk bound the number of rows per launch. After a launch the host reads how
	// many rows have no number yet.
	minChunk, maxChunk = 1 << 20, 1 << 24
	// maxNumbers is the maximum number of keys. Up to this maximum, no key gets the number none.
	maxNumbers = none - 1
)

// Numbers assigns numbers to keys of several words. Only one goroutine at a time may use it.
type Numbers struct {
	keyKernels
	streamOrder

	dev  device.Device
	keys Keys
	// chunk is the number of rows per launch. It grows up to chunkLimit while few rows lack a
	// number.
	chunk, chunkLimit int

	places     device.Slice[uint64]
	rows       device.Slice[uint64] // words of keys, by number
	keyColumns device.Slice[uint8]  // descriptors of the key columns
	counts     device.Slice[uint32] // numbers assigned, and rows of a launch without a number
	spare      device.Slice[uint32] // one unused number per thread
	numbers    device.Slice[uint32] // numbers of the rows of a launch
	missing    device.Slice[uint32] // rows of a launch without a number
	desc       index

	capacity int
	bound    int // upper bound of the numbers assigned
}

// NewNumbers returns Numbers for keys of the given types, with the capacity that o requests.
func NewNumbers(dev device.Device, types []Type, o Options) (x *Numbers, err error) {
	x = &Numbers{dev: dev, keys: KeysOf(types, true), chunk: minChunk, chunkLimit: maxChunk}
	minCapacity := defaultNumbers
	if o.Round > 0 {
		x.chunk, x.chunkLimit, minCapacity = o.Round, 2*o.Round, o.Round
	}
	if err := x.open(min(max(o.Capacity, minCapacity), maxNumbers)); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

func (x *Numbers) open(capacity int) (err error) {
	if err := x.load(x.dev); err != nil {
		return err
	}
	if err := x.streamOrder.open(x.dev); err != nil {
		return err
	}
	if x.keyColumns, err = device.Make[uint8](x.dev, len(x.keys.fields)*int(unsafe.Sizeof(key{}))); err != nil {
		return err
	}
	if x.counts, err = device.Make[uint32](x.dev, 2); err != nil {
		return err
	}
	if x.spare, err = device.Make[uint32](x.dev, x.threads()); err != nil {
		return err
	}
	if x.desc, x.places, x.rows, err = x.make(capacity); err != nil {
		return err
	}
	x.capacity = capacity
	s, err := x.dev.NewStream()
	if err != nil {
		return err
	}
	err = errors.Join(s.Fill(x.places.Ptr(), 0, 2*x.places.Len()), s.Fill(x.counts.Ptr(), 0, 2), s.Fill(x.spare.Ptr(), none, x.spare.Len()))
	return errors.Join(err, s.Close()) // Close waits, so that other streams may use the memory.
}

// NumberBytes returns the memory per key for keys of the given types.
func NumberBytes(types []Type) int { return 8*KeysOf(types, true).words + 8*8/5 }

func (x *Numbers) threads() int { return gpu.Wave(x.dev, math.MaxInt32).X * gpu.Block.X }

// make allocates an index, and memory for the words of keys, with the given capacity.
func (x *Numbers) make(capacity int) (to index, places, rows device.Slice[uint64], err error) {
	if places, err = device.Make[uint64](x.dev, slotsOf(capacity)); err != nil {
		return to, places, rows, err
	}
	if rows, err = device.Make[uint64](x.dev, capacity*x.keys.words); err != nil {
		return to, places, rows, errors.Join(err, places.Free())
	}
	to = index{places: places.Ptr(), rows: rows.Ptr(), seed: rand.Uint64(), slots: uint32(places.Len()), words: uint32(x.keys.words)}
	return to, places, rows, nil
}

// Close waits for all work and frees the memory. Further calls do nothing.
func (x *Numbers) Close() error {
	return errors.Join(x.streamOrder.close(), x.places.Free(), x.rows.Free(), x.keyColumns.Free(), x.counts.Free(), x.spare.Free(), x.numbers.Free(), x.missing.Free())
}

// Number submits numbering the keys of rows, chunk by chunk. It calls the function each once per
// chunk, with rows that have Numbers instead of Keys. Rows that the filter excludes get the number
// none. Number waits for the stream if the capacity may not suffice.
func (x *Numbers) Number(s *device.Stream, r Rows, each func(r Rows) error) error {
	return x.submit(s, func() error { return x.numberAll(s, r, each) })
}

func (x *Numbers) numberAll(s *device.Stream, r Rows, each func(r Rows) error) error {
	for lo, n := 0, 0; lo < r.N; lo += n {
		n = min(r.N-lo, x.chunk)
		part := r.Slice(lo, n)
		if err := x.numberChunk(s, part); err != nil {
			return err
		}
		part.Keys, part.Filter, part.Numbers = nil, AllRows, x.numbers.Ptr()
		if err := each(part); err != nil {
			return err
		}
	}
	return nil
}

// numberChunk submits numbering the rows of one launch.
func (x *Numbers) numberChunk(s *device.Stream, r Rows) error {
	if err := x.scratch(s, r.N); err != nil {
		return err
	}
	if err := errors.Join(x.keyColumns.CopyFrom(s, bytesOf(x.keys.descriptors(r.Keys))), s.Fill(x.counts.Ptr()+4, 0, 1)); err != nil {
		return err
	}
	p := x.params(r)
	if err := device.Launch(s, x.find, gpu.Wave(x.dev, r.N), gpu.Block, &p); err != nil {
		return err
	}
	if x.bound+r.N > x.capacity {
		missing, err := x.reserve(s)
		if err != nil {
			return err
		}
		if x.chunk < x.chunkLimit && missing < r.N/8 {
			x.chunk *= 2
		}
		if missing == 0 {
			return nil
		}
		r.N = missing
	}
	x.bound += r.N
	p = x.params(r) // the index may have grown
	return device.Launch(s, x.number, gpu.Wave(x.dev, r.N), gpu.Block, &p)
}

func (x *Numbers) params(r Rows) numberParams {
	return numberParams{
		index: x.desc, keys: x.keyColumns.Ptr(), numbers: x.numbers.Ptr(), used: x.counts.Ptr(), count: x.counts.Ptr() + 4, missing: x.missing.Ptr(),
		spare: x.spare.Ptr(), n: uint32(r.N), nkeys: uint32(len(r.Keys)), filter: uint32(r.Filter),
	}
}

func (x *Numbers) scratch(s *device.Stream, n int) (err error) {
	if x.numbers.Len() >= n {
		return nil
	}
	if err := errors.Join(s.Sync(context.Background()), x.numbers.Free(), x.missing.Free()); err != nil {
		return err
	}
	if x.missing, err = device.Make[uint32](x.dev, n); err != nil {
		return err
	}
	x.numbers, err = device.Make[uint32](x.dev, n)
	return err
}

// reserve reads how many rows of the last launch have no number, and reserves capacity for an equal
// number of new keys.
func (x *Numbers) reserve(s *device.Stream) (missing int, err error) {
	var counts [2]uint32
	if err := x.counts.CopyTo(context.Background(), s, counts[:]); err != nil {
		return 0, err
	}
	x.bound, missing = int(counts[0]), int(counts[1])
	switch n := x.bound + missing; {
	case n > maxNumbers:
		return 0, fmt.Errorf("%w: %d keys that are longer than 64 bits", device.ErrMemory, x.bound)
	case n > x.capacity:
		return missing, x.grow(s, min(max(2*x.capacity, n), maxNumbers))
	}
	return missing, nil
}

// grow increases the capacity. Assigned numbers do not change.
func (x *Numbers) grow(s *device.Stream, capacity int) error {
	to, places, rows, err := x.make(capacity)
	if err != nil {
		return fmt.Errorf("index of %d keys, which grows to one of %d: %w", x.bound, capacity, err)
	}
	err = errors.Join(s.Fill(places.Ptr(), 0, 2*places.Len()), s.Copy(rows.Ptr(), x.rows.Ptr(), 8*x.bound*x.keys.words))
	if err == nil {
		p := reindexParams{from: x.desc, to: to}
		p.from.rows = to.rows
		err = device.Launch(s, x.reindex, gpu.Wave(x.dev, x.places.Len()), gpu.Block, &p)
	}
	if end := s.Sync(context.Background()); err == nil {
		err = end
	}
	if err != nil {
		return errors.Join(err, places.Free(), rows.Free())
	}
	err = errors.Join(x.places.Free(), x.rows.Free())
	x.desc, x.places, x.rows, x.capacity = to, places, rows, capacity
	return err
}
