package core

import (
	"context"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// ResolvingPolicy holds the policy methods of engines that sort each batch and resolve the
// operations on a key before they access its pair. In such engines, resolving duplicates in batch
// order costs nothing. If memory is short, a whole piece of the batch fails, so no single operation
// overflows. Policies embed ResolvingPolicy.
type ResolvingPolicy struct{}

// Flags implements [Policy].
func (ResolvingPolicy) Flags(op.Kind) batch.Flags { return batch.Order }

// MixedFlags implements [Policy].
func (ResolvingPolicy) MixedFlags() batch.Flags { return 0 }

// Retry implements [Policy].
func (ResolvingPolicy) Retry(_ context.Context, _ Counters, failed *batch.Batch) (remaining []uint32, retryable bool, err error) {
	return AllRows(failed.N), false, nil
}
