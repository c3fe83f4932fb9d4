package staging

import (
	"errors"

	"github.com/weftgo/weft/device"
)

// slot is the way of a piece: page-locked memory and as much memory on the
// device, with columns at the same offsets in both, and events behind its
// copies in, its work, and its copy out.
type slot struct {
	arrived, worked, home *device.Event

	host []byte
	buf  device.Buffer

	first int // where the columns out begin
}

// open makes sure that a slot is there and holds size bytes.
func (s *slot) open(dev device.Device, size int) (err error) {
	for _, e := range []**device.Event{&s.arrived, &s.worked, &s.home} {
		if *e == nil {
			if *e, err = dev.NewEvent(); err != nil {
				return err
			}
		}
	}
	if len(s.host) >= size {
		return nil
	}
	if err := s.free(dev); err != nil {
		return err
	}
	// Round up, so that batches of slowly growing size don't reallocate.
	size = max(1<<12, nextPow2(size))
	if s.host, err = dev.AllocHost(size); err != nil {
		return err
	}
	if s.buf, err = dev.Alloc(size); err != nil {
		return errors.Join(err, s.free(dev))
	}
	return nil
}

// send copies the columns in and lays out the columns out.
func (s *slot) send(r *Ring, p *Piece, j *job) error {
	at, n := 0, p.Batch.N
	sent := false
	for _, c := range j.columns {
		size := n * c.Width
		to := s.buf.Ptr + device.Ptr(at)
		if c.IsInput() {
			src := c.Host[p.Lo*c.Width : p.Lo*c.Width+size]
			if !c.pinned {
				copy(s.host[at:at+size], src)
				src = s.host[at : at+size]
			}
			if err := r.in.CopyInAsync(to, src); err != nil {
				return err
			}
		} else if !sent {
			s.first, sent = at, true
		}
		p.Batch.Columns[c.role] = c.Moved(to)
		at = align(at + size)
	}
	return r.in.Record(s.arrived)
}

// bring submits the copies home of the columns out.
func (s *slot) bring(r *Ring, p *Piece, columns []column) error {
	if err := r.out.Wait(s.worked); err != nil {
		return err
	}
	if err := s.fetch(r, p, columns); err != nil {
		return err
	}
	return r.out.Record(s.home)
}

// unload copies the columns out, which have come home, to the batch.
func (s *slot) unload(p *Piece, columns []column) {
	at := s.first
	for _, c := range columns {
		if c.IsInput() {
			continue
		}
		size := p.Batch.N * c.Width
		if !c.pinned {
			copy(c.Host[p.Lo*c.Width:], s.host[at:at+size])
		}
		at = align(at + size)
	}
}

// fetch submits the copies of the columns out: of all that are staged in one,
// since they lie side by side.
func (s *slot) fetch(r *Ring, p *Piece, columns []column) error {
	at, from := s.first, s.first
	flush := func() error {
		if at == from {
			return nil
		}
		return r.out.CopyOutAsync(s.host[from:at], s.buf.Ptr+device.Ptr(from))
	}
	for _, c := range columns {
		if c.IsInput() {
			continue
		}
		size := p.Batch.N * c.Width
		if c.pinned {
			dst := c.Host[p.Lo*c.Width : p.Lo*c.Width+size]
			if err := errors.Join(flush(), r.out.CopyOutAsync(dst, s.buf.Ptr+device.Ptr(at))); err != nil {
				return err
			}
			from = align(at + size)
		}
		at = align(at + size)
	}
	return flush()
}

func (s *slot) free(dev device.Device) (err error) {
	if s.buf.Size != 0 {
		err = dev.Free(s.buf)
		s.buf = device.Buffer{}
	}
	if s.host != nil {
		err = errors.Join(err, dev.FreeHost(s.host))
		s.host = nil
	}
	return err
}

func (s *slot) close(dev device.Device) error {
	err := s.free(dev)
	for _, e := range []*device.Event{s.arrived, s.worked, s.home} {
		if e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	*s = slot{}
	return err
}

func nextPow2(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}
