package cpu

import (
	"context"
	"math"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Changes run in pieces of a batch, so that their keys stay in the cache. If all cores work on a
// piece, it cannot stop at an operation such that exactly the operations before it have run. So all
// cores share only those pieces that no core spends long on. One core runs the others in batch
// order and checks its watch.

const (
	// PieceOps is the number of changes that are divided among the cores at a time. Their keys and
	// the shares stay in the second-level cache.
	PieceOps = 1 << 17

	// SmallPiece is the minimum size of pieces that are tried if a core would spend long on its
	// share of a larger one.
	SmallPiece = 1 << 12

	// minParallelOps is the number of changes below which dividing them costs more than it gains.
	minParallelOps = 1 << 11

	// maxSkew is the maximum excess of a share's operations over the mean share of a piece. That
	// many at one place take a few milliseconds, even if a path or chain there grows meanwhile.
	maxSkew = 1 << 11
)

// Loops is the work of a structure on one piece of a batch of changes.
type Loops interface {
	// Locate computes the places where operations [lo,hi) begin.
	Locate(lo, hi int, places []uint32)
	// Quick reports whether the searches of all operations together are short
	// enough for a piece that cannot be stopped.
	Quick() bool
	// Run runs the operations of a share in order, until the watch stops it. It does not run
	// operations that need places of other shares, and returns them as Deferred. Shares run
	// concurrently.
	Run(w *Watch, s Share) (ran int, r Result)
}

// Result is the outcome of changes.
type Result struct {
	Failed     []uint32 // operations that overflowed
	Deferred   []uint32 // operations that need places of other shares
	Used, Live int64    // empty slots taken; change in the number of pairs
}

// add adds the result of other changes.
func (r *Result) add(other *Result) {
	r.Failed = append(r.Failed, other.Failed...)
	r.Used += other.Used
	r.Live += other.Live
}

// Change implements Change of [core.Engine]. It runs pieces of up to size operations with the loops
// that the function loops returns.
func (e *Engine) Change(ctx context.Context, s *device.Stream, b *batch.Batch, size int, loops func(part *batch.Batch) Loops) (done int, failed []uint32, err error) {
	if err := SyncStream(s); err != nil {
		return 0, nil, err
	}
	g := e.Parts().(Generation)
	whole := Share{Hi: g.Memory().Units()}
	refused := 0 // end of the last piece that reduce rejected
	for done < b.N {
		if err := ctx.Err(); err != nil {
			return done, failed, err
		}
		if n := e.reducibleRows(b, done); n > 0 && size >= PieceOps && done >= refused {
			part := b.Part(done, done+n)
			if r, ok := e.reduce(part, loops, whole); ok {
				failed = e.updateCounters(&r, done, failed)
				done += n
				continue
			}
			refused = done + n
		}
		part := b.Part(done, done+e.pieceSize(b, min(size, b.N-done)))
		l := loops(part)
		ran := part.N
		whole.Remaining = e.remaining()
		whole.Bounded = b.Inserts() && whole.Remaining.min() < part.N
		r, ok := e.runParallel(part, l, whole)
		switch {
		case ok:
		case part.N > SmallPiece && e.cores() > 1:
			size = max(size/4, SmallPiece)
			continue
		default:
			w := NewWatch(ctx)
			whole.Ops = e.Partitioner.AllOps(part.N)
			ran, r = l.Run(&w, whole)
		}
		failed = e.updateCounters(&r, done, failed)
		done += ran
	}
	return done, failed, nil
}

// pieceSize returns how many of n operations to run next. If searches get long as the memory fills,
// no large piece fills it. A piece that fills a table of fixed size to its capacity is small, since
// one core runs it. A full table adds nothing.
func (e *Engine) pieceSize(b *batch.Batch, n int) int {
	remaining := e.remaining().min()
	switch {
	case !b.Inserts():
		return n
	case remaining <= 0:
		return min(n, fullPiece)
	}
	return min(n, max(min(e.freeSlots(), remaining), SmallPiece))
}

// fullPiece is the maximum size of a piece of insertions into a full table. Most of these search as
// far as possible.
const fullPiece = SmallPiece

// remaining returns the remaining capacity of a table of fixed size.
func (e *Engine) remaining() Remaining {
	remaining, now := Remaining{math.MaxInt, math.MaxInt}, e.Parts().(tallied).Tally()
	if e.Capacity > 0 {
		remaining.Pairs = e.Capacity - int(now.Live)
	}
	if e.MaxUsed > 0 {
		remaining.Slots = e.MaxUsed - int(now.Used)
	}
	return remaining
}

func (r Remaining) min() int { return min(r.Pairs, r.Slots) }

// freeSlots returns how many slots may be taken before searches get long.
func (e *Engine) freeSlots() int {
	if e.ShortSearchLoad == 0 {
		return math.MaxInt
	}
	g := e.Parts().(Generation)
	return int(e.ShortSearchLoad*float64(g.Memory().Units())*float64(e.SlotsPerLine)) - int(g.Tally().Used)
}

// updateCounters adds the result of a piece to the counters; first is the number of the piece's
// first operation in the batch. It appends the operations that overflowed to failed.
func (e *Engine) updateCounters(r *Result, first int, failed []uint32) []uint32 {
	t := e.Parts().(tallied).Tally()
	t.Live += uint64(r.Live)
	t.Used += uint64(r.Used)
	for _, i := range r.Failed {
		failed = append(failed, uint32(first)+i)
	}
	return failed
}

func (e *Engine) cores() int { return e.Device.Properties().Units }

// runParallel runs a piece on all cores. It returns false, and has done nothing, if the piece is
// too small, or a core may spend long on its share.
func (e *Engine) runParallel(b *batch.Batch, l Loops, whole Share) (sum Result, ok bool) {
	// the order of operations decides which overflow
	filling := whole.Bounded && whole.Remaining.min() > 0
	if b.N < minParallelOps || e.cores() == 1 || filling || !l.Quick() {
		return sum, false
	}
	shares := e.Partitioner.PartitionOps(e.Device, whole.Hi-1, b.N, l.Locate)
	if !b.Appends() && skewed(shares, b.N) {
		return sum, false
	}
	for i := range shares {
		shares[i].Bounded, shares[i].Remaining = whole.Bounded, whole.Remaining
	}
	return e.runShares(l, shares, whole), true
}

// runShares runs the shares of a piece on all cores.
func (e *Engine) runShares(l Loops, shares []Share, whole Share) (sum Result) {
	results := make([]Result, len(shares))
	e.Device.Parallel(len(shares), 1, func(i, _ int) { _, results[i] = l.Run(NoWatch(), shares[i]) })
	for i := range results {
		sum.add(&results[i])
	}
	watch := NoWatch()
	for i := range results {
		if whole.Ops = results[i].Deferred; len(whole.Ops) > 0 {
			_, r := l.Run(watch, whole)
			sum.add(&r)
		}
	}
	slices.Sort(sum.Failed)
	return sum
}

// skewed reports whether a share has many more of n operations than the mean.
func skewed(shares []Share, n int) bool {
	for _, s := range shares {
		if len(s.Ops) >= n/len(shares)+maxSkew {
			return true
		}
	}
	return false
}
