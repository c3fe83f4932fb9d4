// Package gpu is the common base of engines that exchange memory of NVIDIA GPUs and use another
// engine for everything else. It provides the thread, context and stream of a GPU. Ranks agree for
// each exchange which of the two engines performs it.
package gpu

import (
	"fmt"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/clib"
)

// The library of the CUDA driver, and the kind of devices with memory that it can access. Tests
// replace both.
var (
	Library = "libcuda.so.1"
	Kind    = device.CUDA
)

// Function is a CUDA driver function that this package calls.
type Function int

// The functions of the driver.
const (
	deviceGet Function = iota
	primaryRetain
	primaryRelease
	setCurrent
	streamCreate
	streamQuery
	streamDestroy
	nFunctions
)

var functionNames = [nFunctions]string{
	"cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2", "cuCtxSetCurrent",
	"cuStreamCreate", "cuStreamQuery", "cuStreamDestroy_v2",
}

// Constants of the driver.
const (
	notReady          = 600 // CUDA_ERROR_NOT_READY
	streamNonBlocking = 1   // CU_STREAM_NON_BLOCKING
)

// GPU is a thread with the context of a GPU, and a stream for exchanges.
type GPU struct {
	Thread  *clib.Thread
	Context uintptr // primary context, which device/cuda also uses
	Stream  uintptr

	functions [nFunctions]uintptr
	device    int32
	retained  bool
}

// Open retains the context of a device and creates a stream.
func Open(dev device.Device) (*GPU, error) {
	if kind := dev.Properties().Kind; kind != Kind {
		return nil, fmt.Errorf("%w: memory of a device of kind %s", device.ErrUnsupported, kind)
	}
	g := &GPU{Thread: clib.NewThread()}
	if err := Resolve(Library, functionNames[:], g.functions[:]); err != nil {
		g.Thread.Stop()
		return nil, fmt.Errorf("the CUDA driver does not open: %w", err)
	}
	var err error
	g.Thread.Do(func() { err = g.start(dev.Properties().Index) })
	if err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// Resolve opens a library and looks up functions by name.
func Resolve(name string, names []string, functions []uintptr) error {
	lookup, err := clib.Open(name, false)
	if err != nil {
		return err
	}
	for i, fn := range names {
		if functions[i] = lookup(fn); functions[i] == 0 {
			return fmt.Errorf("%s has no function %s: %w", name, fn, device.ErrUnsupported)
		}
	}
	return nil
}

// start initializes g. It runs on g.Thread.
func (g *GPU) start(index int) error {
	if err := g.Call(deviceGet, clib.Pointer(&g.device), uintptr(index)); err != nil {
		return err
	}
	if err := g.Call(primaryRetain, clib.Pointer(&g.Context), uintptr(g.device)); err != nil {
		return err
	}
	g.retained = true
	if err := g.Call(setCurrent, g.Context); err != nil {
		return err
	}
	return g.Call(streamCreate, clib.Pointer(&g.Stream), streamNonBlocking)
}

// Error is an error code that a driver function returned.
type Error struct {
	Function Function
	Code     int32
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s fails with CUDA error %d", functionNames[e.Function], e.Code)
}

// Call calls a driver function. It must run on g.Thread.
func (g *GPU) Call(fn Function, args ...uintptr) error {
	if code := int32(clib.Call(g.functions[fn], args...)); code != 0 {
		return &Error{fn, code}
	}
	return nil
}

// Close frees the stream, releases the context, and ends the thread.
func (g *GPU) Close() {
	g.Thread.Do(func() {
		if g.Stream != 0 {
			g.Call(streamDestroy, g.Stream)
		}
		if g.retained {
			g.Call(setCurrent, 0)
			g.Call(primaryRelease, uintptr(g.device))
		}
	})
	g.Thread.Stop()
}

// Wait polls without sleeping for pollTime. After that it sleeps between minPause and maxPause.
const (
	pollTime = time.Millisecond
	minPause = 20 * time.Microsecond
	maxPause = time.Millisecond
)

// Wait waits until the stream has done its work, check returns an error, or aborted is closed. It
// must run on g.Thread.
func (g *GPU) Wait(check func() error, aborted <-chan struct{}) error {
	for start := time.Now(); ; {
		if err := g.Call(streamQuery, g.Stream); err == nil || err.(*Error).Code != notReady {
			return err
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
		if err := check(); err != nil {
			return err
		}
		time.Sleep(min(max(waited/16, minPause), maxPause))
	}
}

// drainTime bounds the wait after a failed exchange.
const drainTime = 5 * time.Second

// Drain waits until the stream no longer accesses memory, whether or not its work succeeds. It must
// run on g.Thread.
func (g *GPU) Drain() {
	for begin := time.Now(); time.Since(begin) < drainTime; time.Sleep(maxPause) {
		if err := g.Call(streamQuery, g.Stream); err == nil || err.(*Error).Code != notReady {
			return
		}
	}
}
