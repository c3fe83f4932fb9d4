package linear

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/staging"
)

// scratch is the device memory that changes of one table work with, one change
// at a time. It grows with the largest batch and stays.
type scratch struct {
	dev    device.Device
	stream *device.Stream

	control  device.Slice[uint32] // see the offsets below
	deferred device.Slice[uint32] // operations for settleDuplicates
	ranks    device.Slice[uint32] // twice as many, zero between changes
	flags    device.Slice[bool]   // the flags of a batch that brings none
	failed   device.Slice[uint32] // operations without room
}

// Words of scratch.control.
const (
	controlDeferred = iota // entries of deferred
	controlFailed          // entries of failed
	controlLost            // operations without room in batches on the device
	controlResult          // what a kernel reports
	controlSum             // 64 bits
	_
	controlLongest
	_
	controlWords
)

func (x *scratch) open(dev device.Device, s *device.Stream) (err error) {
	x.dev, x.stream = dev, s
	if x.control, err = device.Make[uint32](dev, controlWords); err != nil {
		return err
	}
	return s.Fill(x.control.Ptr(), 0, controlWords)
}

func (x *scratch) word(i int) device.Ptr { return x.control.Ptr() + device.Ptr(4*i) }

// read waits for the stream and reads a control word.
func (x *scratch) read(ctx context.Context, at int) (uint32, error) {
	var v [1]uint32
	err := x.stream.CopyOut(ctx, device.Bytes(v[:]), x.word(at))
	return v[0], err
}

// set submits writing a control word.
func (x *scratch) set(s *device.Stream, at int, v uint32) error { return s.Fill(x.word(at), v, 1) }

// reserve makes room for a change of n operations, of which failed may be
// recorded.
func (x *scratch) reserve(n, failed int) error {
	if x.deferred.Len() < n {
		if err := x.drop(n); err != nil {
			return err
		}
	}
	if x.failed.Len() < failed {
		if err := x.dev.Sync(context.Background()); err != nil {
			return err
		}
		if err := x.failed.Free(); err != nil {
			return err
		}
		var err error
		if x.failed, err = device.Make[uint32](x.dev, failed); err != nil {
			return err
		}
	}
	return nil
}

// drop replaces the memory for settling duplicates by more of it.
func (x *scratch) drop(n int) (err error) {
	if err := x.dev.Sync(context.Background()); err != nil { // it may be in use
		return err
	}
	if err := errors.Join(x.deferred.Free(), x.ranks.Free(), x.flags.Free()); err != nil {
		return err
	}
	n = 1 << bits.Len(uint(max(n, 256)-1))
	if x.ranks, err = device.Make[uint32](x.dev, 2*n); err != nil {
		return err
	}
	if err = x.stream.Fill(x.ranks.Ptr(), 0, 2*n); err != nil {
		return err
	}
	if err = x.stream.Sync(context.Background()); err != nil { // changes use other streams
		return err
	}
	if x.flags, err = device.Make[bool](x.dev, n); err != nil {
		return err
	}
	// Last, because its length says that all is there.
	x.deferred, err = device.Make[uint32](x.dev, n)
	return err
}

// readFailed returns the recorded operations, ascending.
func (x *scratch) readFailed(ctx context.Context) ([]uint32, error) {
	n, err := x.read(ctx, controlFailed)
	if err != nil || n == 0 {
		return nil, err
	}
	failed := make([]uint32, n)
	if err := x.failed.CopyTo(ctx, x.stream, failed); err != nil {
		return nil, err
	}
	slices.Sort(failed)
	return failed, nil
}

func (x *scratch) free() error {
	return errors.Join(x.control.Free(), x.deferred.Free(), x.ranks.Free(), x.flags.Free(), x.failed.Free())
}

// carrier is what a call with host memory needs for itself while it runs: a
// ring for its columns, and a counter.
type carrier struct {
	ring *staging.Ring
	hits device.Slice[uint64]
}

// carriers lends them out; as many as ran at once are kept.
type carriers struct {
	mu   sync.Mutex
	idle []*carrier
}

func (c *carriers) take(dev device.Device) (*carrier, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.idle); n > 0 {
		x := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return x, nil
	}
	hits, err := device.Make[uint64](dev, 1)
	if err != nil {
		return nil, err
	}
	return &carrier{staging.New(dev), hits}, nil
}

func (c *carriers) give(x *carrier) {
	c.mu.Lock()
	c.idle = append(c.idle, x)
	c.mu.Unlock()
}

func (c *carriers) free() (err error) {
	for _, x := range c.idle {
		err = errors.Join(err, x.ring.Close(), x.hits.Free())
	}
	c.idle = nil
	return err
}
