// Package number numbers distinct 64-bit keys 0, 1, 2, … in the order of their first appearance.
// The numbers are the same on any number of cores. On a GPU it uses a map of package linear. On a
// host it uses its own tables, which need one pass where a map needs three. It compares no rows
// beyond their 64 bits, and prefetches slots. Parts grow one by one, so a limit of memory is exact.
package number

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/linear"
)

// Index numbers distinct 64-bit keys. Only Find and the methods that read sizes may be called
// concurrently.
type Index interface {
	// Assign writes the numbers of keys, and returns the first row of each new key, in order. The
	// result is valid until the next call. After an error, only the first done rows have numbers,
	// and the keys of the other rows have not been added. After op.ErrCorrupt the state is
	// undefined.
	Assign(ctx context.Context, keys []uint64, numbers []uint32) (first []uint32, done int, err error)
	// Find looks up keys. A key that is not found has the number 0.
	Find(ctx context.Context, keys []uint64, numbers []uint32, found []bool) error
	// Len returns the number of keys.
	Len() int
	// Size returns the memory of the index in bytes.
	Size(ctx context.Context) (int64, error)
	// Estimate begins an estimate of how Size grows with more keys.
	Estimate(ctx context.Context) (Estimate, error)
	// Reserve reserves memory for the keys whose element of found is false. n is the number of
	// these keys. Assign must follow with these keys.
	Reserve(ctx context.Context, keys []uint64, found []bool, n int) error
	Close() error
}

// Finder is the additional interface of an index on a host.
type Finder interface {
	// FindHere is Find on the core that calls it. The keys should fit the core's cache.
	FindHere(keys []uint64, numbers []uint32, found []bool) (hits int)
	// Expect sets the number of rows that follow the next Assign. They are assumed to have the same
	// share of new keys. If the index grows, it reserves memory for at most twice its keys at that
	// time.
	Expect(rows int)
}

// Estimate is an estimate of the growth of an index.
type Estimate interface {
	// With adds a key that the index does not have. It returns the maximum memory of the index in
	// bytes, both during and after a Reserve for all keys added so far.
	With(key uint64) int64
}

// MaxKeys is the maximum number of keys of an index.
const MaxKeys = math.MaxUint32

// New makes an index on a device, with capacity for a number of keys. The device must outlive the
// index. On a host, estimates hold only if measured is set, which is slower with many million keys.
// If it is not set, a large index is in mapped memory, until Close or until the collector finds it
// unused.
func New(dev device.Device, capacity int, measured bool) (Index, error) {
	if host, ok := dev.(device.Host); ok {
		return newInHost(host.Parallel, capacity, measured), nil
	}
	return newOnDevice(dev, capacity)
}

// onDevice is an index in a map on a GPU.
type onDevice struct {
	m        *linear.Map[uint64, uint32]
	parallel func(n, grain int, body func(lo, hi int))
	latest   []uint32 // by range of rows: the largest number before it, plus one
	first    []uint32
}

func newOnDevice(dev device.Device, capacity int) (*onDevice, error) {
	m, err := linear.New[uint64, uint32](dev, &linear.Options{Capacity: capacity})
	return &onDevice{m: m, parallel: parallel}, err
}

func (x *onDevice) Len() int     { return x.m.Len() }
func (x *onDevice) Close() error { return x.m.Close() }

func (x *onDevice) Size(ctx context.Context) (int64, error) {
	n, err := x.m.Size(ctx)
	return int64(n), err
}

func (x *onDevice) Find(ctx context.Context, keys []uint64, numbers []uint32, found []bool) error {
	_, err := x.m.Get(ctx, keys, numbers, found)
	return err
}

func (x *onDevice) Reserve(ctx context.Context, _ []uint64, _ []bool, n int) error {
	return x.m.Reserve(ctx, n)
}

func (x *onDevice) Assign(ctx context.Context, keys []uint64, numbers []uint32) (first []uint32, done int, err error) {
	base := x.m.Len()
	fresh, err := x.m.Assign(ctx, keys, numbers)
	done = len(numbers)
	if err != nil {
		done = 0
		var p *op.PartialError
		if errors.As(err, &p) && p.Failed == 0 {
			done = p.Done
		}
	}
	if top := x.firsts(numbers[:done], uint32(base), fresh); int(top) != x.m.Len() {
		return nil, 0, fmt.Errorf("%w: the index has %d keys, but rows have %d: %w", op.ErrCorrupt,
			x.m.Len(), top, err)
	}
	return x.first, done, err
}

// firsts finds the first row of each number from base on. It returns the largest number plus one.
// Numbers ascend in the order of first appearance, so a first row's number exceeds all before it.
func (x *onDevice) firsts(numbers []uint32, base uint32, fresh int) (top uint32) {
	x.first = sized(x.first, fresh)
	if fresh == 0 {
		return base
	}
	ranges := (len(numbers) + grain - 1) / grain
	x.latest = sized(x.latest, ranges+1)
	latest, first := x.latest, x.first
	x.parallel(len(numbers), grain, func(lo, hi int) {
		top := uint32(0)
		for _, v := range numbers[lo:hi] {
			top = max(top, v+1)
		}
		latest[lo/grain+1] = top
	})
	latest[0] = base
	for r := range ranges {
		latest[r+1] = max(latest[r+1], latest[r])
	}
	x.parallel(len(numbers), grain, func(lo, hi int) {
		next := latest[lo/grain]
		for i, v := range numbers[lo:hi] {
			if v >= next {
				first[v-base] = uint32(lo + i)
				next = v + 1
			}
		}
	})
	return latest[ranges]
}

// The map grows if more than mapLoad of its slots are in use, to at least twice its lines.
const mapLoad, slotsPerLine = 0.8, core.LineBytes / 16

type mapEstimate struct{ slots, keys int }

func (x *onDevice) Estimate(ctx context.Context) (Estimate, error) {
	n, err := x.m.Size(ctx)
	return &mapEstimate{(n - core.LinesBytes(0)) / core.LineBytes * slotsPerLine, x.m.Len()}, err
}

func (e *mapEstimate) With(uint64) int64 {
	e.keys++
	have := e.slots / slotsPerLine
	if e.keys <= core.MaxUsed(e.slots, mapLoad) {
		return int64(core.LinesBytes(uint32(have)))
	}
	lines := int(float64(e.keys)/mapLoad/slotsPerLine) + 2
	return int64(core.LinesBytes(uint32(have)) + core.LinesBytes(uint32(max(2*have, lines))))
}

// Extras holds the ids, ascending, of items without a number, because another item has the same
// key. Ids count all items, including these.
type Extras []uint32

// ID returns the id of the item with a number.
func (e Extras) ID(number uint32) uint32 {
	if len(e) == 0 {
		return number
	}
	return e.shifted(number)
}

func (e Extras) shifted(number uint32) uint32 {
	return number + uint32(sort.Search(len(e), func(j int) bool { return e[j]-uint32(j) > number }))
}

// sized returns s with length n and undefined contents.
func sized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
