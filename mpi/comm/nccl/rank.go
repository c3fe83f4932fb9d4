package nccl

import (
	"context"
	"errors"
	"runtime"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/vote"
)

// rank implements comm.Comm: what lies in host memory goes through the engine that it stands on.
type rank struct {
	comm.Comm
	library *library
	gpu     *gpu
	dev     device.Device
	opts    Options
	closed  bool
}

// ballot is a vote of a rank, and whether its buffers are memory of its GPU.
type ballot struct {
	vote.Vote
	host uint64
}

const ballotWords = int(unsafe.Sizeof(ballot{}) / 8)

func (r *rank) AllToAllV(ctx context.Context, send comm.Buf, sendBytes []int64, recv comm.Buf, recvBytes []int64) error {
	if r.gpu.abandoned {
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
	if err := vote.Count(votes, own); err != nil {
		return err
	}
	if host {
		return r.Comm.AllToAllV(context.Background(), send, sendBytes, recv, recvBytes)
	}
	_, largest := vote.Most(votes)
	return r.exchange(largest, send, sendBytes, recv, recvBytes)
}

// words views ballots as what AllGather takes.
func words(b []ballot) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)*ballotWords)
}

// holds reports whether a buffer is memory of the GPU, or empty.
func (r *rank) holds(b comm.Buf) bool {
	return b.Len() == 0 || b.Stream != nil && b.Stream.Device() == r.dev
}

// written waits until what was submitted on the stream of a buffer is done.
func written(b comm.Buf) error {
	if b.Stream == nil {
		return nil
	}
	return b.Stream.Sync(context.Background())
}

// maxBytes bounds what a rank sends in one round. All-to-alls of several GPUs lose 12 to 15 % of their
// speed above this size. A variable, so tests lower it.
var maxBytes = 512 << 20

// exchange sends a part to each peer and receives one from each, in rounds of pieces. The largest part
// of all ranks says how many rounds that takes.
func (r *rank) exchange(largest int, send comm.Buf, sendBytes []int64, recv comm.Buf, recvBytes []int64) (err error) {
	sendAt, recvAt := vote.Starts(sendBytes), vote.Starts(recvBytes)
	piece := max(maxBytes/r.Size(), 1)
	if own := sendBytes[r.Rank()]; own > 0 {
		to, from := recv.Part(recvAt[r.Rank()], own), send.Part(sendAt[r.Rank()], own)
		if err := recv.Stream.Copy(to.On.Ptr(), from.On.Ptr(), int(own)); err != nil {
			return err
		}
	}
	aborted := r.aborted()
	r.gpu.thread.Do(func() {
		for at := 0; at < largest && err == nil; at += piece {
			err = r.round(at, piece, send, sendAt, sendBytes, recv, recvAt, recvBytes)
		}
		if err == nil {
			err = r.gpu.wait(aborted)
		}
		if err != nil {
			r.gpu.abandon()
		}
	})
	runtime.KeepAlive(send)
	runtime.KeepAlive(recv)
	if err != nil {
		return err
	}
	return written(recv)
}

// round submits the exchange of at most piece bytes of each part, from a position on.
func (r *rank) round(at, piece int, send comm.Buf, sendAt, sendBytes []int64, recv comm.Buf, recvAt, recvBytes []int64) error {
	l := r.library
	if err := l.call(fnGroupStart); err != nil {
		return err
	}
	submit := func(fn, peer int, b comm.Buf, start, length int64) error {
		n := min(int(length)-at, piece)
		if n <= 0 || peer == r.Rank() {
			return nil
		}
		return l.call(fn, uintptr(b.On.Ptr())+uintptr(start)+uintptr(at), uintptr(n), typeUint8,
			uintptr(peer), r.gpu.handle, r.gpu.stream)
	}
	var err error
	for peer := 0; peer < r.Size() && err == nil; peer++ {
		if err = submit(fnSend, peer, send, sendAt[peer], sendBytes[peer]); err == nil {
			err = submit(fnRecv, peer, recv, recvAt[peer], recvBytes[peer])
		}
	}
	return errors.Join(err, l.call(fnGroupEnd))
}

// aborted returns what is closed when a rank aborts, if the engine below has such. MPI ends the process.
func (r *rank) aborted() <-chan struct{} {
	if below, ok := r.Comm.(interface{ Aborted() <-chan struct{} }); ok {
		return below.Aborted()
	}
	return nil
}

func (r *rank) Split(ctx context.Context, color, key int) (comm.Comm, error) {
	base, err := r.Comm.Split(ctx, color, key)
	if err != nil || base == nil {
		return nil, err
	}
	return New(ctx, base, r.dev, &r.opts)
}

// Close does not wait for other ranks after a failed exchange: they may wait for the rest of it.
func (r *rank) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	var err error
	if !r.gpu.abandoned {
		err = r.Comm.Close()
	}
	select {
	case <-r.aborted():
		r.gpu.thread.Do(r.gpu.abandon) // to destroy the group could wait for other ranks
	default:
	}
	return errors.Join(err, r.gpu.close())
}
