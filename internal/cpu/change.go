package cpu

import (
	"context"
	"math"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Changes run in pieces of a batch, so that the keys of a piece stay in the cache. If several cores
// share a piece, it cannot stop after a prefix of its operations. So cores share a piece only if no
// core needs long for its share. Otherwise one core runs the piece in batch order and checks its
// watch.

const (
	// PieceOps is the maximum number of changes that are divided among the cores at a time. Their
	// keys and the shares fit in the second-level cache.
	PieceOps = 1 << 17

	// SmallPiece is the smallest size to which a piece is reduced when a core would need long for
	// its share.
	SmallPiece = 1 << 12

	// minParallelOps is the minimum number of changes that are divided among the cores. Dividing
	// fewer costs more than it gains.
	minParallelOps = 1 << 11

	// maxSkew is the maximum number of operations by which a share may exceed the mean share of a
	// piece. That many operations at one place take a few milliseconds, even if a path or chain
	// there grows meanwhile.
	maxSkew = 1 << 11
)

// Loops is the code of a structure that runs one piece of a batch of changes.
type Loops interface {
	// Locate computes the places at which operations [lo,hi) begin.
	Locate(lo, hi int, places []uint32)
	// Quick reports whether the searches of all operations together are short enough for a piece
	// that cannot stop early.
	Quick() bool
	// Run runs the operations of a share in order, until the watch stops it. It defers operations
	// that need places of other shares and lists them in Result.Deferred. Shares run concurrently.
	Run(w *Watch, s Share) (ran int, r Result)
}

// Result is the outcome of the changes in a share or a piece.
type Result struct {
	Failed     []uint32 // operations that overflowed, ascending within a share
	Deferred   []uint32 // operations that need places of other shares
	Used, Live int64    // number of empty slots filled; change in the number of pairs
}

// add adds the failed operations and the counts of other to r.
func (r *Result) add(other *Result) {
	r.Failed = append(r.Failed, other.Failed...)
	r.Used += other.Used
	r.Live += other.Live
}

// Change implements Change of [core.Engine]. It divides the batch into pieces of at most size
// operations and runs each piece with the Loops that loops returns for it.
func (e *Engine) Change(ctx context.Context, s *device.Stream, b *batch.Batch, size int, loops func(part *batch.Batch) Loops) (done int, failed []uint32, err error) {
	if err := SyncStream(s); err != nil {
		return 0, nil, err
	}
	g := e.Parts().(Generation)
	whole := Share{Hi: g.Memory().Units()}
	refused := 0 // end of the last part that reduce rejected
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

// pieceSize returns how many of the next n operations to run as a piece. If a high load makes
// searches long, a piece must not raise the load far. In a table of fixed size, the piece that
// reaches the capacity must be small, since one core runs it.
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

// fullPiece is the maximum number of operations of a piece that inserts into a full table. Most of
// these insertions search as far as possible.
const fullPiece = SmallPiece

// remaining returns the remaining capacity of a table with fixed size. Without a limit it returns
// math.MaxInt.
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

// freeSlots returns how many empty slots can be filled before searches get long.
func (e *Engine) freeSlots() int {
	if e.ShortSearchLoad == 0 {
		return math.MaxInt
	}
	g := e.Parts().(Generation)
	return int(e.ShortSearchLoad*float64(g.Memory().Units())*float64(e.SlotsPerLine)) - int(g.Tally().Used)
}

// updateCounters adds the result of a piece to the counters. It appends the operations that
// overflowed to failed. first is the index of the piece's first operation in the batch.
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

// runParallel runs a piece on all cores. ok is false, and nothing has been done, if the piece is
// too small or a core might need long for its share.
func (e *Engine) runParallel(b *batch.Batch, l Loops, whole Share) (sum Result, ok bool) {
	// When the table fills up, the order of the operations decides which of them overflow.
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

// runShares runs all shares of a piece in parallel. Then it runs the deferred operations on one
// core.
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

// skewed reports whether some share has far more of the n operations than the mean.
func skewed(shares []Share, n int) bool {
	for _, s := range shares {
		if len(s.Ops) >= n/len(shares)+maxSkew {
			return true
		}
	}
	return false
}
