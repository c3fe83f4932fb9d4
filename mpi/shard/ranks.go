package shard

import (
	"context"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
)

// Ranks is one rank's end of the ranks that share structures: what they exchange data through, and
// memory that is kept for the next exchange. It belongs to one goroutine at a time.
type Ranks struct {
	comm comm.Comm
	dev  device.Host
	rank int
	size int

	structures uint32   // that have been made
	head       []uint64 // of this rank: what agree sends
	heads      []uint64 // of all ranks
	ends       []uint64 // of all ranks: what outcome sends
	exchange   exchange
	on         memoryOn
	stats      Stats
}

// Words of a head. The number of rows for each rank follows.
const (
	headSign  = iota // the signature of the call
	headState        // bits: see stateFailed
	headArg          // what the method sends with it
	headWords
)

const (
	stateFailed = 1 << iota // the rank cannot begin
	stateFlags              // it wants to learn of each row what became of it
	stateMore               // it has rows for another round
)

// New returns the end of a rank. It takes 8 bytes for each pair of ranks, which each call sends
// to each rank. Structures on it work on the memory of the host, with the cores of dev,
// which must outlive them. Errors: [weft.ErrOptions] for more ranks than slots.
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

// Close frees memory of a device that is kept for the next exchange. It is not collective, and
// leaves the comm.Comm open.
func (r *Ranks) Close() error { return r.on.free() }

// Rank returns the number of this rank, from 0 to Size()-1.
func (r *Ranks) Rank() int { return r.rank }

// Size returns the number of ranks.
func (r *Ranks) Size() int { return r.size }

// word returns a word of the head of a rank.
func (r *Ranks) word(rank, i int) uint64 { return r.heads[rank*len(r.head)+i] }

// anyRank reports whether the state of any rank has a bit.
func (r *Ranks) anyRank(bit uint64) bool {
	for i := range r.size {
		if r.word(i, headState)&bit != 0 {
			return true
		}
	}
	return false
}

// agree begins a call: it returns an error on all ranks unless all of them begin the same call,
// with contexts that have not ended. before is what keeps this rank from beginning. The caller has
// filled the rest of the head.
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

// sameArg returns an error, on all ranks, unless they have sent the same with their heads: options.
func (r *Ranks) sameArg(s signature) error {
	for i := range r.size {
		if r.word(i, headArg) != r.word(0, headArg) {
			return fmt.Errorf("shard: %v: %w: ranks 0 and %d pass different options",
				s.method(), ErrMismatch, i)
		}
	}
	return nil
}

// commError ends the group after an error of its transport.
func (r *Ranks) commError(err error) error {
	r.comm.Abort(1)
	return fmt.Errorf("shard: %w", err)
}

// abortUnless aborts the group if a call has not ended: a panic unwinds it, and its peers would
// wait for it.
func (r *Ranks) abortUnless(ended *bool) {
	if !*ended {
		r.comm.Abort(2)
	}
}
