package staging

import (
	"errors"

	"github.com/weftgo/weft/device"
)

// segment is the path of a piece: memory on the device for all its columns, page-locked memory for
// those that a core copies, and events after its copies in, its work, and its copies out.
type segment struct {
	arrived, worked, returned *device.Event

	block
	places []place
}

// place is the location of a column of a piece.
type place struct {
	caller []byte // in the batch
	host   []byte // page-locked: the same memory if the device copies it directly
	ptr    device.Ptr
	input  bool
	pinned bool
}

// open makes the events of a segment.
func (s *segment) open(dev device.Device) (err error) {
	for _, e := range []**device.Event{&s.arrived, &s.worked, &s.returned} {
		if *e == nil {
			if *e, err = dev.NewEvent(); err != nil {
				return err
			}
		}
	}
	return nil
}

// lay assigns a place to each column of a piece.
func (s *segment) lay(p *Piece, columns []column) {
	s.places = s.places[:0]
	at, in := 0, 0 // the device's memory, and the host's
	for _, c := range columns {
		x := place{caller: p.Batch.Columns[c.role].Host, ptr: s.device.ptr() + device.Ptr(at), input: c.IsInput(), pinned: c.pinned}
		x.host = x.caller
		if !c.pinned {
			x.host = s.host.host()[in : in+len(x.caller)]
			in = align(in + len(x.caller))
		}
		at = align(at + len(x.caller))
		s.places = append(s.places, x)
		p.Batch.Columns[c.role] = p.Batch.Columns[c.role].Moved(x.ptr)
	}
}

// togetherBytes is the size up to which columns are gathered into one copy to the device: a core
// takes about as long to copy that much as to submit a copy.
const togetherBytes = 16 << 10

// send copies the columns in. Adjacent small columns share one copy.
func (s *segment) send(p *Piece, j *job) error {
	s.lay(p, j.columns)
	for i := 0; i < len(s.places); i++ {
		x := s.places[i]
		if !x.input || len(x.host) == 0 {
			continue
		}
		x.load()
		for i+1 < len(s.places) && len(x.host) <= togetherBytes && x.beside(s.places[i+1]) {
			i++
			s.places[i].load()
			x.extend(s.places[i])
		}
		if err := j.in.CopyInAsync(x.ptr, x.host); err != nil {
			return err
		}
	}
	if j.alone {
		return nil
	}
	return j.in.Record(s.arrived)
}

// bring submits the copies of the columns out. Adjacent columns share one copy.
func (s *segment) bring(j *job) error {
	for i := 0; i < len(s.places); i++ {
		x := s.places[i]
		if x.input || len(x.host) == 0 {
			continue
		}
		for i+1 < len(s.places) && x.beside(s.places[i+1]) {
			i++
			x.extend(s.places[i])
		}
		if err := j.out.CopyOutAsync(x.host, x.ptr); err != nil {
			return err
		}
	}
	return j.out.Record(s.returned)
}

// load copies a column to page-locked memory.
func (x *place) load() {
	if !x.pinned {
		copy(x.host, x.caller)
	}
}

// beside reports whether the next column follows this one in both memories, and is copied in the
// same direction.
func (x *place) beside(next place) bool { return !x.pinned && !next.pinned && x.input == next.input }

// extend extends a column to the end of an adjacent one.
func (x *place) extend(next place) { x.host = x.host[:int(next.ptr-x.ptr)+len(next.host)] }

// unload copies the output columns, which have arrived, to the batch.
func (s *segment) unload() {
	for _, x := range s.places {
		if !x.input && !x.pinned {
			copy(x.caller, x.host)
		}
	}
}

func (s *segment) close() (err error) {
	for _, e := range []*device.Event{s.arrived, s.worked, s.returned} {
		if e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	*s = segment{}
	return err
}
