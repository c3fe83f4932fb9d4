package gpu

import (
	"errors"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/staging"
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
