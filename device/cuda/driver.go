package cuda

import (
	"fmt"
	"sync"

	"github.com/weftgo/weft/device"
)

// driver is the loaded driver library: the addresses of its functions, and invoke, which calls a
// function. Tests replace invoke.
type driver struct {
	addr    [numSymbols]uintptr // 0 if an optional function is missing
	invoke  func(fn uintptr, args []uintptr) uintptr
	version int
	pinned  ranges // host memory that all GPUs can copy without staging
}

func (drv *driver) has(sym symbol) bool { return drv.addr[sym] != 0 }

// libraries are the names of the driver library, in the order in which openDriver tries them. The
// system's loader searches for the first one. The others are paths outside the loader's search
// path, where Windows Subsystem for Linux and some container hosts install the library.
var libraries = []string{
	"libcuda.so.1",
	"/usr/lib/wsl/lib/libcuda.so.1",
	"/usr/local/nvidia/lib64/libcuda.so.1",
}

// loaded is the driver of the process. A failure is not cached, so that the next Open tries again.
var loaded struct {
	sync.Mutex
	drv *driver
}

// systemDriver returns the driver of the process. The first call loads it.
func systemDriver() (*driver, error) {
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.drv == nil {
		drv, err := openDriver(libraries)
		if err != nil {
			return nil, err
		}
		loaded.drv = drv
	}
	return loaded.drv, nil
}

// library is an opened shared library.
type library interface {
	// lookup returns the address of the function exported under name, or 0.
	lookup(name string) uintptr
	// invoke calls a function with at most maxArgs integer arguments.
	invoke(fn uintptr, args []uintptr) uintptr
	// path returns the name under which the library was opened.
	path() string
}

// openDriver opens the first of paths that exists and initializes the driver.
func openDriver(paths []string) (*driver, error) {
	lib, err := openLibrary(paths)
	if err != nil {
		return nil, err
	}
	return newDriver(lib)
}

// newDriver looks up the driver's functions and initializes the driver.
func newDriver(lib library) (*driver, error) {
	drv := &driver{invoke: lib.invoke}
	fr := drv.frame()
	defer fr.put()
	for _, sym := range []symbol{symInit, symDriverGetVersion, symGetErrorName, symGetErrorString} {
		if drv.addr[sym] = lib.lookup(symbols[sym].export()); drv.addr[sym] == 0 {
			return nil, fmt.Errorf("cuda: %w: %s has no function %s: it is not the library of an NVIDIA driver",
				device.ErrDriver, lib.path(), sym)
		}
	}
	if err := fr.call(symDriverGetVersion, fr.result(0)); err != nil {
		return nil, fmt.Errorf("cuda: %w: %w", device.ErrDriver, err)
	}
	drv.version = fr.int32(0)
	if err := drv.resolve(fr, lib); err != nil {
		return nil, err
	}
	if err := fr.call(symInit, 0); err != nil {
		return nil, initError(err)
	}
	return drv, nil
}

// resolve looks up the addresses of all functions. It fails with ErrDriverTooOld if a required one
// is missing.
func (drv *driver) resolve(fr *frame, lib library) error {
	getProc := lib.lookup("cuGetProcAddress_v2")
	for sym, info := range symbols {
		if getProc != 0 {
			drv.addr[sym] = drv.procAddress(fr, getProc, info)
		}
		if drv.addr[sym] == 0 {
			drv.addr[sym] = lib.lookup(info.export())
		}
		if drv.addr[sym] == 0 && !info.optional() {
			return fmt.Errorf("cuda: %w: %s has no function %s; it is for CUDA %s, and weft needs %s or later: update the NVIDIA driver",
				device.ErrDriverTooOld, lib.path(), info.name, versionString(drv.version), versionString(info.version()))
		}
	}
	return nil
}

// procAddress returns the address of the driver's variant of a function for the version in info, or
// 0 if the driver has none.
func (drv *driver) procAddress(fr *frame, getProc uintptr, info symbolInfo) uintptr {
	const flags = 0 // CU_GET_PROC_ADDRESS_DEFAULT
	n := copy(fr.args[:], []uintptr{fr.cString(info.name), fr.result(0), uintptr(info.version()), flags, fr.result(1)})
	if Code(int32(drv.invoke(getProc, fr.args[:n]))) != success {
		return 0
	}
	return uintptr(fr.out[0])
}

// initError explains a failure of cuInit.
func initError(err error) error {
	if codeOf(err) == noDevice {
		return fmt.Errorf("cuda: %w: the driver sees no GPU (%w); look at nvidia-smi and at CUDA_VISIBLE_DEVICES", device.ErrNoDevice, err)
	}
	return fmt.Errorf("cuda: %w: %w; look at nvidia-smi: after an update of the driver the machine may need a restart", device.ErrDriver, err)
}
