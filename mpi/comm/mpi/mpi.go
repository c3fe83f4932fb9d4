// Package mpi runs the ranks of a [comm.Comm] as processes of an MPI job. It opens the MPI library
// of the machine at run time. Programs therefore build without a C compiler, and start on machines
// without MPI.
//
// Open MPI and MPICH are tested. MVAPICH and Intel MPI share the binary interface of MPICH. The
// handles of the binary interface of MPI 5 (libmpi_abi) follow the standard's text and are
// untested.
//
// The launcher of the MPI library starts a program:
//
//	mpirun -n 8 program
//
// Without a launcher the program is a job with one rank. The library is the one that [Options]
// name. The next choices are the environment variable WEFT_MPI_LIBRARY, the library of the
// launcher, and the first that is installed.
//
// For each call, the ranks agree by a small all-gather. It takes 13 to 25 us between two processes
// of a host.
//
// Memory of a GPU is copied through memory of the host, even if MPI could read it. Parts of more
// than 512 MiB are exchanged in pieces.
//
// An MPI error ends the job by MPI_Abort, with a message on the standard error. A rank that dies
// ends the job, too, because launchers kill the other ranks. Slurm does so with srun
// --kill-on-bad-exit.
package mpi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/clib"
)

// Options configure MPI.
type Options struct {
	// Library is the name or the path of the MPI library. Default: see the package comment.
	Library string
}

// opened is set by the first Open, because MPI can start only once in a process.
var opened atomic.Bool

// Open starts MPI and returns a Comm of all ranks. Closing this Comm ends MPI, which cannot start
// again in the process. nil options are the defaults.
func Open(ctx context.Context, opts *Options) (comm.Comm, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if opts == nil {
		opts = new(Options)
	}
	l, err := openLibrary(opts.Library)
	if err != nil {
		return nil, err
	}
	if !opened.CompareAndSwap(false, true) {
		return nil, errors.New("mpi: MPI has already been started in this process, and it can start only once")
	}
	job := &job{library: l}
	t := clib.NewThread()
	t.Do(func() { err = job.start() })
	if err != nil {
		t.Stop()
		return nil, err
	}
	r := newRank(job, t, l.world)
	if want := launched(os.Getenv); want > 1 && r.size == 1 {
		return nil, fmt.Errorf("mpi: the launcher has started %d ranks, and %s (%s) finds 1: use the launcher of that library, or name the library of the launcher in %s",
			want, l.path, l.name, libraryVariable)
	}
	return r, nil
}

// launched returns the number of ranks that a launcher claims to have started, or 0 without a
// launcher.
func launched(getenv func(string) string) int {
	// srun sets the last variable, even if its ranks do not find each other.
	for _, name := range []string{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"} {
		if n, err := strconv.Atoi(getenv(name)); err == nil {
			return n
		}
	}
	return 0
}

// Run opens MPI, calls body with the Comm of all ranks, and closes it. If body returns an error or
// panics, Run prints the error, MPI_Abort kills the other ranks, and this process exits with code
// 1. Run therefore returns an error only if MPI does not open.
func Run(ctx context.Context, opts *Options, body func(ctx context.Context, c comm.Comm) error) error {
	c, err := Open(ctx, opts)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		// body panicked or ended its goroutine.
		err := fmt.Errorf("panic: %v\n%s", recover(), debug.Stack())
		fail(c, err)
	}()
	if err = body(ctx, c); err == nil {
		err = c.Close()
	}
	if err != nil {
		fail(c, err)
	}
	returned = true
	return nil
}

// fail prints the error of a rank and ends the job.
func fail(c comm.Comm, err error) {
	fmt.Fprintf(os.Stderr, "rank %d of %d: %v\n", c.Rank(), c.Size(), err)
	time.Sleep(printTime)
	c.Abort(1)
}
