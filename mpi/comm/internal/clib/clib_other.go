//go:build !linux || !(amd64 || arm64)

package clib

import (
	"fmt"
	"runtime"

	"github.com/weftgo/weft/device"
)

// Open fails: libraries are opened on Linux only.
func Open(name string, _ bool) (lookup func(symbol string) uintptr, err error) {
	return nil, fmt.Errorf("%s: %w on %s/%s", name, device.ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}

// Call is not reached, since no library opens.
func Call(uintptr, ...uintptr) uintptr { panic("clib: no library is open") }

// KeepSignals runs f.
func KeepSignals(f func()) { f() }
