package core

import (
	"context"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Settled holds the policy methods shared by engines that sort batches and resolve the operations
// on each key before they touch a pair. For these engines the order of duplicates costs nothing. An
// engine without memory reports that for a whole piece, so no operation fails by itself. A policy
// embeds Settled.
type Settled struct{}

// Flags implements [Policy].
func (Settled) Flags(op.Kind) batch.Flags { return batch.Order }

// Mixed implements [Policy].
func (Settled) Mixed() batch.Flags { return 0 }

// Retry implements [Policy].
func (Settled) Retry(_ context.Context, _ Counters, failed *batch.Batch) (still []uint32, more bool, err error) {
	return All(failed.N), false, nil
}
