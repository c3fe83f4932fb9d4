// Package cpu is what the engines of all structures on a CPU have in common: how
// operations are shared out among the cores, how each core has memory on its way
// while it works, how slots and outcomes are written, and an [Engine] to which a
// structure adds its own loops.
package cpu

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// Tallied is a generation of any structure.
type Tallied interface {
	core.Parts
	Tally() *core.Tally
}

// Generation is one that embeds [core.Lines].
type Generation interface {
	Tallied
	Memory() *core.Lines
}

// Engine is a [core.Engine] but for the loops of a structure, which embeds it.
// All work is done when a method returns, also on streams.
type Engine struct {
	Device device.Host
	Slots  int // in each line, if the memory is of lines
	Leases *core.Leases
	Dealer Dealer
}

// Start makes the first generation the current one.
func (e *Engine) Start(g Tallied) *core.Leases {
	e.Leases = core.NewLeases(g)
	return e.Leases
}

// Tuning of the loops.
const (
	// grain is the number of lookups a core takes at a time, a few hundred
	// microseconds' work.
	grain = 1 << 13

	// getPiece is the number of lookups that are handed out to the cores at a
	// time.
	getPiece = 1 << 20

	// PieceOps is the number of changes that are dealt out to the cores at a
	// time; their keys and the deal stay in the second-level cache.
	PieceOps = 1 << 17

	// aloneOps is the number of changes below which dealing them out costs
	// more than it gains.
	aloneOps = 1 << 11
)

// Caps is for [core.Engine].
func (e *Engine) Caps() core.Caps { return core.Caps{} }

// Lost is for [core.Engine]: Change reports what found no room.
func (e *Engine) Lost(context.Context) (int, error) { return 0, nil }

// Close is for [core.Engine].
func (e *Engine) Close() error { return nil }

// Current is for [core.Engine].
func (e *Engine) Current() *core.Lease { return e.Leases.Current() }

// Parts is the current generation, for the writer whose turn it is.
func (e *Engine) Parts() core.Parts { return e.Current().Parts }

// Counters is for [core.Engine].
func (e *Engine) Counters(context.Context) (core.Counters, error) {
	c := e.Parts().(Tallied).Tally()
	return core.Counters{Live: c.Live, Used: c.Used}, nil
}

// Add is for [core.Engine].
func (e *Engine) Add(_ *device.Stream, to device.Slice[uint64], negate bool) error {
	n := e.Parts().(Tallied).Tally().Live
	if negate {
		n = -n
	}
	atomic.AddUint64(&to.Host()[0], n) // other tables' lookups and changes may add, too
	return nil
}

// Clear is for [core.Engine].
func (e *Engine) Clear(ctx context.Context) error { return e.Wipe(ctx, e.Parts().(Generation)) }

// Extent is for [core.Engine].
func (e *Engine) Extent(l *core.Lease) (units uint32, rows int) {
	return l.Parts.(Generation).Memory().Units(), e.Slots
}

// Open reports whether a stream can be used, which has nothing under way. There
// may be none.
func Open(s *device.Stream) error {
	if s == nil {
		return nil
	}
	return s.Sync(context.Background())
}

// Each runs a lookup of n keys in ranges, on all cores, until ctx ends. body
// looks up keys [lo,hi) and returns how many of them, from lo on, it has done
// when its watch stops it, and how many of those are there. done is the length
// of the prefix that was run, hits the number of its keys that are there.
func (e *Engine) Each(ctx context.Context, n int, body func(w *Watch, lo, hi int) (ran, hits int)) (done, hits int, err error) {
	type result struct{ end, hits int }
	results := make([]result, (min(n, getPiece)+grain-1)/grain)
	for done < n {
		size := min(getPiece, n-done)
		e.Device.Parallel(size, grain, func(lo, hi int) {
			w := NewWatch(ctx)
			ran, hits := body(&w, done+lo, done+hi)
			results[lo/grain] = result{lo + ran, hits}
		})
		for lo := 0; lo < size; lo += grain {
			r := results[lo/grain]
			hits += r.hits
			if r.end < min(lo+grain, size) {
				return done + r.end, hits, ctx.Err()
			}
		}
		done += size
	}
	return done, hits, nil
}

// Pieces runs a batch of changes in pieces of a size: in batch order by alone,
// which stops when its watch says so, or if a piece is large enough for all
// cores by together. That cannot stop at an operation so that all before it
// have been run, and none behind it: it returns false if the piece may take too
// long, and leaves it to alone. Both return the operations that found no room,
// by their numbers in the piece.
func (e *Engine) Pieces(ctx context.Context, b *batch.Batch, size int,
	alone func(w *Watch, part *batch.Batch) (ran int, failed []uint32),
	together func(part *batch.Batch) (failed []uint32, ok bool),
) (done int, failed []uint32, err error) {
	for done < b.N {
		if err := ctx.Err(); err != nil {
			return done, failed, err
		}
		part := b.Part(done, min(done+size, b.N))
		ran := part.N
		var full []uint32
		ok := false
		if part.N >= aloneOps && e.Device.Properties().Units > 1 {
			full, ok = together(part)
		}
		if !ok {
			w := NewWatch(ctx)
			ran, full = alone(&w, part)
		}
		for _, i := range full {
			failed = append(failed, uint32(done)+i)
		}
		done += ran
	}
	return done, failed, nil
}

// Wipe empties all lines of a generation, on all cores. If ctx ends before it is
// done, that is the error.
func (e *Engine) Wipe(ctx context.Context, g Generation) error {
	lines := g.Memory()
	*lines.Tally() = core.Tally{}
	words := batch.View[uint64](lines.Buf.Host[:lines.Bytes()])
	var stopped atomic.Bool
	e.Device.Parallel(len(words), 1<<17, func(lo, hi int) {
		if ctx.Err() != nil {
			stopped.Store(true)
			return
		}
		part := words[lo:hi]
		for i := range part {
			part[i] = ^uint64(0)
		}
	})
	if stopped.Load() {
		return ctx.Err()
	}
	return nil
}

// Merged is the failed operations of shares, ascending.
func Merged(failed [][]uint32) []uint32 {
	all := slices.Concat(failed...)
	slices.Sort(all)
	return all
}
