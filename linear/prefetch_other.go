//go:build !amd64 && !arm64

package linear

import (
	"runtime"
	"unsafe"
)

// prefetch loads a byte of each sector.
func prefetch(base unsafe.Pointer, sectors *uint32, n int) {
	var warm byte
	for _, s := range unsafe.Slice(sectors, n) {
		warm ^= *(*byte)(unsafe.Add(base, uintptr(s)*sectorBytes))
	}
	runtime.KeepAlive(warm)
}
