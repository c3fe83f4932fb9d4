package gpu

import (
	"context"

	"github.com/weftgo/weft/internal/batch"
)

// Reset submits setting the counter to zero, before the work of all pieces that
// the ring runs next.
func (c *Carrier) Reset() error {
	s, err := c.Ring.Work()
	if err != nil {
		return err
	}
	return s.Fill(c.Hits.Ptr(), 0, countBytes/4)
}

// Count waits for the work of all pieces, whatever becomes of the context, and
// reads the counter.
func (c *Carrier) Count(ctx context.Context) (int, error) {
	s, err := c.Ring.Work()
	if err != nil {
		return 0, err
	}
	if err := s.CopyOut(context.WithoutCancel(ctx), c.host, c.Hits.Ptr()); err != nil {
		return 0, err
	}
	return int(batch.View[uint64](c.host)[0]), nil
}
