//go:build !linux || !(amd64 || arm64)

package clib

import (
	"fmt"
	"runtime"

	"github.com/weftgo/weft/device"
)

// Open returns an error. Only Linux is supported.
func Open(name string, _ bool) (lookup func(symbol string) uintptr, err error) {
	return nil, fmt.Errorf("%s: %w on %s/%s", name, device.ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}

// Call panics. It is never called, because Open returns no library.
func Call(uintptr, ...uintptr) uintptr { panic("clib: no library is open") }

// KeepSignals runs f.
func KeepSignals(f func()) { f() }
