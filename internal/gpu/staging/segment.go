package staging

import (
	"errors"

	"github.com/weftgo/weft/device"
)

// slot is the path of a piece: memory on the device for all its columns, page-locked memory for
// those that a core copies, and events after its copies in, its work, and its copies out.
type slot struct {
	arrived, worked, returned *device.Event

	block
	refs []columnRef
}

// columnRef is the location of a column of a piece.
type columnRef struct {
	caller []byte // in the batch
	host   []byte // page-locked: the same memory if the device copies it directly
	ptr    device.Ptr
	input  bool
	pinned bool
}

// open makes the events of a slot.
func (s *slot) open(dev device.Device) (err error) {
	for _, e := range []**device.Event{&s.arrived, &s.worked, &s.returned} {
		if *e == nil {
			if *e, err = dev.NewEvent(); err != nil {
				return err
			}
		}
	}
	return nil
}

// layOut assigns a place to each column of a piece.
func (s *slot) layOut(p *Piece, columns []column) {
	s.refs = s.refs[:0]
	at, in := 0, 0 // the device's memory, and the host's
	for _, c := range columns {
		x := columnRef{caller: p.Batch.Columns[c.role].Host, ptr: s.device.ptr() + device.Ptr(at), input: c.IsInput(), pinned: c.pinned}
		x.host = x.caller
		if !c.pinned {
			x.host = s.host.host()[in : in+len(x.caller)]
			in = align(in + len(x.caller))
		}
		at = align(at + len(x.caller))
		s.refs = append(s.refs, x)
		p.Batch.Columns[c.role] = p.Batch.Columns[c.role].WithPtr(x.ptr)
	}
}

// coalesceBytes is the size up to which columns are gathered into one copy to the device: a core
// takes about as long to copy that much as to submit a copy.
const coalesceBytes = 16 << 10

// submitInputs copies the columns in. Adjacent small columns share one copy.
func (s *slot) submitInputs(p *Piece, j *job) error {
	s.layOut(p, j.columns)
	for i := 0; i < len(s.refs); i++ {
		x := s.refs[i]
		if !x.input || len(x.host) == 0 {
			continue
		}
		x.load()
		for i+1 < len(s.refs) && len(x.host) <= coalesceBytes && x.adjacent(s.refs[i+1]) {
			i++
			s.refs[i].load()
			x.extend(s.refs[i])
		}
		if err := j.in.CopyInAsync(x.ptr, x.host); err != nil {
			return err
		}
	}
	if j.single {
		return nil
	}
	return j.in.Record(s.arrived)
}

// submitOutputs submits the copies of the columns out. Adjacent columns share one copy.
func (s *slot) submitOutputs(j *job) error {
	for i := 0; i < len(s.refs); i++ {
		x := s.refs[i]
		if x.input || len(x.host) == 0 {
			continue
		}
		for i+1 < len(s.refs) && x.adjacent(s.refs[i+1]) {
			i++
			x.extend(s.refs[i])
		}
		if err := j.out.CopyOutAsync(x.host, x.ptr); err != nil {
			return err
		}
	}
	return j.out.Record(s.returned)
}

// load copies a column to page-locked memory.
func (x *columnRef) load() {
	if !x.pinned {
		copy(x.host, x.caller)
	}
}

// adjacent reports whether the next column follows this one in both memories, and is copied in the
// same direction.
func (x *columnRef) adjacent(next columnRef) bool {
	return !x.pinned && !next.pinned && x.input == next.input
}

// extend extends a column to the end of an adjacent one.
func (x *columnRef) extend(next columnRef) { x.host = x.host[:int(next.ptr-x.ptr)+len(next.host)] }

// unload copies the output columns, which have arrived, to the batch.
func (s *slot) unload() {
	for _, x := range s.refs {
		if !x.input && !x.pinned {
			copy(x.caller, x.host)
		}
	}
}

func (s *slot) close() (err error) {
	for _, e := range []*device.Event{s.arrived, s.worked, s.returned} {
		if e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	*s = slot{}
	return err
}
