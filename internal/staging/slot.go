package staging

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
)

// slot is the way of a piece: a stream, page-locked memory and as much memory
// on the device. Columns lie at the same offsets in both.
type slot struct {
	stream *device.Stream
	done   *device.Event
	host   []byte
	buf    device.Buffer

	first, end int // where the columns out lie
}

// open makes sure that a slot is there and holds size bytes.
func (s *slot) open(dev device.Device, size int) (err error) {
	if s.stream == nil {
		if s.stream, err = dev.NewStream(); err != nil {
			return err
		}
	}
	if s.done == nil {
		if s.done, err = dev.NewEvent(); err != nil {
			return err
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
func (s *slot) send(p *Piece, in, out []Column) error {
	at := 0
	for _, c := range in {
		if c.Host == nil {
			p.In = append(p.In, 0)
			continue
		}
		size := p.N * c.Width
		copy(s.host[at:at+size], c.Host[p.Lo*c.Width:])
		if err := s.stream.CopyInAsync(s.buf.Ptr+device.Ptr(at), s.host[at:at+size]); err != nil {
			return err
		}
		p.In = append(p.In, s.buf.Ptr+device.Ptr(at))
		at = align(at + size)
	}
	s.first = at
	for _, c := range out {
		if c.Host == nil {
			p.Out = append(p.Out, 0)
			continue
		}
		p.Out = append(p.Out, s.buf.Ptr+device.Ptr(at))
		at = align(at + p.N*c.Width)
	}
	s.end = at
	return nil
}

// bring submits the copy home of the columns out, which lie side by side. The
// function it returns waits for it and copies them to the batch.
func (s *slot) bring(p *Piece, out []Column) (home func() error, err error) {
	if s.end > s.first {
		if err := s.stream.CopyOutAsync(s.host[s.first:s.end], s.buf.Ptr+device.Ptr(s.first)); err != nil {
			return nil, err
		}
	}
	if err := s.stream.Record(s.done); err != nil {
		return nil, err
	}
	return func() error {
		if err := s.done.Sync(context.Background()); err != nil {
			return err
		}
		at := s.first
		for _, c := range out {
			if c.Host == nil {
				continue
			}
			size := p.N * c.Width
			copy(c.Host[p.Lo*c.Width:], s.host[at:at+size])
			at = align(at + size)
		}
		return nil
	}, nil
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
	if s.done != nil {
		err = errors.Join(err, s.done.Close())
	}
	if s.stream != nil {
		err = errors.Join(err, s.stream.Close())
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
