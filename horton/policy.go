package horton

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/core"
)

// policy is that of tables of buckets, and decides when deletes make lookups short
// again.
type policy struct {
	*bucket.Policy
	engine engine
	when   Reclaim
}

// reclaimShare is how many keys are deleted, of those that there are, before a pass
// reclaims what they have left: one in eight, so that with the usual buckets a pass
// reads about as many of them as the deletes since the last one have read.
const reclaimShare = 1.0 / 8

// Before is for [core.Policy]. After is not called behind batches on streams, so what
// those have deleted is reclaimed before the next that inserts.
func (p *policy) Before(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	if s != nil {
		if err := p.maybeReclaim(ctx, now); err != nil {
			return 0, false, err
		}
	}
	return p.Policy.Before(ctx, now, s, b)
}

// After is for [core.Policy].
func (p *policy) After(ctx context.Context, now core.Counters, delta int) error {
	if err := p.Policy.After(ctx, now, delta); err != nil {
		return err
	}
	return p.maybeReclaim(ctx, now)
}

// maybeReclaim reclaims what deletes have left, if it pays.
func (p *policy) maybeReclaim(ctx context.Context, now core.Counters) error {
	if p.when == Never || !p.pays(now) {
		return nil
	}
	// Not all operations that delete find their keys: what is known of them is by now a
	// bound, which counting keys lowers.
	now, err := p.engine.Counters(ctx)
	if err != nil || !p.pays(now) {
		return err
	}
	done, err := p.engine.reclaim(ctx)
	if done {
		p.Logger.Debug(name+": reclaim", "keys", now.Live)
	}
	return err
}

// pays reports whether so many keys may have been deleted that a pass pays.
func (p *policy) pays(now core.Counters) bool {
	n := p.engine.deleted()
	return n > 0 && float64(n) >= float64(now.Live)*reclaimShare
}
