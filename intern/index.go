package intern

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/linear"
)

// index numbers different 64-bit keys 0, 1, 2, … in the order of their first appearance.
type index interface {
	// assign gives keys their numbers, those of a prefix of done if there is an error, and returns the first rows of those
	// that are new, in their order. first is good until the next call.
	assign(ctx context.Context, keys []uint64, numbers []uint32) (first []uint32, done int, err error)
	// find looks keys up; beside others of its kind.
	find(ctx context.Context, keys []uint64, numbers []uint32, found []bool) error
	// len is the number of keys.
	len() int
	// size is how many bytes the index takes.
	size(ctx context.Context) (int64, error)
	// estimate says what more keys may add to that.
	estimate(ctx context.Context) (estimate, error)
	// reserve makes room for some of the keys, n new ones, which assign is then called with.
	reserve(ctx context.Context, keys []uint64, found []bool, n int) error
	close() error
}

// estimate is by how much an index may grow.
type estimate interface {
	// with is how many bytes it needs with one more key, and as many as before, while it grows.
	with(key uint64) int64
}

// onDevice is an index in a map on a GPU.
type onDevice struct {
	m        *linear.Map[uint64, uint32]
	parallel func(n, grain int, body func(lo, hi int))
	latest   []uint32 // the number behind the last of those before each range of rows
	first    []uint32
}

func newOnDevice(dev device.Device, capacity int) (*onDevice, error) {
	m, err := linear.New[uint64, uint32](dev, &linear.Options{Capacity: capacity})
	return &onDevice{m: m, parallel: parallel}, err
}

func (x *onDevice) len() int     { return x.m.Len() }
func (x *onDevice) close() error { return x.m.Close() }

func (x *onDevice) size(ctx context.Context) (int64, error) {
	n, err := x.m.Size(ctx)
	return int64(n), err
}

func (x *onDevice) find(ctx context.Context, keys []uint64, numbers []uint32, found []bool) error {
	_, err := x.m.Get(ctx, keys, numbers, found)
	return err
}

func (x *onDevice) reserve(ctx context.Context, _ []uint64, _ []bool, n int) error {
	return x.m.Reserve(ctx, n)
}

func (x *onDevice) assign(ctx context.Context, keys []uint64, numbers []uint32) (first []uint32, done int, err error) {
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
		return nil, 0, fmt.Errorf("%w: the index has %d keys, and rows have %d: %w", op.ErrCorrupt, x.m.Len(), top, err)
	}
	return x.first, done, err
}

// firsts finds the first row of each number from base on, and returns the number behind the last. Since numbers are given
// in the order of first appearance, it is the one with a number larger than all before it.
func (x *onDevice) firsts(numbers []uint32, base uint32, fresh int) (top uint32) {
	x.first = resize(x.first, fresh)
	if fresh == 0 {
		return base
	}
	ranges := (len(numbers) + grain - 1) / grain
	x.latest = resize(x.latest, ranges+1)
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

// The map grows where more of its slots are in use, to twice its lines or more.
const mapLoad, slotsPerLine = 0.8, core.LineBytes / 16

type mapEstimate struct{ slots, keys int }

func (x *onDevice) estimate(ctx context.Context) (estimate, error) {
	n, err := x.m.Size(ctx)
	return &mapEstimate{(n - core.LinesBytes(0)) / core.LineBytes * slotsPerLine, x.m.Len()}, err
}

func (e *mapEstimate) with(uint64) int64 {
	e.keys++
	have := e.slots / slotsPerLine
	if e.keys <= core.RoomIn(e.slots, mapLoad) {
		return int64(core.LinesBytes(uint32(have)))
	}
	lines := int(float64(e.keys)/mapLoad/slotsPerLine) + 2
	return int64(core.LinesBytes(uint32(have)) + core.LinesBytes(uint32(max(2*have, lines))))
}
