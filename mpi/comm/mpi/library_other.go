//go:build !linux || !(amd64 || arm64)

package mpi

import (
	"fmt"
	"runtime"

	"github.com/weftgo/weft/device"
)

func dlopen(name string) (lookup func(symbol string) uintptr, err error) {
	return nil, fmt.Errorf("mpi: %s: %w on %s/%s", name, device.ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}

func invoke(uintptr, []uintptr) uintptr { panic("mpi: no library is open") }

func keepSignals(f func()) { f() }
