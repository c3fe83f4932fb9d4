package lsm

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

const (
	// maxRunOps is the maximum number of operations that become a run at a time.
	maxRunOps = 1 << 28
	// countSlack is the slack in entries, beyond twice the last count, before they are counted.
	countSlack = 1 << 20
	// deadBases is the number of dead entries, in units of the base and beyond the number of keys,
	// at which all levels are merged.
	deadBases = 4
)

// policy has little to decide, since a merge allocates the memory that it needs.
type policy struct {
	core.ResolvingPolicy
	engine engine
	base   int
}

// Prepare implements core.Policy. Batches on the device with an unknown outcome allocate memory for
// all entries that may exist. Before reports 0 to have them counted when that may be more than
// twice the last count.
func (p *policy) Prepare(_ context.Context, now core.Counters, _ *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	if maxUsed, counted := p.engine.bound(); !now.Exact && maxUsed > 2*counted+countSlack {
		return 0, false, nil
	}
	return min(b.N, maxRunOps), false, nil
}

// Trim implements core.Policy. It merges all levels when most entries are dead.
func (p *policy) Trim(_ context.Context, now core.Counters, _ int) error {
	if now.Exact && now.Used-now.Live > now.Live+uint64(deadBases*p.base) {
		return p.engine.cleanup()
	}
	return nil
}

// Compact implements core.Policy.
func (p *policy) Compact(context.Context, core.Counters) error {
	if err := p.engine.cleanup(); err != nil {
		return err
	}
	return p.engine.trim()
}

// Describe implements core.Policy.
func (p *policy) Describe() string {
	used, _ := p.engine.bytes()
	return fmt.Sprintf("in %d bytes", used)
}
