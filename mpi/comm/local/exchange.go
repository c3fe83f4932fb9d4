package local

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/vote"
)

func (r *rank) AllToAllV(ctx context.Context, send comm.Buf, sendBytes []int64, recv comm.Buf, recvBytes []int64) error {
	v, err := vote.Parts(ctx, r.rank, r.Size(), send, sendBytes, recv, recvBytes)
	s := slot{send: send}
	if err == nil {
		s.starts = vote.Starts(sendBytes)
		if err = written(send); err != nil {
			v, err = vote.New(ctx, vote.AllToAllV, 0, err)
		}
	}
	return r.collective(v, err, s, func(peers []slot) error {
		to := vote.Starts(recvBytes)
		for i := range peers {
			// Ranks begin with different peers, so they do not all read the same memory.
			peer := (r.rank + i) % len(peers)
			from, n := peers[peer].starts[r.rank], recvBytes[peer]
			if n == 0 {
				continue
			}
			if err := move(recv.Part(to[peer], n), peers[peer].send.Part(from, n)); err != nil {
				return err
			}
		}
		return written(recv)
	})
}

// written waits until what was submitted on the stream of a buffer is done.
func written(b comm.Buf) error {
	if b.Stream == nil {
		return nil
	}
	return b.Stream.Sync(context.Background())
}

// stagingBytes is the size of pieces that are copied from one device to another through the host.
const stagingBytes = 4 << 20

// move copies a part to a buffer of the same length: between two GPUs over their link.
func move(to, from comm.Buf) error {
	switch {
	case to.Stream == nil && from.Stream == nil:
		copy(to.Host, from.Host)
		return nil
	case to.Stream == nil:
		return from.Stream.CopyOut(context.Background(), to.Host, from.On.Ptr())
	case from.Stream == nil:
		return to.Stream.CopyIn(to.On.Ptr(), from.Host)
	case to.Stream.Device() == from.Stream.Device():
		return to.Stream.Copy(to.On.Ptr(), from.On.Ptr(), to.Len())
	case from.On.Host() != nil:
		return to.Stream.CopyIn(to.On.Ptr(), from.On.Host())
	case to.On.Host() != nil:
		return from.Stream.CopyOut(context.Background(), to.On.Host(), from.On.Ptr())
	}
	err := to.Stream.CopyPeer(to.On.Ptr(), from.Stream.Device(), from.On.Ptr(), to.Len())
	if !errors.Is(err, device.ErrUnsupported) {
		return err
	}
	piece := make([]byte, min(to.Len(), stagingBytes))
	for at := 0; at < to.Len(); at += len(piece) {
		n := min(len(piece), to.Len()-at)
		if err := from.On.Sub(at, at+n).CopyTo(context.Background(), from.Stream, piece[:n]); err != nil {
			return err
		}
		if err := to.On.Sub(at, at+n).CopyFrom(to.Stream, piece[:n]); err != nil {
			return err
		}
	}
	return nil
}
