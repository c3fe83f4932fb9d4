// Package comm connects ranks, which are the processes of an MPI job, the GPUs of a host, or
// goroutines. All ranks call the collective operations of a [Comm] in the same order. Engines
// implement the transport:
//
//   - local runs ranks as goroutines of one process, and copies between its GPUs.
//   - mpi runs ranks as processes that an MPI launcher starts.
//   - twolevel combines small messages of the ranks of a node.
//   - nccl exchanges memory of GPUs through NCCL, with the ranks of local or mpi.
package comm

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
)

// ErrAborted is the error of every call of a Comm after one of its ranks has called Abort or died.
var ErrAborted = errors.New("comm: aborted")

// ErrPeer is the error of a call that another rank did not enter, because its context had ended or
// its arguments were wrong. That rank returns another error. Nothing has been exchanged, and all
// ranks can make their next call.
var ErrPeer = errors.New("comm: another rank did not enter the call")

// Comm connects one rank to the other ranks of a group.
//
// All methods except Rank, Size, Abort and Close are collective: each rank calls the same methods
// in the same order, from one goroutine at a time. At the start of a call, the ranks agree that all
// have entered the same method with matching arguments. If one has not, the call fails on all
// ranks, and nothing is exchanged. A rank checks its context only before this agreement. If the
// context has ended, the rank returns its error, and the others return [ErrPeer]. After the
// agreement a rank waits for its peers even if its context ends, because they would block without
// it.
//
// After any other error of a collective call, the group is unusable, and the caller must abort it.
// If a rank dies, engines return an error on all ranks, or end the process, within seconds.
type Comm interface {
	// Rank returns the number of this rank, from 0 to Size()-1.
	Rank() int
	// Size returns the number of ranks.
	Size() int

	// Barrier returns when all ranks have called it.
	Barrier(ctx context.Context) error
	// AllGather stores the values that rank r sends in recv[r*len(send):], on every rank. len(send)
	// must be the same on all ranks, and len(recv) must be Size()*len(send).
	AllGather(ctx context.Context, send, recv []uint64) error
	// AllReduce replaces each value with the combination of the values at its index on all ranks.
	AllReduce(ctx context.Context, op Op, values []uint64) error
	// AllReduceFloat combines floats; see AllReduce. All ranks get the same bits.
	AllReduceFloat(ctx context.Context, op Op, values []float64) error
	// AllToAllV sends a part of send to each rank and receives a part from each. The parts in a
	// buffer are contiguous and in the order of ranks. Rank r gets sendBytes[r] bytes of send, and
	// recvBytes[r] bytes from rank r are stored in recv. The two ranks of a part must pass the same
	// number of bytes for it. The buffers must not overlap.
	AllToAllV(ctx context.Context, send Buf, sendBytes []int64, recv Buf, recvBytes []int64) error

	// Split makes a Comm of the ranks that pass the same color. They are ordered by key, then by
	// rank. For a negative color it returns nil.
	Split(ctx context.Context, color, key int) (Comm, error)
	// Abort ends the group and all groups that Split derived from it. On every rank calls fail with
	// ErrAborted, or the process ends with the code. Abort does not wait for other ranks, and any
	// goroutine may call it.
	Abort(code int)
	// Close frees the group. It is collective, except after an error or Abort. Further calls of
	// Close do nothing. Other calls fail with device.ErrClosed.
	Close() error
}

// Buf is memory of the host or of a device, which AllToAllV reads or writes.
type Buf struct {
	Host []byte
	// On is memory of a device. AllToAllV waits for work that was submitted to Stream before the
	// call. When it returns, the exchange is complete for work that is submitted to Stream later.
	On     device.Slice[byte]
	Stream *device.Stream
}

// Host returns a Buf of host memory.
func Host(b []byte) Buf { return Buf{Host: b} }

// Len returns the length in bytes.
func (b Buf) Len() int {
	if b.Stream != nil {
		return b.On.Len()
	}
	return len(b.Host)
}

// Part returns the bytes [at,at+n) of b.
func (b Buf) Part(at, n int64) Buf {
	if b.Stream != nil {
		return Buf{On: b.On.Sub(int(at), int(at+n)), Stream: b.Stream}
	}
	return Buf{Host: b.Host[at : at+n]}
}

// Op is the operation by which AllReduce combines two values. Sums of integers wrap around.
type Op uint8

// The operations.
const (
	Sum Op = iota
	Min
	Max
)

func (op Op) String() string {
	switch op {
	case Sum:
		return "Sum"
	case Min:
		return "Min"
	case Max:
		return "Max"
	}
	return fmt.Sprintf("Op(%d)", uint8(op))
}

// CheckParts returns an error if a buffer is smaller than its parts, or if the number of parts is
// not size. Engines call it first.
func CheckParts(size int, send Buf, sendBytes []int64, recv Buf, recvBytes []int64) error {
	check := func(name string, b Buf, parts []int64) error {
		if len(parts) != size {
			return fmt.Errorf("comm: %d parts to %s, but there are %d ranks", len(parts), name,
				size)
		}
		total := int64(0)
		for r, n := range parts {
			if n < 0 {
				return fmt.Errorf("comm: %d bytes to %s for rank %d", n, name, r)
			}
			if n > int64(b.Len())-total {
				return fmt.Errorf("comm: %d bytes to %s for ranks 0 to %d, in a buffer of %d",
					total+n, name, r, b.Len())
			}
			total += n
		}
		return nil
	}
	if err := check("send", send, sendBytes); err != nil {
		return err
	}
	return check("receive", recv, recvBytes)
}
