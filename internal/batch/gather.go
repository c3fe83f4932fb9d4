package batch

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
)

// Gather copies some operations of a batch in host memory, by their indices,
// to a batch of their own.
func (b *Batch) Gather(at []uint32) *Batch {
	some := *b
	some.N = len(at)
	for r := range b.Columns {
		c := &some.Columns[r]
		if !c.Given() {
			continue
		}
		host := make([]byte, len(at)*c.Width)
		for to, from := range at {
			copy(host[to*c.Width:(to+1)*c.Width], c.Host[int(from)*c.Width:])
		}
		c.Host, c.Ptr, c.rows = host, 0, len(at)
	}
	return &some
}

// Scatter copies the outputs of a gathered batch back to where its operations
// came from.
func (b *Batch) Scatter(gathered *Batch, at []uint32) {
	for r := range b.Columns {
		c := &b.Columns[r]
		if !c.Given() || !c.IsOutput() {
			continue
		}
		from := gathered.Columns[r].Host
		for i, to := range at {
			copy(c.Host[int(to)*c.Width:(int(to)+1)*c.Width], from[i*c.Width:(i+1)*c.Width])
		}
	}
}

// Fetch copies a batch that lies on a device to host memory, once the stream
// has done what was submitted to it before. Where the host addresses the
// device's memory there is nothing to copy.
func (b *Batch) Fetch(ctx context.Context, s *device.Stream) (*Batch, error) {
	copied := *b
	for r := range copied.Columns {
		c := &copied.Columns[r]
		if c.Ptr == 0 || c.Host != nil {
			continue
		}
		c.Host = make([]byte, c.Bytes(0, b.N))
		if err := s.CopyOut(ctx, c.Host, c.Ptr); err != nil {
			return nil, err
		}
		c.Ptr = 0
	}
	return &copied, nil
}

// Store copies the outputs of a fetched batch back to the device.
func (b *Batch) Store(s *device.Stream, fetched *Batch) (err error) {
	for r := range b.Columns {
		if c := &b.Columns[r]; c.Ptr != 0 && c.Host == nil && c.IsOutput() {
			err = errors.Join(err, s.CopyIn(c.Ptr, fetched.Columns[r].Host))
		}
	}
	return err
}

// ClearFrom sets the outputs of the operations from number lo on to zero, in a
// batch in host memory.
func (b *Batch) ClearFrom(lo int) {
	for r := range b.Columns {
		if c := &b.Columns[r]; c.IsOutput() && c.Host != nil && c.Offsets == nil {
			clear(c.Host[min(lo*c.Width, len(c.Host)):])
		}
	}
}
