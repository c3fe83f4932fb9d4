package mpi

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weftgo/weft/mpi/comm/internal/clib"
)

// job is the state that all groups of a process share.
type job struct {
	*library
	ended atomic.Bool
}

// start initializes MPI. The calling thread must also finalize it.
func (j *job) start() error {
	provided := new(int32)
	var code int32
	clib.KeepSignals(func() {
		code = j.call(fnInitThread, 0, 0, j.threadMultiple, clib.Pointer(provided))
	})
	if code != 0 {
		return j.failure(fnInitThread, code)
	}
	if *provided < int32(j.threadMultiple) {
		return fmt.Errorf("mpi: %s (%s) does not support calls of several threads (MPI_THREAD_MULTIPLE)", j.path, j.name)
	}
	if code := j.call(fnSetErrhandler, j.world, j.errorsReturn); code != 0 {
		return j.failure(fnSetErrhandler, code)
	}
	return nil
}

// must calls an MPI function, and aborts the job if the function fails.
func (j *job) must(fn int, args ...uintptr) {
	if code := j.call(fn, args...); code != 0 {
		fmt.Fprintln(os.Stderr, j.failure(fn, code))
		time.Sleep(printTime)
		j.abort(1)
	}
}

// printTime is the time that an error message needs to reach the launcher. The launcher hydra drops
// unread output when a rank aborts.
const printTime = 100 * time.Millisecond

// abort ends the job, and ends this process with a code.
func (j *job) abort(code int) {
	if !j.ended.Load() {
		runtime.LockOSThread()
		j.call(fnAbort, j.world, uintptr(code))
	}
	os.Exit(code)
}
