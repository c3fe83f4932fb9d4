package batch

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
)

// Gather copies some operations of a batch in host memory, by their indices,
// to a batch of their own.
func (b *Batch) Gather(at []uint32, w Widths) *Batch {
	take := func(c Column, width int) Column {
		if !c.There() {
			return c
		}
		host := make([]byte, len(at)*width)
		for to, from := range at {
			copy(host[to*width:(to+1)*width], c.Host[int(from)*width:])
		}
		return Column{Host: host}
	}
	return &Batch{
		N: len(at), Kind: b.Kind, Flags: b.Flags, Load: b.Load,
		Keys: take(b.Keys, w.Key), Vals: take(b.Vals, w.Val), Kinds: take(b.Kinds, 1),
		Out: take(b.Out, w.Val), OK: take(b.OK, 1), Counts: take(b.Counts, 4),
	}
}

// Scatter copies the outputs of a gathered batch back to where its operations
// came from.
func (b *Batch) Scatter(gathered *Batch, at []uint32, w Widths) {
	put := func(c, from Column, width int) {
		if !c.There() {
			return
		}
		for i, to := range at {
			copy(c.Host[int(to)*width:(int(to)+1)*width], from.Host[i*width:(i+1)*width])
		}
	}
	put(b.Out, gathered.Out, w.Val)
	put(b.OK, gathered.OK, 1)
	put(b.Counts, gathered.Counts, 4)
}

// Fetch copies a batch that lies on a device to host memory, once the stream
// has done what was submitted to it before. Where the host addresses the
// device's memory there is nothing to copy.
func (b *Batch) Fetch(ctx context.Context, s *device.Stream, w Widths) (*Batch, error) {
	copied := *b
	var err error
	fetch := func(c *Column, width int) {
		if c.Ptr == 0 || c.Host != nil {
			return
		}
		host := make([]byte, b.N*width)
		if err == nil {
			err = s.CopyOut(ctx, host, c.Ptr)
		}
		*c = Column{Host: host}
	}
	fetch(&copied.Keys, w.Key)
	fetch(&copied.Vals, w.Val)
	fetch(&copied.Kinds, 1)
	fetch(&copied.Out, w.Val)
	fetch(&copied.OK, 1)
	fetch(&copied.Counts, 4)
	return &copied, err
}

// Store copies the outputs of a fetched batch back to the device.
func (b *Batch) Store(s *device.Stream, fetched *Batch) (err error) {
	store := func(c, from Column) {
		if c.Ptr != 0 && c.Host == nil {
			err = errors.Join(err, s.CopyIn(c.Ptr, from.Host))
		}
	}
	store(b.Out, fetched.Out)
	store(b.OK, fetched.OK)
	store(b.Counts, fetched.Counts)
	return err
}
