package staging

import (
	"errors"

	"github.com/weftgo/weft/device"
)

// segment is the way of a piece: memory on the device for all its columns, page-
// locked memory for those that a core copies, and events behind its copies in,
// its work, and its copies out.
type segment struct {
	arrived, worked, returned *device.Event

	block
	places []place
}

// place is where a column of a piece lies.
type place struct {
	caller []byte // in the batch
	host   []byte // page-locked: the same, if the device copies it alone
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

// lay gives each column of a piece its place.
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

// send copies the columns in.
func (s *segment) send(r *Ring, p *Piece, j *job) error {
	s.lay(p, j.columns)
	for _, x := range s.places {
		if !x.input || len(x.host) == 0 {
			continue
		}
		if !x.pinned {
			copy(x.host, x.caller)
		}
		if err := r.in.CopyInAsync(x.ptr, x.host); err != nil {
			return err
		}
	}
	return r.in.Record(s.arrived)
}

// bring submits the copies of the columns out: of all that a core copies on
// in one, since they lie side by side.
func (s *segment) bring(r *Ring) error {
	if err := r.out.Wait(s.worked); err != nil {
		return err
	}
	for i := 0; i < len(s.places); i++ {
		x := s.places[i]
		if x.input || len(x.host) == 0 {
			continue
		}
		for !x.pinned && i+1 < len(s.places) && !s.places[i+1].pinned {
			i++
			x.host = x.host[:int(s.places[i].ptr-x.ptr)+len(s.places[i].host)]
		}
		if err := r.out.CopyOutAsync(x.host, x.ptr); err != nil {
			return err
		}
	}
	return r.out.Record(s.returned)
}

// unload copies the columns out, which have arrived, to the batch.
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
