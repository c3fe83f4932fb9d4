package gpu

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/vote"
)

// Transport exchanges memory of GPUs.
type Transport interface {
	// Exchange performs an exchange. All ranks have agreed on the numbers of bytes. After an error
	// it no longer accesses the buffers.
	Exchange(p *Parts) error
	// Close frees the transport. All ranks have agreed to close, unless the group is aborted.
	Close(aborted bool) error
}

// Parts describes an exchange on one rank.
type Parts struct {
	Send, Recv           comm.Buf
	SendBytes, RecvBytes []int64
	SendAt, RecvAt       []int64 // offsets of the parts
	Largest              int     // size of the largest part on any rank
}

// Rank implements comm.Comm. It uses Transport if all buffers are memory of the ranks' devices, and
// the embedded Comm for everything else.
type Rank struct {
	comm.Comm
	Device    device.Device
	Transport Transport
	// Reopen makes a Comm of the same kind for another group.
	Reopen func(ctx context.Context, base comm.Comm) (comm.Comm, error)

	failed, closed bool
}

// Agree gathers the words of all ranks. It fails on all ranks if any rank passes an error.
func Agree(ctx context.Context, base comm.Comm, words []uint64, err error) ([]uint64, error) {
	send := append([]uint64{0}, words...)
	if err != nil {
		send[0] = 1
	}
	recv := make([]uint64, len(send)*base.Size())
	if failed := base.AllGather(ctx, send, recv); failed != nil {
		return nil, errors.Join(err, failed)
	}
	if err != nil {
		return nil, err
	}
	var all []uint64
	for r := range base.Size() {
		from := recv[r*len(send):][:len(send)]
		if from[0] != 0 {
			return nil, fmt.Errorf("%w: rank %d does not start", comm.ErrPeer, r)
		}
		all = append(all, from[1:]...)
	}
	return all, nil
}

// ballot is the vote of a rank on an exchange. host is 1 if a buffer is not memory of the rank's
// GPU.
type ballot struct {
	vote.Vote
	host uint64
}

const ballotWords = int(unsafe.Sizeof(ballot{}) / 8)

// AllToAllV implements comm.Comm.
func (r *Rank) AllToAllV(ctx context.Context, send comm.Buf, sendBytes []int64, recv comm.Buf, recvBytes []int64) error {
	if r.failed {
		return comm.ErrAborted
	}
	v, own := vote.Parts(ctx, r.Rank(), r.Size(), send, sendBytes, recv, recvBytes)
	if own == nil {
		if own = errors.Join(written(send), written(recv)); own != nil {
			v, own = vote.New(ctx, vote.AllToAllV, 0, own)
		}
	}
	mine, all := []ballot{{Vote: v}}, make([]ballot, r.Size())
	if !r.holds(send) || !r.holds(recv) {
		mine[0].host = 1
	}
	if err := r.Comm.AllGather(context.Background(), words(mine), words(all)); err != nil {
		return errors.Join(own, err)
	}
	votes, host := make([]vote.Vote, r.Size()), false
	for i, b := range all {
		votes[i], host = b.Vote, host || b.host != 0
	}
	if err := vote.Check(votes, own); err != nil {
		return err
	}
	if host {
		return r.Comm.AllToAllV(context.Background(), send, sendBytes, recv, recvBytes)
	}
	_, largest := vote.MaxBytes(votes)
	err := r.Transport.Exchange(&Parts{
		send, recv, sendBytes, recvBytes, vote.Starts(sendBytes), vote.Starts(recvBytes), largest,
	})
	if err == nil {
		err = written(recv)
	}
	r.failed = err != nil
	return err
}

func words(b []ballot) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)*ballotWords)
}

// holds reports whether a buffer is empty or memory of r.Device.
func (r *Rank) holds(b comm.Buf) bool {
	return b.Len() == 0 || b.Stream != nil && b.Stream.Device() == r.Device
}

// written waits for all work on the stream of a buffer.
func written(b comm.Buf) error {
	if b.Stream == nil {
		return nil
	}
	return b.Stream.Sync(context.Background())
}

// Aborted returns a channel that is closed when a rank aborts, or nil if base has none. MPI ends
// the process instead.
func Aborted(base comm.Comm) <-chan struct{} {
	if below, ok := base.(interface{ Aborted() <-chan struct{} }); ok {
		return below.Aborted()
	}
	return nil
}

// Split implements comm.Comm.
func (r *Rank) Split(ctx context.Context, color, key int) (comm.Comm, error) {
	base, err := r.Comm.Split(ctx, color, key)
	if err != nil || base == nil {
		return nil, err
	}
	return r.Reopen(ctx, base)
}

// Close implements comm.Comm. After a failed exchange it does not wait for other ranks, which may
// still wait for the rest of the exchange.
func (r *Rank) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	var err error
	if !r.failed {
		err = r.Comm.Close()
	}
	aborted := r.failed
	select {
	case <-Aborted(r.Comm):
		aborted = true
	default:
	}
	return errors.Join(err, r.Transport.Close(aborted))
}
