package pm

import (
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// Persist makes stores survive a power failure. WriteBack starts to write back the cache lines that
// hold the words. Fence waits for all write-backs that this thread has started.
//
// A goroutine may move to another core between the two calls. A goroutine may also fence the writes
// of other goroutines that it has waited for. On arm64, DC CVAP waits in WriteBack already. On
// x86-64, locked instructions wait for write-backs, and schedulers and goroutines synchronize by
// locked instructions. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume
// 2, CLWB: "ordered only by store-fencing operations", which include locked instructions.
type Persist interface {
	WriteBack(words []uint64)
	Fence()
}

// HostPersist returns the Persist of this machine. If the persistence domain includes the caches,
// WriteBack does nothing. HostPersist returns device.ErrUnsupported if the CPU has no instruction
// for write-backs.
func HostPersist(domainHasCaches bool) (Persist, error) {
	switch {
	case machine.fence != nil && domainHasCaches:
		return fenceOnly{}, nil
	case machine.fence != nil && machine.writeBack != nil:
		return flushAndFence{}, nil
	}
	return nil, fmt.Errorf("%w: the CPU cannot write back lines of its caches: %s",
		device.ErrUnsupported, machine.name)
}

type instructions struct {
	name      string  // instruction that writes back lines, or why the CPU has none
	line      uintptr // bytes per line
	writeBack func(first unsafe.Pointer, lines, line uintptr)
	fence     func()
}

var machine = instructionsOfCPU()

type fenceOnly struct{}

func (fenceOnly) WriteBack([]uint64) {}
func (fenceOnly) Fence()             { machine.fence() }

type flushAndFence struct{}

func (flushAndFence) WriteBack(words []uint64) {
	if len(words) > 0 {
		first, n := lines(words, machine.line)
		machine.writeBack(first, n, machine.line)
	}
}

func (flushAndFence) Fence() { machine.fence() }

// lines returns the address of the first cache line that holds the words, and the number of lines.
func lines(words []uint64, line uintptr) (first unsafe.Pointer, n uintptr) {
	at := uintptr(unsafe.Pointer(&words[0]))
	before := at % line
	return unsafe.Add(unsafe.Pointer(&words[0]), -int(before)), (before + uintptr(len(words))*Word + line - 1) / line
}
