package sim

import (
	"slices"

	"github.com/weftgo/weft/device"
)

// Sizes in which GPUs fetch memory: a request names cache lines, and the sectors of each that it
// needs.
const (
	SectorBytes = 32
	LineBytes   = 128
)

// A Request is what one instruction of a warp requests of global memory. Lanes that access one
// sector request it once, as on a GPU. The sum over the requests gives the sectors and lines that a
// launch requests. Under [Fast] the lanes of a warp at one instruction execute it together; under
// the other schedulers they make separate requests.
type Request struct {
	Launch int    // number of earlier launches of the device
	Kernel string // name of its kernel
	Line   int    // line of the instruction in the kernel's file
	Kind   RequestKind
	// Sectors are the addresses of the sectors, ascending. They are valid during the call.
	Sectors []device.Ptr
}

// RequestKind is the purpose of a [Request].
type RequestKind uint8

// The kinds of requests.
const (
	Load RequestKind = iota
	Store
	Atomic // includes a compare-and-swap that fails and a reduction
)

// String returns the name of the kind.
func (k RequestKind) String() string { return [...]string{"load", "store", "atomic"}[k] }

// CountIn counts the sectors that begin in the size bytes from at on, and the lines of these
// sectors.
func (r Request) CountIn(at device.Ptr, size int) (sectors, lines int) {
	last := device.Ptr(0) // not an address of memory
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

// request reports the accesses that lanes m are about to make.
func (l *launch) request(w *warp, in *instr, m uint32) {
	ac := in.access
	var all [warpSize]device.Ptr // no access crosses a sector boundary
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
