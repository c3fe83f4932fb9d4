package staging

import (
	"errors"

	"github.com/weftgo/weft/device"
)

// slot holds the memory and the events of one piece: device memory for all columns, and page-locked
// memory for the columns that a core copies. The events mark the ends of the copies in, the work,
// and the copies out.
type slot struct {
	arrived, worked, returned *device.Event

	block
	refs []columnRef
}

// columnRef locates a column of a piece in all memories.
type columnRef struct {
	caller []byte // the column's rows in the batch
	host   []byte // page-locked memory; equals caller if the device copies the column directly
	ptr    device.Ptr
	input  bool
	pinned bool
}

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

// layOut assigns an offset in the slot's memory to each column of a piece.
func (s *slot) layOut(p *Piece, columns []column) {
	s.refs = s.refs[:0]
	at, in := 0, 0 // next offsets in the device's and the host's memory
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

// coalesceBytes is the maximum size of a column that shares a copy to the device with the next
// column. A core copies that many bytes in about the time that submitting a copy takes.
const coalesceBytes = 16 << 10

// submitInputs submits the copies of the input columns. Adjacent small columns share one copy.
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

// submitOutputs submits the copies of the output columns. Adjacent columns share one copy.
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

// adjacent reports whether next follows x in both memories and is copied in the same direction.
func (x *columnRef) adjacent(next columnRef) bool {
	return !x.pinned && !next.pinned && x.input == next.input
}

func (x *columnRef) extend(next columnRef) { x.host = x.host[:int(next.ptr-x.ptr)+len(next.host)] }

// unload copies the output columns from page-locked memory to the batch.
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
