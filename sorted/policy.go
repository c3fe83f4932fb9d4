package sorted

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// maxMergeOps is the maximum number of operations to merge at a time.
const maxMergeOps = 1 << 28

// countSlack is a number of pairs. The pairs of a map are counted if the upper bound on their
// number exceeds twice the last count by more than countSlack.
const countSlack = 1 << 20

// policy decides when pairs are counted. A merge allocates the memory that it needs.
type policy struct {
	core.ResolvingPolicy
	engine engine
}

// Prepare implements core.Policy. If the outcomes of earlier batches are unknown, a batch allocates
// memory for all pairs that may exist. If that may be more than twice the last count, Prepare
// returns 0, so that the pairs are counted first.
func (p *policy) Prepare(_ context.Context, now core.Counters, _ *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	if maxPairs, counted := p.engine.bound(); !now.Exact && maxPairs > 2*counted+countSlack {
		return 0, false, nil
	}
	return min(b.N, maxMergeOps), false, nil
}

// Trim implements core.Policy.
func (p *policy) Trim(context.Context, core.Counters, int) error { return nil }

// Compact implements core.Policy.
func (p *policy) Compact(context.Context, core.Counters) error { return p.engine.trim() }

// Describe implements core.Policy.
func (p *policy) Describe() string {
	used, _ := p.engine.bytes()
	return fmt.Sprintf("in %d bytes", used)
}
