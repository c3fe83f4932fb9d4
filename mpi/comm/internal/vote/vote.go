// Package vote checks, before a collective call exchanges anything, that all ranks entered the same
// method with matching arguments. Engines gather the votes of all ranks.
package vote

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/weftgo/weft/mpi/comm"
)

// Call is a collective method.
type Call uint64

// The collective methods.
const (
	Barrier Call = iota
	AllGather
	AllReduce
	AllReduceFloat
	AllToAllV
	Split
	Close
)

var names = [...]string{"Barrier", "AllGather", "AllReduce", "AllReduceFloat", "AllToAllV", "Split", "Close"}

func (c Call) String() string {
	if c < Call(len(names)) {
		return names[c]
	}
	return fmt.Sprintf("Call(%d)", uint64(c))
}

// Reasons why a rank does not enter a call.
const (
	ready = iota
	ended // the context has ended
	wrong // the arguments are wrong, or the buffer cannot be read
)

// Vote is the vote of a rank on a call. It has no pointers and no padding, because engines send it
// as words.
type Vote struct {
	Call Call
	code uint64
	// Len is the number of values, and Op the operation that combines them. Both must be the same
	// on all ranks.
	Len, Op uint64
	// The Sums of all ranks add up to 0 modulo 2^64 if each rank sends what its peers expect.
	Sum uint64
	// Bytes is the number of bytes that the rank sends or receives, whichever is larger. Part is
	// the largest part that it sends.
	Bytes, Part uint64
}

// Words is the size of a Vote in 64-bit words.
const Words = int(unsafe.Sizeof(Vote{}) / 8)

// New returns the vote of a rank with n values. If the rank does not enter the call, it also
// returns the reason: err, which describes wrong arguments, or the error of the context.
func New(ctx context.Context, call Call, n int, err error) (Vote, error) {
	v := Vote{Call: call, Len: uint64(n)}
	if err != nil {
		v.code = wrong
	} else if err = ctx.Err(); err != nil {
		v.code = ended
	}
	return v, err
}

// Reduce returns the vote of a rank for a reduction of n values.
func Reduce(ctx context.Context, call Call, op comm.Op, n int) (Vote, error) {
	var err error
	if op > comm.Max {
		err = fmt.Errorf("comm: %s with %s", call, op)
	}
	v, err := New(ctx, call, n, err)
	v.Op = uint64(op)
	return v, err
}

// Gather returns the vote of a rank for AllGather from send to recv.
func Gather(ctx context.Context, size int, send, recv []uint64) (Vote, error) {
	var err error
	if len(recv) != size*len(send) {
		err = fmt.Errorf("comm: AllGather of %d values of each of %d ranks, but there is room for %d", len(send), size, len(recv))
	}
	return New(ctx, AllGather, len(send), err)
}

// Color returns the vote of a rank for Split. Both numbers must fit in 32 bits, because MPI
// requires it.
func Color(ctx context.Context, color, key int) (Vote, error) {
	var err error
	if color > math.MaxInt32 || key < math.MinInt32 || key > math.MaxInt32 {
		err = fmt.Errorf("comm: Split with color %d and key %d, which must fit in 32 bits", color, key)
	}
	return New(ctx, Split, 0, err)
}

// Parts returns the vote of a rank for AllToAllV.
func Parts(ctx context.Context, rank, size int, send comm.Buf, sendBytes []int64, recv comm.Buf, recvBytes []int64) (Vote, error) {
	err := comm.CheckParts(size, send, sendBytes, recv, recvBytes)
	v, err := New(ctx, AllToAllV, 0, err)
	if err != nil {
		return v, err
	}
	var sent, received uint64
	for peer := range size {
		sent += uint64(sendBytes[peer])
		received += uint64(recvBytes[peer])
		v.Part = max(v.Part, uint64(sendBytes[peer]))
		v.Sum += weight(rank, peer)*uint64(sendBytes[peer]) - weight(peer, rank)*uint64(recvBytes[peer])
	}
	v.Bytes = max(sent, received)
	return v, nil
}

// MaxBytes returns the largest Bytes and the largest Part among votes.
func MaxBytes(votes []Vote) (total, part int) {
	for _, v := range votes {
		total, part = max(total, int(v.Bytes)), max(part, int(v.Part))
	}
	return total, part
}

// weight returns an odd number for the part that one rank sends to another. The weights keep sums
// over different parts from being equal by chance.
func weight(from, to int) uint64 {
	x := uint64(from)<<32 + uint64(to) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31 | 1
}

// Check returns nil if all ranks enter the call. If this rank does not, it returns ownErr. All
// ranks check the same votes, so the call fails on all ranks or on none.
func Check(votes []Vote, ownErr error) error {
	if ownErr != nil {
		return ownErr
	}
	for rank, v := range votes {
		switch v.code {
		case ended:
			return fmt.Errorf("%w: %s of rank %d: its context has ended", comm.ErrPeer, v.Call,
				rank)
		case wrong:
			return fmt.Errorf("%w: %s of rank %d: its arguments are wrong", comm.ErrPeer, v.Call,
				rank)
		}
	}
	sum := uint64(0)
	for rank, v := range votes {
		if first := votes[0]; v.Call != first.Call || v.Len != first.Len || v.Op != first.Op {
			return fmt.Errorf("comm: ranks call different methods: rank 0 %s, rank %d %s", first, rank, v)
		}
		sum += v.Sum
	}
	if sum != 0 {
		return fmt.Errorf("comm: AllToAllV of %d ranks: a rank expects another number of bytes than its peer sends", len(votes))
	}
	return nil
}

func (v Vote) String() string {
	switch v.Call {
	case AllGather:
		return fmt.Sprintf("%s of %d values", v.Call, v.Len)
	case AllReduce, AllReduceFloat:
		return fmt.Sprintf("%s %s of %d values", v.Call, comm.Op(v.Op&math.MaxUint8), v.Len)
	}
	return v.Call.String()
}
