package hostmem

import (
	"math"
	"unsafe"

	"golang.org/x/sys/windows"
)

var globalMemoryStatus = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// memoryStatus is MEMORYSTATUSEX.
type memoryStatus struct {
	length, load             uint32
	total, available         uint64 // of the machine
	pages, pagesAvailable    uint64 // of the paging file
	virtual, virtualFree, ex uint64
}

// limit returns the memory of the machine.
func limit() int64 {
	var m memoryStatus
	m.length = uint32(unsafe.Sizeof(m))
	if ok, _, _ := globalMemoryStatus.Call(uintptr(unsafe.Pointer(&m))); ok == 0 {
		return 0
	}
	return int64(min(m.total, math.MaxInt64))
}
