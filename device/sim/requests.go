package sim

import (
	"slices"

	"github.com/weftgo/weft/device"
)

// Sizes that GPUs fetch memory in: a request names lines of its cache, and of
// each the sectors that it wants.
const (
	SectorBytes = 32
	LineBytes   = 128
)

// A Request is what one instruction of a warp asks of global memory: lanes that
// access one sector ask for it once, as on a GPU. How many sectors and lines a
// launch asks for, of the memory that counts, is the sum over its requests.
// Under [Fast] the lanes of a warp that stand at one instruction execute it
// together; under the other schedulers they make requests of their own.
type Request struct {
	Launch int    // launches of the device submitted before
	Kernel string // name of its kernel
	Line   int    // of the kernel's file, where the instruction is
	Kind   RequestKind
	// Sectors are the addresses of the sectors, ascending. They are valid
	// during the call.
	Sectors []device.Ptr
}

// RequestKind says what a [Request] is made for.
type RequestKind uint8

// The kinds of requests.
const (
	Load RequestKind = iota
	Store
	Atomic // a compare-and-swap that fails and a reduction included
)

// String names the kind.
func (k RequestKind) String() string { return [...]string{"load", "store", "atomic"}[k] }

// Within counts the sectors, and the lines that these are in, of a part of
// memory: those that begin in the size bytes from at on.
func (r Request) Within(at device.Ptr, size int) (sectors, lines int) {
	last := device.Ptr(0) // no memory lies there
	for _, s := range r.Sectors {
		if s < at || s >= at+device.Ptr(size) {
			continue
		}
		sectors++
		if line := s &^ (LineBytes - 1); line != last {
			lines++
			last = line
		}
	}
	return sectors, lines
}

// request tells of what lanes m are about to access.
func (l *launch) request(w *warp, in *instr, m uint32) {
	ac := in.access
	var all [warpSize]device.Ptr // no access goes beyond a sector
	sectors := all[:0]
	for ; m != 0; m &= m - 1 {
		addr := w.rows[in.a][lowest(m)] + ac.disp
		if ac.space == spaceGlobal || ac.space == spaceGeneric && spaceOf(addr) == spaceGlobal {
			sectors = append(sectors, device.Ptr(addr&^(SectorBytes-1)))
		}
	}
	if len(sectors) == 0 {
		return
	}
	slices.Sort(sectors)
	r := Request{Launch: l.number, Kernel: l.prog.kernel.name, Line: in.st.line, Sectors: slices.Compact(sectors)}
	switch {
	case ac.combine != nil:
		r.Kind = Atomic
	case ac.stores:
		r.Kind = Store
	}
	l.requests(r)
}
