package lsm

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

const (
	// maxRunOps is the maximum number of operations that become one run.
	maxRunOps = 1 << 28
	// countSlack is a number of entries. The entries of a tree are counted if the upper bound on
	// their number exceeds twice the last count by more than countSlack.
	countSlack = 1 << 20
	// deadBases bounds dead entries. All levels are merged if there are more dead entries than
	// keys, by more than deadBases times the capacity of the newest level.
	deadBases = 4
)

// policy decides when entries are counted and when all levels are merged. A merge allocates the
// memory that it needs.
type policy struct {
	core.ResolvingPolicy
	engine engine
	base   int
}

// Prepare implements core.Policy. If the outcomes of earlier batches are unknown, a batch allocates
// memory for all entries that may exist. If that may be more than twice the last count, Prepare
// returns 0, so that the entries are counted first.
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
