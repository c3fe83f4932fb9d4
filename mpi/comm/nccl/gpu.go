package nccl

import (
	"fmt"
	"time"

	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/clib"
)

// The functions of the CUDA driver that are called.
const (
	cuDeviceGet = iota
	cuRetain
	cuRelease
	cuSetCurrent
	cuStreamCreate
	cuStreamQuery
	cuStreamDestroy
	nDriverFunctions
)

var driverNames = [nDriverFunctions]string{
	"cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2", "cuCtxSetCurrent",
	"cuStreamCreate", "cuStreamQuery", "cuStreamDestroy_v2",
}

// Constants of the driver.
const (
	notReady          = 600 // CUDA_ERROR_NOT_READY
	streamNonBlocking = 1   // CU_STREAM_NON_BLOCKING
)

// gpu is a thread that has the context of a GPU, a stream of NCCL, and an end of a group. NCCL keeps state
// in threads.
type gpu struct {
	thread    *clib.Thread
	driver    [nDriverFunctions]uintptr
	device    int32
	context   uintptr
	stream    uintptr
	library   *library
	handle    uintptr // of the group, 0 without
	retained  bool
	abandoned bool // an exchange failed, which has ended the group
}

// newGPU takes the primary context of a GPU, which device/cuda uses, too.
func newGPU(index int) (*gpu, error) {
	g := &gpu{thread: clib.NewThread()}
	if err := resolve(cudaLibrary, driverNames[:], g.driver[:]); err != nil {
		g.thread.Stop()
		return nil, fmt.Errorf("nccl: the CUDA driver does not open: %w", err)
	}
	var err error
	g.thread.Do(func() {
		if err = g.call(cuDeviceGet, clib.Pointer(&g.device), uintptr(index)); err != nil {
			return
		}
		if err = g.call(cuRetain, clib.Pointer(&g.context), uintptr(g.device)); err != nil {
			return
		}
		g.retained = true
		if err = g.call(cuSetCurrent, g.context); err != nil {
			return
		}
		err = g.call(cuStreamCreate, clib.Pointer(&g.stream), streamNonBlocking)
	})
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

// call calls a function of the driver.
func (g *gpu) call(fn int, args ...uintptr) error {
	if code := int32(clib.Call(g.driver[fn], args...)); code != 0 {
		return fmt.Errorf("nccl: %s fails with CUDA error %d", driverNames[fn], code)
	}
	return nil
}

// join makes this rank's end of a group. It waits for all ranks of the group.
func (g *gpu) join(l *library, id []uint64, size, rank int) (err error) {
	g.library = l
	g.thread.Do(func() { err = l.initRank(&g.handle, id, size, rank) })
	return err
}

// abandon ends the group on the thread, and with it the work that reads and writes buffers.
func (g *gpu) abandon() {
	g.abandoned = true
	if g.handle == 0 {
		return
	}
	g.library.call(fnAbort, g.handle) // that it fails says no more than the error before
	g.handle = 0
	for begin := time.Now(); time.Since(begin) < abandonTime; time.Sleep(maxPause) {
		if int32(clib.Call(g.driver[cuStreamQuery], g.stream)) != notReady {
			return
		}
	}
}

// abandonTime bounds the wait for the work of a group that has been ended.
const abandonTime = 5 * time.Second

// close frees what the GPU has, and ends the thread.
func (g *gpu) close() (err error) {
	g.thread.Do(func() {
		if g.handle != 0 {
			err = g.library.call(fnDestroy, g.handle)
		}
		if g.stream != 0 {
			g.call(cuStreamDestroy, g.stream)
		}
		if g.retained {
			g.call(cuSetCurrent, 0)
			g.call(cuRelease, uintptr(g.device))
		}
	})
	g.thread.Stop()
	return err
}

// How long a wait asks without sleeping, and the bounds of the sleep between two questions.
const (
	pollTime = time.Millisecond
	minPause = 20 * time.Microsecond
	maxPause = time.Millisecond
)

// wait waits on the thread until the stream has done its work, the group fails, or aborted is closed.
func (g *gpu) wait(aborted <-chan struct{}) error {
	for start := time.Now(); ; {
		switch code := int32(clib.Call(g.driver[cuStreamQuery], g.stream)); code {
		case 0:
			return nil
		case notReady:
		default:
			return fmt.Errorf("nccl: the work of an exchange fails with CUDA error %d", code)
		}
		select {
		case <-aborted:
			return comm.ErrAborted
		default:
		}
		waited := time.Since(start)
		if waited < pollTime {
			continue
		}
		state := new(int32)
		if err := g.library.call(fnAsyncError, g.handle, clib.Pointer(state)); err != nil {
			return err
		}
		if *state != 0 && *state != inProgress {
			return g.library.failure(fnAsyncError, *state)
		}
		time.Sleep(min(max(waited/16, minPause), maxPause))
	}
}
