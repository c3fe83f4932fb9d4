package pm

import (
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// Persist makes stores survive a power failure. WriteBack starts to write back the cache lines that
// hold the words, and Fence waits for all write-backs that this thread has started.
//
// Between the two a goroutine may move to another core. It may also fence what other goroutines
// have written, if it has waited for them. DC CVAP waits here by itself. On x86-64 the locked
// instructions wait, and schedulers and goroutines synchronize with these. Source: Intel 64 and
// IA-32 Architectures Software Developer's Manual, volume 2, CLWB: "ordered only by store-fencing
// operations", which includes them.
type Persist interface {
	WriteBack(words []uint64)
	Fence()
}

// HostPersist returns the Persist of this machine. If the persistence domain includes the caches,
// nothing is written back. Error: device.ErrUnsupported, if the CPU has no instruction for
// write-backs.
func HostPersist(domainHasCaches bool) (Persist, error) {
	switch {
	case machine.fence != nil && domainHasCaches:
		return fenceOnly{}, nil
	case machine.fence != nil && machine.writeBack != nil:
		return flushAndFence{}, nil
	}
	return nil, fmt.Errorf("%w: the CPU does not write lines of its caches back: %s", device.ErrUnsupported, machine.name)
}

// instructions are the persistence instructions of a CPU.
type instructions struct {
	name      string  // the one that writes lines back, or why the CPU has none
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

// lines returns the start of the first cache line that holds some of the words, and the number of
// such lines.
func lines(words []uint64, line uintptr) (first unsafe.Pointer, n uintptr) {
	at := uintptr(unsafe.Pointer(&words[0]))
	before := at % line
	return unsafe.Add(unsafe.Pointer(&words[0]), -int(before)), (before + uintptr(len(words))*Word + line - 1) / line
}
