package roofline

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/weftgo/weft/device"
)

// host holds the memory that all measurements on a CPU use.
type host struct {
	*meter
	dev             device.Host
	region          []uint64
	queries, result []uint64
}

const (
	cpuGrain = 1 << 14 // queries that a core takes at a time
	lineLen  = 64 / 8  // words per cache line
	copyPart = 1 << 17 // words that a core copies at a time: 1 MiB
)

func (m *meter) measureCPU(ctx context.Context, dev device.Host) (err error) {
	h := &host{meter: m, dev: dev}
	var slices [3]device.Slice[uint64]
	defer func() {
		for i := range slices {
			err = errors.Join(err, slices[i].Free())
		}
	}()
	for i, n := range []int{m.opts.Region / 8, m.opts.Ops, m.opts.Ops} {
		if slices[i], err = device.Make[uint64](dev, n); err != nil {
			return err
		}
	}
	h.region, h.queries, h.result = slices[0].Host(), slices[1].Host(), slices[2].Host()
	h.clearRegion() // touches every page, like filling a table
	for i := range h.queries {
		h.queries[i] = uint64(i)
	}
	for _, part := range []func(context.Context) error{h.measureReads, h.measureSwaps, h.measureBulk, h.measureLaunches} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// each runs body over [0,n) in pieces of grain, on one core or on all.
func (h *host) each(oneCore bool, n, grain int, body func(lo, hi int)) {
	if oneCore {
		body(0, n)
		return
	}
	h.dev.Parallel(n, grain, body)
}

func (h *host) clearRegion() {
	h.each(false, len(h.region), copyPart, func(lo, hi int) { clear(h.region[lo:hi]) })
}

// median returns the median time of work by the host's clock. Unless prepare is nil, it runs
// untimed before each work.
func (h *host) median(ctx context.Context, prepare, work func()) (time.Duration, error) {
	return Median(ctx, h.opts.Runs, func() (time.Duration, error) {
		if prepare != nil {
			prepare()
		}
		start := time.Now()
		work()
		return time.Since(start), nil
	})
}

// address hashes a query to [0,n), as the kernels do.
func address(query uint64, n int) int {
	const seed = 0x7765667400000001
	x := query ^ seed
	x ^= x >> 32
	x *= 0xe9846af9b1a615d
	x ^= x >> 32
	x *= 0xe9846af9b1a615d
	x ^= x >> 28
	hi, _ := bits.Mul64(x, uint64(n))
	return int(hi)
}

// measureReads measures random reads of cache lines. A core overlaps the reads of a group, since
// their addresses are independent. measureReads tries several group sizes and takes the best.
func (h *host) measureReads(ctx context.Context) error {
	for _, mode := range []struct {
		limit   string
		oneCore bool
	}{{Read64OneCore, true}, {Read64, false}} {
		if !h.selected(mode.limit) {
			continue
		}
		for _, read := range []struct {
			flight int
			body   func(h *host, lo, hi int)
		}{{1, (*host).readSingly}, {8, (*host).read8}, {32, (*host).read32}} {
			t, err := h.median(ctx, nil, func() {
				h.each(mode.oneCore, len(h.queries), cpuGrain, func(lo, hi int) { read.body(h, lo, hi) })
			})
			if err != nil {
				return fmt.Errorf("%s: %w", mode.limit, err)
			}
			h.record(mode.limit, Rate(len(h.queries), t), read.flight)
		}
	}
	return nil
}

// readSingly reads one line after the other. Reads overlap only as far as the core reorders them.
func (h *host) readSingly(lo, hi int) {
	lines := len(h.region) / lineLen
	for i := lo; i < hi; i++ {
		h.result[i] = h.region[address(h.queries[i], lines)*lineLen] + h.queries[i]
	}
}

// read8 and read32 compute the addresses of a group, then read all its lines, and then use the
// results. They are separate functions because arrays are on the stack and unchecked only if their
// size is a constant.
func (h *host) read8(lo, hi int) {
	const group = 8
	lines := len(h.region) / lineLen
	var at [group]int
	var word [group]uint64
	for ; lo+group <= hi; lo += group {
		query, result := h.queries[lo:lo+group], h.result[lo:lo+group]
		for j := range at {
			at[j] = address(query[j], lines) * lineLen
		}
		for j, a := range at {
			word[j] = h.region[a]
		}
		for j, w := range word {
			result[j] = w + query[j]
		}
	}
	h.readSingly(lo, hi)
}

func (h *host) read32(lo, hi int) {
	const group = 32
	lines := len(h.region) / lineLen
	var at [group]int
	var word [group]uint64
	for ; lo+group <= hi; lo += group {
		query, result := h.queries[lo:lo+group], h.result[lo:lo+group]
		for j := range at {
			at[j] = address(query[j], lines) * lineLen
		}
		for j, a := range at {
			word[j] = h.region[a]
		}
		for j, w := range word {
			result[j] = w + query[j]
		}
	}
	h.readSingly(lo, hi)
}

// measureSwaps measures compare-and-swaps in cleared memory. A locked instruction waits for its
// line, so swap16 reads the lines of a group first.
func (h *host) measureSwaps(ctx context.Context) error {
	for _, mode := range []struct {
		limit   string
		oneCore bool
	}{{CAS64OneCore, true}, {CAS64, false}} {
		if !h.selected(mode.limit) {
			continue
		}
		for _, swap := range []struct {
			flight int
			body   func(h *host, lo, hi int)
		}{{1, (*host).swapSingly}, {16, (*host).swap16}} {
			t, err := h.median(ctx, h.clearRegion, func() {
				h.each(mode.oneCore, len(h.queries), cpuGrain, func(lo, hi int) { swap.body(h, lo, hi) })
			})
			if err != nil {
				return fmt.Errorf("%s: %w", mode.limit, err)
			}
			h.record(mode.limit, Rate(len(h.queries), t), swap.flight)
		}
	}
	return nil
}

func (h *host) swapSingly(lo, hi int) {
	for i := lo; i < hi; i++ {
		atomic.CompareAndSwapUint64(&h.region[address(h.queries[i], len(h.region))], 0, h.queries[i]|1)
	}
}

func (h *host) swap16(lo, hi int) {
	const group = 16
	var at [group]int
	var sum uint64
	for ; lo+group <= hi; lo += group {
		query := h.queries[lo : lo+group]
		for j := range at {
			at[j] = address(query[j], len(h.region))
		}
		for _, a := range at {
			sum |= atomic.LoadUint64(&h.region[a])
		}
		for j, a := range at {
			atomic.CompareAndSwapUint64(&h.region[a], 0, query[j]|1)
		}
	}
	h.result[max(hi-1, 0)] = sum // keeps the reads from being optimized away
	h.swapSingly(lo, hi)
}

func (h *host) measureBulk(ctx context.Context) error {
	half := len(h.region) / 2
	for _, mode := range []struct {
		limit   string
		oneCore bool
	}{{CopyOneCore, true}, {Copy, false}} {
		if !h.selected(mode.limit) {
			continue
		}
		t, err := h.median(ctx, nil, func() {
			h.each(mode.oneCore, half, copyPart, func(lo, hi int) { copy(h.region[half+lo:half+hi], h.region[lo:hi]) })
		})
		if err != nil {
			return fmt.Errorf("%s: %w", mode.limit, err)
		}
		h.record(mode.limit, Rate(2*8*half, t), 1)
	}
	if h.selected(Fill) {
		t, err := h.median(ctx, nil, h.clearRegion)
		if err != nil {
			return fmt.Errorf("%s: %w", Fill, err)
		}
		h.record(Fill, Rate(8*len(h.region), t), 1)
	}
	return nil
}

// measureLaunches measures distributing one empty work item to every core.
func (h *host) measureLaunches(ctx context.Context) error {
	if !h.selected(LaunchSync) {
		return nil
	}
	const times = 256
	t, err := h.median(ctx, nil, func() {
		for range times {
			h.dev.Parallel(h.dev.Properties().Units, 1, func(int, int) {})
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w", LaunchSync, err)
	}
	h.record(LaunchSync, Rate(times, t), 1)
	return nil
}
