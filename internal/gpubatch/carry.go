package gpubatch

import (
	"context"
	"errors"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/staging"
)

// Carrier is what a call with host memory needs for itself while it runs: a
// ring for its columns, and a counter.
type Carrier struct {
	Ring *staging.Ring
	Hits device.Slice[uint64]
}

// Reset submits setting the counter to zero, before the work of all pieces that
// the ring runs next.
func (c *Carrier) Reset() error {
	s, err := c.Ring.Work()
	if err != nil {
		return err
	}
	return s.Fill(c.Hits.Ptr(), 0, 2)
}

// carriers lends them out; as many as ran at once are kept.
type carriers struct {
	mu   sync.Mutex
	idle []*Carrier
}

// Take lends a carrier, until Give.
func (q *Queue) Take() (*Carrier, error) {
	c := &q.carriers
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.idle); n > 0 {
		x := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return x, nil
	}
	hits, err := device.Make[uint64](q.Dev, 1)
	if err != nil {
		return nil, err
	}
	return &Carrier{staging.New(q.Dev), hits}, nil
}

// Give takes a carrier back.
func (q *Queue) Give(x *Carrier) {
	q.carriers.mu.Lock()
	q.carriers.idle = append(q.carriers.idle, x)
	q.carriers.mu.Unlock()
}

func (c *carriers) free() (err error) {
	for _, x := range c.idle {
		err = errors.Join(err, x.Ring.Close(), x.Hits.Free())
	}
	c.idle = nil
	return err
}

// Get carries lookups from host memory through the device. launch submits
// those of a part, which add the number of keys found to hits. If ctx ends,
// hits and the outputs cover a prefix.
func (q *Queue) Get(ctx context.Context, b *batch.Batch, launch func(s *device.Stream, part *batch.Batch, hits device.Ptr) error) (hits int, err error) {
	if b.N == 0 {
		return 0, ctx.Err()
	}
	c, err := q.Take()
	if err != nil {
		return 0, err
	}
	defer q.Give(c)
	if err := c.Reset(); err != nil {
		return 0, err
	}
	_, err = c.Ring.Run(ctx, b.N,
		[]staging.Column{{Host: b.Keys.Host, Width: q.Widths.Key}},
		[]staging.Column{{Host: b.Vals.Host, Width: q.Widths.Val}, {Host: b.OK.Host, Width: 1}},
		func(p *staging.Piece) error {
			if err := p.Stream.Wait(q.Changed); err != nil {
				return err
			}
			return launch(p.Stream, &batch.Batch{
				N: p.N, Flags: b.Flags, Load: b.Load,
				Keys: batch.Column{Ptr: p.In[0]}, Vals: batch.Column{Ptr: p.Out[0]}, OK: batch.Column{Ptr: p.Out[1]},
			}, c.Hits.Ptr())
		})
	// All pieces that were sent have come home, so the count is theirs. If none
	// was, the counter may not be zero yet: it is read on the same stream.
	work, e := c.Ring.Work()
	var n [1]uint64
	if e == nil {
		e = c.Hits.CopyTo(context.WithoutCancel(ctx), work, n[:])
	}
	if err == nil {
		err = e
	}
	return int(n[0]), err
}

// Present counts those keys of a batch on the device that are there. launch
// submits a lookup, which adds their number to hits. The host has waited for
// all changes.
func (q *Queue) Present(ctx context.Context, s *device.Stream, launch func(hits device.Ptr) error) (int, error) {
	if err := errors.Join(q.Set(s, WordSum, 0), q.Set(s, WordSum+1, 0)); err != nil {
		return 0, err
	}
	if err := launch(q.Word(WordSum)); err != nil {
		return 0, err
	}
	var n [1]uint64
	err := s.CopyOut(ctx, device.Bytes(n[:]), q.Word(WordSum))
	return int(n[0]), err
}

// Change carries changes from host memory through the device, as many of them
// as the memory for settling allows. submit submits those of a part, the first
// of which is number first of the batch, and lists those that fail under the
// numbers that they have there. failed are they, ascending; done is the length
// of the prefix that was run.
func (q *Queue) Change(ctx context.Context, b *batch.Batch, submit func(s *device.Stream, part *batch.Batch, failed List, first int) error) (done int, failed []uint32, err error) {
	w := q.Widths
	b = b.Sub(0, min(b.N, SettleOps), w)
	if b.N == 0 {
		return 0, nil, nil
	}
	if err := q.Reserve(b.N, b.N); err != nil {
		return 0, nil, err
	}
	if err := q.Submit(q.Stream, func() error { return q.Set(q.Stream, WordFailed, 0) }); err != nil {
		return 0, nil, err
	}
	c, err := q.Take()
	if err != nil {
		return 0, nil, err
	}
	defer q.Give(c)
	done, err = c.Ring.RunInOrder(ctx, b.N,
		[]staging.Column{{Host: b.Keys.Host, Width: w.Key}, {Host: b.Vals.Host, Width: w.Val}, {Host: b.Kinds.Host, Width: 1}},
		[]staging.Column{{Host: b.Out.Host, Width: w.Val}, {Host: b.OK.Host, Width: 1}, {Host: b.Counts.Host, Width: 4}},
		func(p *staging.Piece) error {
			return submit(p.Stream, &batch.Batch{
				N: p.N, Kind: b.Kind, Flags: b.Flags, Load: b.Load,
				Keys: batch.Column{Ptr: p.In[0]}, Vals: batch.Column{Ptr: p.In[1]}, Kinds: batch.Column{Ptr: p.In[2]},
				Out: batch.Column{Ptr: p.Out[0]}, OK: batch.Column{Ptr: p.Out[1]}, Counts: batch.Column{Ptr: p.Out[2]},
			}, q.Failed(), p.Lo)
		})
	// What has been run has been run, whatever has become of the context.
	failed, ferr := q.ReadFailed(context.WithoutCancel(ctx))
	return done, failed, errors.Join(err, ferr)
}
