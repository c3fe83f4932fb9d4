package mpi

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/vote"
)

// rank implements comm.Comm: this process's end of a communicator.
type rank struct {
	job        *job
	thread     *thread
	handle     uintptr // the MPI_Comm
	rank, size int
	closed     bool

	// Memory that calls reuse.
	vote  []vote.Vote // of this rank
	votes []vote.Vote
	sent  staging
	got   staging
	// status is room for an MPI_Status, which has 20 to 32 bytes.
	status [8]uint64
}

// newRank asks MPI for the rank and the size of a communicator.
func newRank(j *job, t *thread, handle uintptr) *rank {
	r := &rank{job: j, thread: t, handle: handle, vote: make([]vote.Vote, 1)}
	t.do(func() {
		rank, size := new(int32), new(int32)
		j.must(fnRank, handle, pointer(rank))
		j.must(fnSize, handle, pointer(size))
		r.rank, r.size = int(*rank), int(*size)
	})
	r.votes = make([]vote.Vote, r.size)
	return r
}

func (r *rank) Rank() int { return r.rank }

func (r *rank) Size() int { return r.size }

// collective has all ranks vote and runs f on the thread of the group if all of them enter the call.
// own is what this rank finds wrong with the call.
func (r *rank) collective(v vote.Vote, own error, f func()) error {
	if r.closed || r.job.ended.Load() {
		return fmt.Errorf("mpi: %s: %w", v.Call, device.ErrClosed)
	}
	r.vote[0] = v
	var err error
	r.thread.do(func() {
		r.gather(address(r.vote), address(r.votes), vote.Words)
		if err = vote.Count(r.votes, own); err == nil && f != nil {
			f()
		}
	})
	runtime.KeepAlive(f) // and the buffers of the call
	return err
}

// gather gathers n 64-bit words of each rank.
func (r *rank) gather(from, to uintptr, n int) {
	j := r.job
	j.must(fnAllgather, from, uintptr(n), j.uint64s, to, uintptr(n), j.uint64s, r.handle)
}

func (r *rank) Barrier(ctx context.Context) error {
	v, err := vote.New(ctx, vote.Barrier, 0, nil)
	return r.collective(v, err, nil)
}

func (r *rank) AllGather(ctx context.Context, send, recv []uint64) error {
	v, err := vote.Gather(ctx, r.size, send, recv)
	return r.collective(v, err, func() {
		if len(recv) <= maxBytes/8 {
			r.gather(address(send), address(recv), len(send))
			return
		}
		r.exchangePieces(8*len(send), func(peer int) (to, from []byte) {
			return device.Bytes(send), device.Bytes(recv[peer*len(send):][:len(send)])
		})
	})
}

func (r *rank) AllReduce(ctx context.Context, op comm.Op, values []uint64) error {
	v, err := vote.Reduce(ctx, vote.AllReduce, op, len(values))
	return r.collective(v, err, func() {
		j := r.job
		for part := range slices.Chunk(values, maxBytes/8) {
			from := slices.Clone(part)
			j.must(fnAllreduce, address(from), address(part), uintptr(len(part)), j.uint64s, j.ops[op], r.handle)
			runtime.KeepAlive(from)
		}
	})
}

func (r *rank) AllReduceFloat(ctx context.Context, op comm.Op, values []float64) error {
	v, err := vote.Reduce(ctx, vote.AllReduceFloat, op, len(values))
	return r.collective(v, err, func() {
		if len(values) > maxGathered/r.size {
			r.reduceShares(op, values)
			return
		}
		parts := make([]float64, r.size*len(values))
		r.gather(address(values), address(parts), len(values))
		combine(op, values, parts)
	})
}

// maxGathered is the number of floats up to which each rank gathers all values and combines them
// itself, by one call of MPI instead of two.
const maxGathered = 4096

// combine stores the combination of arrays that lie one after another, in their order. MPI does not
// promise that its own reduction returns the same bits on all ranks.
func combine(op comm.Op, to, parts []float64) {
	n := copy(to, parts)
	for at := n; at < len(parts); at += n {
		vote.Combine(op, to, parts[at:at+n])
	}
}

// reduceShares has each rank combine a share of the values for all ranks.
func (r *rank) reduceShares(op comm.Op, values []float64) {
	lo, hi := vote.Share(len(values), r.rank, r.size)
	_, each := vote.Share(len(values), 0, r.size)
	send, recv := make([]int64, r.size), make([]int64, r.size)
	for peer := range r.size {
		lo, hi := vote.Share(len(values), peer, r.size)
		send[peer] = int64(8 * (hi - lo))
	}
	for peer := range recv {
		recv[peer] = send[r.rank]
	}
	all := make([]float64, r.size*each)
	r.exchange(8*len(all), 8*each, device.Bytes(values), send, device.Bytes(all), recv)
	share := make([]float64, each)
	combine(op, share[:hi-lo], all[:r.size*(hi-lo)])
	if len(all) <= maxBytes/8 {
		r.gather(address(share), address(all), each)
	} else {
		r.exchangePieces(8*each, func(peer int) (to, from []byte) {
			return device.Bytes(share), device.Bytes(all[peer*each:][:each])
		})
	}
	copy(values, all)
	runtime.KeepAlive(share)
}

// colorOf returns the color that MPI takes.
func colorOf(color int) int {
	if color < 0 {
		return undefined
	}
	return color
}

func (r *rank) Split(ctx context.Context, color, key int) (comm.Comm, error) {
	v, err := vote.Color(ctx, color, key)
	handle := new(uintptr)
	err = r.collective(v, err, func() {
		r.job.must(fnSplit, r.handle, uintptr(colorOf(color)), uintptr(key), pointer(handle))
	})
	if err != nil || color < 0 {
		return nil, err
	}
	return newRank(r.job, newThread(), *handle), nil
}

func (r *rank) Abort(code int) { r.job.abort(code) }

func (r *rank) Close() error {
	if r.closed || r.job.ended.Load() {
		r.closed = true
		return nil
	}
	v, err := vote.New(context.Background(), vote.Close, 0, nil)
	err = r.collective(v, err, func() {
		if r.handle == r.job.world {
			r.job.ended.Store(true)
			r.job.must(fnFinalize)
			return
		}
		r.job.must(fnFree, pointer(&r.handle))
	})
	r.closed = true
	r.thread.stop()
	return err
}
