package cpu

import (
	"context"
	"math"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Changes are run in pieces of a batch, so that their keys stay in the cache. If
// all cores work on a piece, it cannot stop at an operation so that all before
// it have been run, and none behind it. So that is done with pieces that no core
// is long at, and the others are run in batch order by one core that looks at
// its watch.

const (
	// PieceOps is the number of changes that are dealt out to the cores at a
	// time; their keys and the deal stay in the second-level cache.
	PieceOps = 1 << 17

	// SmallPiece is the size of the smallest pieces that are tried where a core
	// would be long at its share of a larger one.
	SmallPiece = 1 << 12

	// aloneOps is the number of changes below which dealing them out costs
	// more than it gains.
	aloneOps = 1 << 11

	// crowd is how many more operations than others a share of a piece may have.
	// So many at one place take a few milliseconds, also if a path or chain
	// there grows meanwhile.
	crowd = 1 << 11
)

// Loops are what a structure does with one piece of a batch of changes.
type Loops interface {
	// Places works out where operations [lo,hi) begin.
	Places(lo, hi int, places []uint32)
	// Quick reports whether the searches of all operations together are short
	// enough for a piece that cannot be stopped.
	Quick() bool
	// Run runs the operations of a share in order, until the watch stops it. Those
	// that need places of other shares are late, and are not run. Shares run side
	// by side.
	Run(w *Watch, s Share) (ran int, r Result)
}

// Result is what changes have come to.
type Result struct {
	Failed      []uint32 // operations that found no room
	Late        []uint32 // operations that need places of other shares
	Fresh, Live int64    // slots taken that were empty; change of the number of pairs
}

// add adds what other changes have come to.
func (r *Result) add(other *Result) {
	r.Failed = append(r.Failed, other.Failed...)
	r.Fresh += other.Fresh
	r.Live += other.Live
}

// Change is that of [core.Engine], by the loops for a piece, in pieces of a size
// or less.
func (e *Engine) Change(ctx context.Context, s *device.Stream, b *batch.Batch, size int, loops func(part *batch.Batch) Loops) (done int, failed []uint32, err error) {
	if err := Open(s); err != nil {
		return 0, nil, err
	}
	g := e.Parts().(Generation)
	whole := Share{Hi: g.Memory().Units()}
	refused := 0 // where a piece ends that reduce has refused
	for done < b.N {
		if err := ctx.Err(); err != nil {
			return done, failed, err
		}
		if n := e.reducible(b, done); n > 0 && size >= PieceOps && done >= refused {
			part := b.Part(done, done+n)
			if r, ok := e.reduce(part, loops, whole); ok {
				failed = e.account(&r, done, failed)
				done += n
				continue
			}
			refused = done + n
		}
		part := b.Part(done, done+e.piece(b, min(size, b.N-done)))
		l := loops(part)
		ran := part.N
		whole.Room = e.room()
		whole.Bounded = b.Inserts() && whole.Room.least() < part.N
		r, ok := e.together(part, l, whole)
		switch {
		case ok:
		case part.N > SmallPiece && e.cores() > 1:
			size = max(size/4, SmallPiece)
			continue
		default:
			w := NewWatch(ctx)
			whole.Ops = e.Dealer.All(part.N)
			ran, r = l.Run(&w, whole)
		}
		failed = e.account(&r, done, failed)
		done += ran
	}
	return done, failed, nil
}

// piece is how many of n operations are run next: where searches get long as the
// memory fills, no large piece of them fills it. One that brings a table of fixed size to its
// capacity is small, since one core runs it; in a full table nothing is added.
func (e *Engine) piece(b *batch.Batch, n int) int {
	room := e.room().least()
	switch {
	case !b.Inserts():
		return n
	case room <= 0:
		return min(n, fullPiece)
	}
	return min(n, max(min(e.free(), room), SmallPiece))
}

// fullPiece is the size of the largest pieces of insertions into a full table, most of which
// search as far as any do.
const fullPiece = SmallPiece

// room is what a table of fixed size has left.
func (e *Engine) room() Room {
	room, now := Room{math.MaxInt, math.MaxInt}, e.Parts().(tallied).Tally()
	if e.Capacity > 0 {
		room.Pairs = e.Capacity - int(now.Live)
	}
	if e.MostUsed > 0 {
		room.Slots = e.MostUsed - int(now.Used)
	}
	return room
}

func (r Room) least() int { return min(r.Pairs, r.Slots) }

// free is how many slots may be taken before searches get long.
func (e *Engine) free() int {
	if e.Fullest == 0 {
		return math.MaxInt
	}
	g := e.Parts().(Generation)
	return int(e.Fullest*float64(g.Memory().Units())*float64(e.Slots)) - int(g.Tally().Used)
}

// account counts what a piece has come to, whose first operation is number first
// of the batch, and adds those without room to the others.
func (e *Engine) account(r *Result, first int, failed []uint32) []uint32 {
	t := e.Parts().(tallied).Tally()
	t.Live += uint64(r.Live)
	t.Used += uint64(r.Fresh)
	for _, i := range r.Failed {
		failed = append(failed, uint32(first)+i)
	}
	return failed
}

func (e *Engine) cores() int { return e.Device.Properties().Units }

// together runs a piece on all cores. It reports false, and has done nothing, if
// the piece is too small, or a core may be long at its share.
func (e *Engine) together(b *batch.Batch, l Loops, whole Share) (sum Result, ok bool) {
	filling := whole.Bounded && whole.Room.least() > 0 // the order of operations decides which are left out
	if b.N < aloneOps || e.cores() == 1 || filling || !l.Quick() {
		return sum, false
	}
	shares := e.Dealer.Out(e.Device, whole.Hi-1, b.N, l.Places)
	if !b.Appends() && crowded(shares, b.N) {
		return sum, false
	}
	for i := range shares {
		shares[i].Bounded, shares[i].Room = whole.Bounded, whole.Room
	}
	return e.run(l, shares, whole), true
}

// run runs the shares of a piece on all cores.
func (e *Engine) run(l Loops, shares []Share, whole Share) (sum Result) {
	results := make([]Result, len(shares))
	e.Device.Parallel(len(shares), 1, func(i, _ int) { _, results[i] = l.Run(NoWatch(), shares[i]) })
	for i := range results {
		sum.add(&results[i])
	}
	watch := NoWatch()
	for i := range results {
		if whole.Ops = results[i].Late; len(whole.Ops) > 0 {
			_, r := l.Run(watch, whole)
			sum.add(&r)
		}
	}
	slices.Sort(sum.Failed)
	return sum
}

// crowded reports whether a share has many more of n operations than others.
func crowded(shares []Share, n int) bool {
	for _, s := range shares {
		if len(s.Ops) >= n/len(shares)+crowd {
			return true
		}
	}
	return false
}
