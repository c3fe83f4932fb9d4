package sorted

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// mergeOps is the number of operations that are merged at a time, at most.
const mergeOps = 1 << 28

// uncounted is how many pairs there may be beyond those.
const uncounted = 1 << 20

// policy has little to decide: a merge takes the memory that it needs.
type policy struct {
	core.Settled
	engine engine
}

// Before is for [core.Policy]. Batches on the device whose outcome nobody knows yet take
// memory for as many pairs as there may be: not for more than twice as many as there were.
func (p *policy) Before(_ context.Context, now core.Counters, _ *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	if most, counted := p.engine.bound(); !now.Exact && most > 2*counted+uncounted {
		return 0, false, nil
	}
	return min(b.N, mergeOps), false, nil
}

// After is for [core.Policy].
func (p *policy) After(context.Context, core.Counters, int) error { return nil }

// Compact is for [core.Policy].
func (p *policy) Compact(context.Context, core.Counters) error { return p.engine.trim() }

// Describe is for [core.Policy].
func (p *policy) Describe() string {
	used, _ := p.engine.bytes()
	return fmt.Sprintf("in %d bytes", used)
}
