package gpu

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu/staging"
)

// reset submits zeroing the counter, before the work of all pieces that the ring runs next.
func (c *Carrier) reset() error {
	s, err := c.Ring.Work()
	if err != nil {
		return err
	}
	return s.Fill(c.Hits.Ptr(), 0, 2)
}

// bring submits reading the counter after a piece that is the whole batch. counted returns it when
// the batch has arrived.
func (c *Carrier) bring(p *staging.Piece) error {
	return p.Stream.CopyOutAsync(c.host[:8], c.Hits.Ptr())
}

// counted returns the counter that bring has read.
func (c *Carrier) counted() int { return int(batch.View[uint64](c.host)[0]) }

// count waits for the work of all pieces, even if the context has ended, and reads the counter.
func (c *Carrier) count(ctx context.Context) (int, error) {
	s, err := c.Ring.Work()
	if err != nil {
		return 0, err
	}
	if err := s.CopyOut(context.WithoutCancel(ctx), c.host[:8], c.Hits.Ptr()); err != nil {
		return 0, err
	}
	return c.counted(), nil
}

// bringReport submits reading the counters of a table, and a word, after the work of a batch's last
// piece. report returns them when the batch has arrived.
func (c *Carrier) bringReport(s *device.Stream, tally, word device.Ptr) error {
	return errors.Join(s.CopyOutAsync(c.host[:16], tally), s.CopyOutAsync(c.host[16:20], word))
}

// report returns what bringReport has read.
func (c *Carrier) report() (live, used uint64, word uint32) {
	counters := batch.View[uint64](c.host)
	return counters[0], counters[1], batch.View[uint32](c.host)[4]
}
