package sim

import (
	"slices"

	"github.com/weftgo/weft/device"
)

// These are the sizes in which GPUs fetch memory. A request names cache lines, and the sectors of
// each line that it needs.
const (
	SectorBytes = 32
	LineBytes   = 128
)

// Request is the set of sectors of global memory that one instruction of a warp accesses. Lanes
// that access the same sector request it once, as on a GPU. The sum over all requests is the number
// of sectors and lines that a launch requests. Under [Fast], the lanes of a warp at one instruction
// execute it together. Under the other schedulers they make separate requests.
type Request struct {
	Launch int    // number of earlier launches on the device
	Kernel string // name of the kernel
	Line   int    // line of the instruction in the PTX file
	Kind   RequestKind
	// Sectors are the addresses of the sectors, ascending. They are valid during the call only.
	Sectors []device.Ptr
}

// RequestKind is the kind of access of a [Request].
type RequestKind uint8

// These are the kinds of requests.
const (
	Load RequestKind = iota
	Store
	Atomic // also of a reduction, and of a compare-and-swap that fails
)

// String returns the name of the kind.
func (k RequestKind) String() string { return [...]string{"load", "store", "atomic"}[k] }

// CountIn returns how many sectors of r begin in a block of memory, and in how many lines these
// sectors lie. at is the address of the block, and size its length in bytes.
func (r Request) CountIn(at device.Ptr, size int) (sectors, lines int) {
	last := device.Ptr(0) // never an address of memory
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

// request passes the accesses that the lanes in m are about to make to Options.Requests.
func (l *launch) request(w *warp, in *instr, m uint32) {
	ac := in.access
	var all [warpSize]device.Ptr // one per lane, since no access crosses a sector boundary
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
