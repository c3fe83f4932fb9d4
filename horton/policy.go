package horton

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/core"
)

// policy is a bucket.Policy that also decides when to reclaim after deletes.
type policy struct {
	*bucket.Policy
	engine      engine
	reclaimMode Reclaim
}

// reclaimShare is the share of keys that must be deleted before a pass reclaims the table. With one
// in eight and the default buckets, a pass reads about as many buckets as the deletes since the
// last pass.
const reclaimShare = 1.0 / 8

// Prepare implements [core.Policy]. The core does not call Trim for batches on streams. So Prepare
// reclaims after such deletes, before the next batch that inserts.
func (p *policy) Prepare(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	if s != nil {
		if err := p.maybeReclaim(ctx, now); err != nil {
			return 0, false, err
		}
	}
	return p.Policy.Prepare(ctx, now, s, b)
}

// Trim implements [core.Policy].
func (p *policy) Trim(ctx context.Context, now core.Counters, delta int) error {
	if err := p.Policy.Trim(ctx, now, delta); err != nil {
		return err
	}
	return p.maybeReclaim(ctx, now)
}

// maybeReclaim reclaims the table if enough keys have been deleted.
func (p *policy) maybeReclaim(ctx context.Context, now core.Counters) error {
	if p.reclaimMode == Never || !p.reclaimDue(now) {
		return nil
	}
	// The number of deleted keys is an upper bound, since some deletes find no key. Reading the
	// counters lowers it.
	now, err := p.engine.ReadCounters(ctx)
	if err != nil || !p.reclaimDue(now) {
		return err
	}
	done, err := p.engine.reclaim(ctx)
	if done {
		p.Logger.Debug(name+": reclaim", "keys", now.Live)
	}
	return err
}

// reclaimDue reports whether enough keys may have been deleted for a pass to be worthwhile.
func (p *policy) reclaimDue(now core.Counters) bool {
	n := p.engine.deleted()
	return n > 0 && float64(n) >= float64(now.Live)*reclaimShare
}
