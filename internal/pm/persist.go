package pm

import (
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// Persist is how what has been stored comes to survive a power failure: WriteBack
// begins to write back the lines of the caches that have some words, and Fence waits
// for all that this thread has begun.
//
// Between the two a goroutine may go on on another core, and one may fence what others
// have written that it has waited for: DC CVAP waits here by itself, and on x86-64 the
// locked instructions do by which schedulers and goroutines hand things over (Intel 64
// and IA-32 Architectures Software Developer's Manual, volume 2, CLWB: "ordered only by
// store-fencing operations", of which they are).
type Persist interface {
	WriteBack(words []uint64)
	Fence()
}

// CPU is the Persist of this machine. If its persistence domain has the caches in it,
// nothing is written back. Error: device.ErrUnsupported, if the CPU has no instruction
// for it.
func CPU(domainHasCaches bool) (Persist, error) {
	switch {
	case machine.fence != nil && domainHasCaches:
		return inCaches{}, nil
	case machine.fence != nil && machine.writeBack != nil:
		return outOfCaches{}, nil
	}
	return nil, fmt.Errorf("%w: the CPU does not write lines of its caches back: %s", device.ErrUnsupported, machine.name)
}

// instructions are those of a CPU.
type instructions struct {
	name      string  // of the one that writes lines back, or why there is none
	line      uintptr // bytes that it takes at a time
	writeBack func(first unsafe.Pointer, lines, line uintptr)
	fence     func()
}

var machine = instructionsOfCPU()

type inCaches struct{}

func (inCaches) WriteBack([]uint64) {}
func (inCaches) Fence()             { machine.fence() }

type outOfCaches struct{}

func (outOfCaches) WriteBack(words []uint64) {
	if len(words) > 0 {
		first, n := lines(words, machine.line)
		machine.writeBack(first, n, machine.line)
	}
}

func (outOfCaches) Fence() { machine.fence() }

// lines is the beginning of the first line that has some of the words, and how many
// have.
func lines(words []uint64, line uintptr) (first unsafe.Pointer, n uintptr) {
	at := uintptr(unsafe.Pointer(&words[0]))
	before := at % line
	return unsafe.Add(unsafe.Pointer(&words[0]), -int(before)), (before + uintptr(len(words))*Word + line - 1) / line
}
