package mpi

import (
	"context"
	"runtime"

	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/clib"
	"github.com/weftgo/weft/mpi/comm/internal/vote"
)

// maxBytes bounds the bytes that a rank sends or receives in one call of MPI, which limits counts
// and offsets to 31 bits. Larger calls would also lose 12 to 15 % of a link's speed. It is a
// variable because tests lower it.
var maxBytes = 512 << 20

func (r *rank) AllToAllV(ctx context.Context, send comm.Buf, sendBytes []int64, recv comm.Buf, recvBytes []int64) error {
	v, err := vote.Parts(ctx, r.rank, r.size, send, sendBytes, recv, recvBytes)
	var from, to []byte
	if err == nil {
		to = r.got.space(recv, sum(recvBytes))
		if from, err = r.sent.read(send, sum(sendBytes)); err != nil {
			v, err = vote.New(ctx, vote.AllToAllV, 0, err)
		}
	}
	err = r.collective(v, err, func() {
		total, part := vote.MaxBytes(r.votes)
		r.exchange(total, part, from, sendBytes, to, recvBytes)
	})
	if err != nil {
		return err
	}
	return write(recv, to)
}

func sum(bytes []int64) (total int64) {
	for _, n := range bytes {
		total += n
	}
	return total
}

// exchange sends a part to each rank and receives a part from each. total is the maximum number of
// bytes that any rank sends or receives. largest is the size of the largest part on any rank.
func (r *rank) exchange(total, largest int, send []byte, sendBytes []int64, recv []byte, recvBytes []int64) {
	if total <= maxBytes {
		j := r.job
		sendCounts, sendAt := counts(sendBytes)
		recvCounts, recvAt := counts(recvBytes)
		j.must(fnAlltoallv, clib.Address(send), clib.Address(sendCounts), clib.Address(sendAt), j.bytes,
			clib.Address(recv), clib.Address(recvCounts), clib.Address(recvAt), j.bytes, r.handle)
		runtime.KeepAlive([...][]int32{sendCounts, sendAt, recvCounts, recvAt})
		return
	}
	sendAt, recvAt := vote.Starts(sendBytes), vote.Starts(recvBytes)
	r.exchangePieces(largest, func(peer int) (to, from []byte) {
		return send[sendAt[peer]:][:sendBytes[peer]], recv[recvAt[peer]:][:recvBytes[peer]]
	})
}

// counts returns the lengths and the offsets of parts as MPI takes them.
func counts(bytes []int64) (lengths, at []int32) {
	lengths, at = make([]int32, len(bytes)), make([]int32, len(bytes))
	start := int32(0)
	for i, n := range bytes {
		lengths[i], at[i] = int32(n), start
		start += int32(n)
	}
	return lengths, at
}

// exchangePieces exchanges a part with each peer, in pieces of at most maxBytes. parts returns the
// part to send and the buffer to receive. In step i, a rank sends to the rank i above it, and
// receives from the rank i below it. All ranks perform as many rounds per step as the largest part
// needs.
func (r *rank) exchangePieces(largest int, parts func(peer int) (to, from []byte)) {
	to, from := parts(r.rank)
	copy(from, to)
	for step := 1; step < r.size; step++ {
		next, prev := (r.rank+step)%r.size, (r.rank-step+r.size)%r.size
		to, _ := parts(next)
		_, from := parts(prev)
		for at := 0; at < largest; at += maxBytes {
			r.sendReceive(next, piece(to, at), prev, piece(from, at))
		}
	}
}

// piece returns part[at:], but at most maxBytes of it. at may exceed the length of the part.
func piece(part []byte, at int) []byte {
	at = min(at, len(part))
	return part[at:min(at+maxBytes, len(part))]
}

// sendReceive sends bytes to one peer and receives bytes from another at the same time.
func (r *rank) sendReceive(dst int, to []byte, src int, from []byte) {
	const tag = 0
	j := r.job
	j.must(fnSendrecv, clib.Address(to), uintptr(len(to)), j.bytes, uintptr(dst), tag,
		clib.Address(from), uintptr(len(from)), j.bytes, uintptr(src), tag, r.handle, clib.Address(r.status[:]))
	runtime.KeepAlive(r)
}

// staging is a host copy of device memory. Exchanges reuse it.
type staging []byte

// space returns n bytes of host memory for a buffer. If the host can address the buffer, it is the
// buffer itself.
func (s *staging) space(b comm.Buf, n int64) []byte {
	switch {
	case b.Stream == nil:
		return b.Host[:n]
	case b.On.Host() != nil:
		return b.On.Host()[:n]
	}
	if int64(cap(*s)) < n {
		*s = make([]byte, n)
	}
	return (*s)[:n]
}

// read waits for the work on a buffer's stream, and returns the first n bytes of the buffer in host
// memory.
func (s *staging) read(b comm.Buf, n int64) ([]byte, error) {
	mem := s.space(b, n)
	switch {
	case b.Stream == nil:
		return mem, nil
	case b.On.Host() != nil:
		return mem, b.Stream.Sync(context.Background())
	}
	return mem, b.On.CopyTo(context.Background(), b.Stream, mem)
}

// write copies mem, which space has returned, to the buffer. It does nothing if mem is the memory
// of the buffer.
func write(b comm.Buf, mem []byte) error {
	if b.Stream == nil || b.On.Host() != nil {
		return nil
	}
	if err := b.On.CopyFrom(b.Stream, mem); err != nil {
		return err
	}
	return b.Stream.Sync(context.Background())
}
