package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/vote"
)

// rank implements comm.Comm for one rank of a group.
type rank struct {
	group  *group
	rank   int
	phase  int // index in group.votes and group.slots for the next call
	closed bool

	written, read marker // for exchanges of device memory
}

func (r *rank) Rank() int { return r.rank }

func (r *rank) Size() int { return len(r.group.votes[0]) }

// collective publishes a vote and a slot. If all ranks enter the call, it calls f between the
// barriers. ownErr is the reason why this rank does not enter.
func (r *rank) collective(v vote.Vote, ownErr error, s slot, f func(peers []slot) error) (err error) {
	if r.closed {
		return fmt.Errorf("local: %s: %w", v.Call, device.ErrClosed)
	}
	g, phase := r.group, r.phase
	r.phase = 1 - phase
	defer func() {
		if g.abort.entered() {
			g.leave()
			err = comm.ErrAborted
		}
	}()
	g.mu.Lock()
	g.votes[phase][r.rank], g.slots[phase][r.rank] = v, s
	g.mu.Unlock()
	if err := g.barrier(); err != nil {
		return err
	}
	g.slots[1-phase][r.rank] = slot{} // all ranks have left the previous call; releases its buffers
	if err := vote.Check(g.votes[phase], ownErr); err != nil || f == nil {
		return err
	}
	err = g.read(func() error { return f(g.slots[phase]) })
	if passed := g.barrier(); passed != nil {
		return passed
	}
	return err
}

func (r *rank) Barrier(ctx context.Context) error {
	v, err := vote.New(ctx, vote.Barrier, 0, nil)
	return r.collective(v, err, slot{}, nil)
}

func (r *rank) AllGather(ctx context.Context, send, recv []uint64) error {
	v, err := vote.Gather(ctx, r.Size(), send, recv)
	return r.collective(v, err, slot{words: send}, func(peers []slot) error {
		for peer := range peers {
			copy(recv[peer*len(send):], peers[peer].words)
		}
		return nil
	})
}

func (r *rank) AllReduce(ctx context.Context, op comm.Op, values []uint64) error {
	v, err := vote.Reduce(ctx, vote.AllReduce, op, len(values))
	return reduce(r, v, err, op, values, slot{words: values}, func(s *slot) []uint64 { return s.words })
}

func (r *rank) AllReduceFloat(ctx context.Context, op comm.Op, values []float64) error {
	v, err := vote.Reduce(ctx, vote.AllReduceFloat, op, len(values))
	return reduce(r, v, err, op, values, slot{floats: values}, func(s *slot) []float64 { return s.floats })
}

// reduce combines a share of the values on each rank, in the order of ranks, and then gathers the
// shares.
func reduce[T uint64 | float64](r *rank, v vote.Vote, ownErr error, op comm.Op, values []T, s slot, of func(*slot) []T) error {
	var shares []slot
	err := r.collective(v, ownErr, s, func(peers []slot) error {
		lo, hi := vote.Share(len(values), r.rank, r.Size())
		share := slices.Clone(of(&peers[0])[lo:hi])
		for peer := 1; peer < len(peers); peer++ {
			vote.Combine(op, share, of(&peers[peer])[lo:hi])
		}
		peers[r.rank].share = share
		shares = peers
		return nil
	})
	if err != nil {
		return err
	}
	// All shares are complete, and no other rank reads values.
	for peer := range shares {
		lo, _ := vote.Share(len(values), peer, r.Size())
		copy(values[lo:], shares[peer].share.([]T))
	}
	return nil
}

func (r *rank) Split(ctx context.Context, color, key int) (comm.Comm, error) {
	v, err := vote.Color(ctx, color, key)
	var first, place int
	var slots []slot
	err = r.collective(v, err, slot{color: color, key: key}, func(peers []slot) error {
		members := make([]int, 0, len(peers))
		for peer := range peers {
			if peers[peer].color == color {
				members = append(members, peer)
			}
		}
		slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(peers[a].key, peers[b].key) })
		if first, place, slots = members[0], slices.Index(members, r.rank), peers; place == 0 {
			peers[r.rank].split = newGroup(len(members), r.group.abort)
		}
		return nil
	})
	if err != nil || color < 0 {
		return nil, err
	}
	return &rank{group: slots[first].split, rank: place}, nil
}

func (r *rank) Abort(int) { r.group.abort.once.Do(func() { close(r.group.abort.done) }) }

func (r *rank) Close() error {
	if r.closed {
		return nil
	}
	var err error
	if !r.group.abort.entered() {
		var v vote.Vote
		v, err = vote.New(context.Background(), vote.Close, 0, nil)
		err = r.collective(v, err, slot{}, nil)
	}
	r.closed = true
	return errors.Join(err, r.written.close(), r.read.close())
}

// Aborted returns a channel that is closed when a rank aborts. Engines based on this one wait for
// it, too.
func (r *rank) Aborted() <-chan struct{} { return r.group.abort.done }
