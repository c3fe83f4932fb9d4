//go:build linux && (amd64 || arm64)

package clib

import (
	"runtime"

	"github.com/ebitengine/purego"
)

// Open opens a library and returns the function that finds its symbols. The function returns 0 for
// absent symbols. With global, later libraries find its symbols, too.
func Open(name string, global bool) (lookup func(symbol string) uintptr, err error) {
	runtime.LockOSThread() // the loader keeps the text of its last error per thread
	defer runtime.UnlockOSThread()
	flags := purego.RTLD_NOW | purego.RTLD_LOCAL
	if global {
		flags = purego.RTLD_NOW | purego.RTLD_GLOBAL
	}
	handle, err := purego.Dlopen(name, flags)
	if err != nil {
		return nil, err
	}
	return func(symbol string) uintptr {
		address, err := purego.Dlsym(handle, symbol)
		if err != nil {
			return 0
		}
		return address
	}, nil
}

// Call calls a C function of integer and pointer arguments.
func Call(fn uintptr, args ...uintptr) uintptr {
	result, _, _ := purego.SyscallN(fn, args...)
	return result
}

// faultSignals are the signals that Go turns into panics. MPI libraries catch them, too, to print
// a stack of C frames, and on the small stack of a goroutine.
var faultSignals = [...]uintptr{6, 7, 8, 11} // SIGABRT, SIGBUS, SIGFPE, SIGSEGV

// KeepSignals runs f and then restores the handlers of fault signals.
func KeepSignals(f func()) {
	lookup, err := Open("libc.so.6", false)
	if err != nil {
		f()
		return
	}
	sigaction := lookup("sigaction")
	handlers := make([][256]byte, len(faultSignals)) // struct sigaction is shorter
	for i, signal := range faultSignals {
		Call(sigaction, signal, 0, Pointer(&handlers[i]))
	}
	f()
	for i, signal := range faultSignals {
		Call(sigaction, signal, Pointer(&handlers[i]), 0)
	}
	runtime.KeepAlive(handlers)
}
