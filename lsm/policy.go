package lsm

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

const (
	// runOps is the number of operations that become a run at a time, at most.
	runOps = 1 << 28
	// uncounted is how many entries there may be beyond those.
	uncounted = 1 << 20
	// deadBases is how many times the base there may be entries that are in vain before all
	// levels are merged, beside as many as there are keys.
	deadBases = 4
)

// policy has little to decide: a merge takes the memory that it needs.
type policy struct {
	core.Settled
	engine engine
	base   int
}

// Before is for [core.Policy]. Batches on the device whose outcome nobody knows yet take
// memory for as many entries as there may be: not for more than twice as many as there were.
func (p *policy) Before(_ context.Context, now core.Counters, _ *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	if most, counted := p.engine.bound(); !now.Exact && most > 2*counted+uncounted {
		return 0, false, nil
	}
	return min(b.N, runOps), false, nil
}

// After is for [core.Policy]: where most entries are in vain, all levels are merged.
func (p *policy) After(_ context.Context, now core.Counters, _ int) error {
	if now.Exact && now.Used-now.Live > now.Live+uint64(deadBases*p.base) {
		return p.engine.cleanup()
	}
	return nil
}

// Compact is for [core.Policy].
func (p *policy) Compact(context.Context, core.Counters) error {
	if err := p.engine.cleanup(); err != nil {
		return err
	}
	return p.engine.trim()
}

// Describe is for [core.Policy].
func (p *policy) Describe() string {
	used, _ := p.engine.bytes()
	return fmt.Sprintf("in %d bytes", used)
}
