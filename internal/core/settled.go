package core

import (
	"context"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// ResolvingPolicy holds the policy methods shared by engines that sort batches and resolve the
// operations on each key before they touch a pair. For these engines the order of duplicates costs
// nothing. An engine without memory reports that for a whole piece, so no operation fails by
// itself. A policy embeds ResolvingPolicy.
type ResolvingPolicy struct{}

// Flags implements [Policy].
func (ResolvingPolicy) Flags(op.Kind) batch.Flags { return batch.Order }

// MixedFlags implements [Policy].
func (ResolvingPolicy) MixedFlags() batch.Flags { return 0 }

// Retry implements [Policy].
func (ResolvingPolicy) Retry(_ context.Context, _ Counters, failed *batch.Batch) (remaining []uint32, retryable bool, err error) {
	return AllRows(failed.N), false, nil
}
