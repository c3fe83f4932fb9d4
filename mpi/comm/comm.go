// Package comm connects ranks, which are the processes of an MPI job, the GPUs of a host, or
// goroutines. A rank calls collective operations of a [Comm] in the same order as all other ranks.
// Engines implement the transport:
//
//   - local runs ranks as goroutines of one process, and copies between its GPUs.
//   - mpi runs them as processes that an MPI launcher starts.
//   - twolevel sends small messages of many ranks through the ranks of a node.
//   - nccl exchanges memory of GPUs through NCCL, with the ranks of local or mpi.
package comm

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
)

// ErrAborted is the error of every call of a Comm after one of its ranks called Abort, or has died.
var ErrAborted = errors.New("comm: aborted")

// ErrPeer is the error of a call that another rank did not enter: its context had ended, or its
// arguments were wrong. That rank returns an error of its own. Nothing has been exchanged, and all
// ranks may go on with their next call.
var ErrPeer = errors.New("comm: another rank did not enter the call")

// Comm is one rank's end of a group of ranks.
//
// All methods except Rank, Size, Abort and Close are collective: each rank calls the same ones in
// the same order, from one goroutine at a time. A call first agrees that all ranks entered the same
// method with arguments that fit. If one did not, the call fails on all ranks, and nothing has been
// exchanged. Only before that does a rank check its context. If the context has ended, the rank
// returns its error, and the others return [ErrPeer]. After that a rank waits for its peers, even
// if its context ends, because a rank that left would leave the others waiting.
//
// Any other error of a collective call means that the group is lost: the caller aborts it. Engines
// return an error on all ranks, or end the process, within seconds of the death of a rank.
type Comm interface {
	// Rank returns the number of this rank, from 0 to Size()-1.
	Rank() int
	// Size returns the number of ranks.
	Size() int

	// Barrier returns when all ranks have called it.
	Barrier(ctx context.Context) error
	// AllGather stores the values of rank r in recv[r*len(send):], on every rank. len(send) is
	// the same on all ranks, and recv has Size() times as many values.
	AllGather(ctx context.Context, send, recv []uint64) error
	// AllReduce replaces each value with its combination over all ranks.
	AllReduce(ctx context.Context, op Op, values []uint64) error
	// AllReduceFloat is AllReduce for floats. All ranks get the same bits.
	AllReduceFloat(ctx context.Context, op Op, values []float64) error
	// AllToAllV sends a part of a buffer to each rank and receives a part from each. Parts lie one
	// after another in the order of ranks: sendBytes[r] bytes of send go to rank r, and
	// recvBytes[r] bytes from rank r are stored in recv. sendBytes[r] of this rank equals
	// recvBytes[this rank] of rank r. The buffers do not overlap.
	AllToAllV(ctx context.Context, send Buf, sendBytes []int64, recv Buf, recvBytes []int64) error

	// Split makes a Comm of the ranks that pass the same color, which order themselves by key and
	// then by rank. A negative color returns nil.
	Split(ctx context.Context, color, key int) (Comm, error)
	// Abort ends the group and those that share a rank with it by Split: every rank's calls fail
	// with ErrAborted, or its process ends with the code. It does not wait for other ranks, and
	// calls of any goroutine are fine.
	Abort(code int)
	// Close frees the group. It is collective, except after an error or Abort. Closing a closed
	// Comm does nothing, and other calls fail with device.ErrClosed.
	Close() error
}

// Buf is memory that AllToAllV reads or writes: of the host, or of a device.
type Buf struct {
	Host []byte
	// On is memory of a device. Work submitted to Stream before the call has written it, and the
	// exchange is complete on Stream when the call returns.
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

// Part returns the n bytes at a position.
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

// CheckParts returns an error unless each buffer holds its parts and has a length for each rank.
// Engines call it first.
func CheckParts(size int, send Buf, sendBytes []int64, recv Buf, recvBytes []int64) error {
	check := func(name string, b Buf, parts []int64) error {
		if len(parts) != size {
			return fmt.Errorf("comm: %d parts to %s, of %d ranks", len(parts), name, size)
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
