package sorted

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// mergeOps is the maximum number of operations to merge at a time.
const mergeOps = 1 << 28

// uncounted is the slack in pairs, beyond twice the last count, before they are counted.
const uncounted = 1 << 20

// policy has little to decide, since a merge allocates the memory that it needs.
type policy struct {
	core.Settled
	engine engine
}

// Before implements core.Policy. Batches on the device with an unknown outcome allocate memory for
// all pairs that may exist. Before reports 0 to have them counted when that may be more than twice
// the last count.
func (p *policy) Before(_ context.Context, now core.Counters, _ *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	if most, counted := p.engine.bound(); !now.Exact && most > 2*counted+uncounted {
		return 0, false, nil
	}
	return min(b.N, mergeOps), false, nil
}

// After implements core.Policy.
func (p *policy) After(context.Context, core.Counters, int) error { return nil }

// Compact implements core.Policy.
func (p *policy) Compact(context.Context, core.Counters) error { return p.engine.trim() }

// Describe implements core.Policy.
func (p *policy) Describe() string {
	used, _ := p.engine.bytes()
	return fmt.Sprintf("in %d bytes", used)
}
