//go:build linux && (amd64 || arm64)

package clib

import (
	"runtime"

	"github.com/ebitengine/purego"
)

// Open opens a library and returns a function that looks up its symbols. The function returns 0 for
// an unknown symbol. If global is set, libraries that are opened later can use the symbols.
func Open(name string, global bool) (lookup func(symbol string) uintptr, err error) {
	runtime.LockOSThread() // the loader keeps its last error per thread
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

// Call calls a C function that takes only integers and pointers.
func Call(fn uintptr, args ...uintptr) uintptr {
	result, _, _ := purego.SyscallN(fn, args...)
	return result
}

// faultSignals are the signals that Go turns into panics. MPI libraries also catch them, and would
// print a C stack trace on the small stack of a goroutine.
var faultSignals = [...]uintptr{6, 7, 8, 11} // SIGABRT, SIGBUS, SIGFPE, SIGSEGV

// KeepSignals calls f and then restores the handlers of faultSignals.
func KeepSignals(f func()) {
	lookup, err := Open("libc.so.6", false)
	if err != nil {
		f()
		return
	}
	sigaction := lookup("sigaction")
	handlers := make([][256]byte, len(faultSignals)) // larger than struct sigaction
	for i, signal := range faultSignals {
		Call(sigaction, signal, 0, Pointer(&handlers[i]))
	}
	f()
	for i, signal := range faultSignals {
		Call(sigaction, signal, Pointer(&handlers[i]), 0)
	}
	runtime.KeepAlive(handlers)
}
