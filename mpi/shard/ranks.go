package shard

import (
	"context"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
)

// Ranks is the connection of one rank to the ranks that share its structures. It also holds memory
// that exchanges reuse. Only one goroutine may use it at a time.
type Ranks struct {
	comm comm.Comm
	dev  device.Host
	rank int
	size int

	structures uint32   // number of structures made
	head       []uint64 // words of this rank that agree sends
	heads      []uint64 // heads of all ranks
	ends       []uint64 // words of all ranks that outcome exchanges
	exchange   exchange
	on         memoryOn
	stats      Stats
}

// Words of a head. The number of rows for each rank follows them.
const (
	headSign  = iota // signature of the call
	headState        // bits such as stateFailed
	headArg          // argument of the method
	headWords
)

const (
	stateFailed = 1 << iota // the rank cannot begin
	stateFlags              // the rank requests the outcome of each row
	stateMore               // the rank has another round
)

// New returns the connection of one rank. Structures on it use host memory and the cores of dev,
// which must outlive them. Each call sends 8 bytes per pair of ranks to each rank. For more ranks
// than slots the error is [weft.ErrOptions].
func New(c comm.Comm, dev device.Host) (*Ranks, error) {
	r := &Ranks{comm: c, dev: dev, rank: c.Rank(), size: c.Size()}
	if r.size > Slots {
		return nil, fmt.Errorf("shard: %w: %d ranks; there are %d slots",
			weft.ErrOptions, r.size, Slots)
	}
	r.head = make([]uint64, headWords+r.size)
	r.heads = make([]uint64, len(r.head)*r.size)
	r.ends = make([]uint64, endWords*r.size)
	r.exchange.init(r)
	return r, nil
}

// Close frees device memory that exchanges reuse. It is not collective, and does not close the
// comm.Comm.
func (r *Ranks) Close() error { return r.on.free() }

// Rank returns the number of this rank, from 0 to Size()-1.
func (r *Ranks) Rank() int { return r.rank }

// Size returns the number of ranks.
func (r *Ranks) Size() int { return r.size }

func (r *Ranks) word(rank, i int) uint64 { return r.heads[rank*len(r.head)+i] }

// anyRank reports whether any rank has set a bit of its state.
func (r *Ranks) anyRank(bit uint64) bool {
	for i := range r.size {
		if r.word(i, headState)&bit != 0 {
			return true
		}
	}
	return false
}

// agree begins a call on all ranks. It returns an error on all ranks if their signatures differ, if
// a context has ended, or if some rank cannot begin. before is the reason why this rank cannot. The
// caller has filled the rest of r.head.
func (r *Ranks) agree(ctx context.Context, s signature, before error) error {
	if before == nil {
		before = ctx.Err()
	}
	r.head[headSign] = uint64(s)
	if before != nil {
		r.head[headState] |= stateFailed
	}
	if err := r.comm.AllGather(context.WithoutCancel(ctx), r.head, r.heads); err != nil {
		return r.commError(err)
	}
	for i := range r.size {
		if other := signature(r.word(i, headSign)); other != signature(r.word(0, headSign)) {
			return fmt.Errorf("shard: %w: rank 0 calls %v, and rank %d calls %v", ErrMismatch,
				signature(r.word(0, headSign)), i, other)
		}
	}
	if !r.anyRank(stateFailed) {
		return nil
	}
	_, err := r.outcome(before, 0)
	return err
}

// sameArg returns an error on all ranks if they sent different options in headArg.
func (r *Ranks) sameArg(s signature) error {
	for i := range r.size {
		if r.word(i, headArg) != r.word(0, headArg) {
			return fmt.Errorf("shard: %v: %w: ranks 0 and %d pass different options",
				s.method(), ErrMismatch, i)
		}
	}
	return nil
}

// commError aborts the group after an error of its transport.
func (r *Ranks) commError(err error) error {
	r.comm.Abort(1)
	return fmt.Errorf("shard: %w", err)
}

// abortUnless aborts the group if a panic unwinds a call before its end, because other ranks would
// wait for this one.
func (r *Ranks) abortUnless(ended *bool) {
	if !*ended {
		r.comm.Abort(2)
	}
}
