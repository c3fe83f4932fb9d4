package gpu

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu/staging"
)

// resetHits submits zeroing the counter of keys found. Pieces that the ring runs later add to it.
func (c *Transfer) resetHits() error {
	s, err := c.Ring.Work()
	if err != nil {
		return err
	}
	return s.Fill(c.Hits.Ptr(), 0, 2)
}

// submitHits submits reading the counter of keys found, after a piece that covers the whole batch.
// Once the piece has arrived on the host, hitCount returns the counter.
func (c *Transfer) submitHits(p *staging.Piece) error {
	return p.Stream.CopyOutAsync(c.host[:8], c.Hits.Ptr())
}

func (c *Transfer) hitCount() int { return int(batch.View[uint64](c.host)[0]) }

// readHits waits for the work of all pieces, even if the context has ended, and returns the counter
// of keys found.
func (c *Transfer) readHits(ctx context.Context) (int, error) {
	s, err := c.Ring.Work()
	if err != nil {
		return 0, err
	}
	if err := s.CopyOut(context.WithoutCancel(ctx), c.host[:8], c.Hits.Ptr()); err != nil {
		return 0, err
	}
	return c.hitCount(), nil
}

// submitReport submits reading a table's counters and one word after the last piece of a batch.
// Once the batch has arrived, report returns them.
func (c *Transfer) submitReport(s *device.Stream, tally, word device.Ptr) error {
	return errors.Join(s.CopyOutAsync(c.host[:16], tally), s.CopyOutAsync(c.host[16:20], word))
}

// report returns the counters and the word that submitReport has read.
func (c *Transfer) report() (live, used uint64, word uint32) {
	counters := batch.View[uint64](c.host)
	return counters[0], counters[1], batch.View[uint32](c.host)[4]
}
