package mpi

import (
	"context"
	"fmt"
	"runtime"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/clib"
	"github.com/weftgo/weft/mpi/comm/internal/vote"
)

// rank implements comm.Comm for a communicator.
type rank struct {
	job        *job
	thread     *clib.Thread
	handle     uintptr // MPI_Comm
	rank, size int
	closed     bool

	// Calls reuse this memory.
	vote  []vote.Vote // vote of this rank
	votes []vote.Vote
	sent  staging
	got   staging
	// status is space for an MPI_Status, which has 20 to 32 bytes.
	status [8]uint64
}

func newRank(j *job, t *clib.Thread, handle uintptr) *rank {
	r := &rank{job: j, thread: t, handle: handle, vote: make([]vote.Vote, 1)}
	t.Do(func() {
		rank, size := new(int32), new(int32)
		j.must(fnRank, handle, clib.Pointer(rank))
		j.must(fnSize, handle, clib.Pointer(size))
		r.rank, r.size = int(*rank), int(*size)
	})
	r.votes = make([]vote.Vote, r.size)
	return r
}

func (r *rank) Rank() int { return r.rank }

func (r *rank) Size() int { return r.size }

// collective gathers the votes of all ranks. If all ranks enter the call, it runs f on the group's
// thread. own is the reason why this rank does not enter.
func (r *rank) collective(v vote.Vote, own error, f func()) error {
	if r.closed || r.job.ended.Load() {
		return fmt.Errorf("mpi: %s: %w", v.Call, device.ErrClosed)
	}
	r.vote[0] = v
	var err error
	r.thread.Do(func() {
		r.gatherWords(clib.Address(r.vote), clib.Address(r.votes), vote.Words)
		if err = vote.Check(r.votes, own); err == nil && f != nil {
			f()
		}
	})
	runtime.KeepAlive(f) // including the buffers of the call
	return err
}

func (r *rank) Barrier(ctx context.Context) error {
	v, err := vote.New(ctx, vote.Barrier, 0, nil)
	return r.collective(v, err, nil)
}

func (r *rank) AllGather(ctx context.Context, send, recv []uint64) error {
	v, err := vote.Gather(ctx, r.size, send, recv)
	return r.collective(v, err, func() { gather(r, send, recv) })
}

func (r *rank) AllReduce(ctx context.Context, op comm.Op, values []uint64) error {
	v, err := vote.Reduce(ctx, vote.AllReduce, op, len(values))
	return r.collective(v, err, func() { reduce(r, op, values) })
}

func (r *rank) AllReduceFloat(ctx context.Context, op comm.Op, values []float64) error {
	v, err := vote.Reduce(ctx, vote.AllReduceFloat, op, len(values))
	return r.collective(v, err, func() { reduce(r, op, values) })
}

// colorOf converts a color to the form that MPI takes.
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
		r.job.must(fnSplit, r.handle, uintptr(colorOf(color)), uintptr(key), clib.Pointer(handle))
	})
	if err != nil || color < 0 {
		return nil, err
	}
	return newRank(r.job, clib.NewThread(), *handle), nil
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
		r.job.must(fnFree, clib.Pointer(&r.handle))
	})
	r.closed = true
	r.thread.Stop()
	return err
}
