package batch

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
)

// Gather returns a batch with the operations of b at the given indexes. b must lie in host memory.
func (b *Batch) Gather(at []uint32) *Batch {
	gathered := *b
	gathered.N = len(at)
	for r := range b.Columns {
		c := &gathered.Columns[r]
		if !c.Given() {
			continue
		}
		host := make([]byte, len(at)*c.Width)
		switch c.Width {
		case 1:
			gather(host, c.Host, at)
		case 4:
			gather(View[uint32](host), View[uint32](c.Host), at)
		case 8:
			gather(View[uint64](host), View[uint64](c.Host), at)
		default:
			for i, row := range at {
				copy(host[i*c.Width:][:c.Width], c.Host[int(row)*c.Width:])
			}
		}
		c.Host, c.Ptr, c.rows = host, 0, len(at)
	}
	return &gathered
}

// Scatter copies the outputs of a batch made by Gather back to b: row i of gathered to row at[i].
func (b *Batch) Scatter(gathered *Batch, at []uint32) {
	for r := range b.Columns {
		c := &b.Columns[r]
		if !c.Given() || !c.IsOutput() {
			continue
		}
		switch from := gathered.Columns[r].Host; c.Width {
		case 1:
			scatter(c.Host, from, at)
		case 4:
			scatter(View[uint32](c.Host), View[uint32](from), at)
		case 8:
			scatter(View[uint64](c.Host), View[uint64](from), at)
		default:
			for i, row := range at {
				copy(c.Host[int(row)*c.Width:][:c.Width], from[i*c.Width:])
			}
		}
	}
}

func gather[T any](to, from []T, at []uint32) {
	for i, row := range at {
		to[i] = from[row]
	}
}

func scatter[T any](to, from []T, at []uint32) {
	for i, row := range at {
		to[row] = from[i]
	}
}

// Fetch waits for the stream's earlier work and returns a copy in host memory of a batch that lies
// on the device. It copies no column that the host can address directly.
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

// Store copies the outputs of a fetched batch back to device memory.
func (b *Batch) Store(s *device.Stream, fetched *Batch) (err error) {
	for r := range b.Columns {
		if c := &b.Columns[r]; c.Ptr != 0 && c.Host == nil && c.IsOutput() {
			err = errors.Join(err, s.CopyIn(c.Ptr, fetched.Columns[r].Host))
		}
	}
	return err
}

// ClearFrom zeroes the outputs of row lo and all later rows, in a batch in host memory.
func (b *Batch) ClearFrom(lo int) {
	for r := range b.Columns {
		if c := &b.Columns[r]; c.IsOutput() && c.Host != nil && c.Offsets == nil {
			clear(c.Host[min(lo*c.Width, len(c.Host)):])
		}
	}
}
