package mpi

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weftgo/weft/mpi/comm/internal/clib"
)

// job is the shared state of the groups of a process: the library, and whether MPI has ended.
type job struct {
	*library
	ended atomic.Bool
}

// start initializes MPI on the calling thread, which has to end it.
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

// must calls a function and ends the job if it fails.
func (j *job) must(fn int, args ...uintptr) {
	if code := j.call(fn, args...); code != 0 {
		fmt.Fprintln(os.Stderr, j.failure(fn, code))
		time.Sleep(printTime)
		j.abort(1)
	}
}

// printTime is the time for an error to reach the launcher: hydra drops unread output when a rank
// aborts.
const printTime = 100 * time.Millisecond

// abort ends the job, and this process with a code.
func (j *job) abort(code int) {
	if !j.ended.Load() {
		runtime.LockOSThread()
		j.call(fnAbort, j.world, uintptr(code))
	}
	os.Exit(code)
}
