package core

import (
	"context"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Settled is what policies have in common whose engines sort batches and settle the operations on each key before they touch a
// pair: the order of duplicates costs nothing, and where an engine has no memory it says so for a whole
// piece, so that no operation fails by itself. A policy embeds it.
type Settled struct{}

// Flags is for [Policy].
func (Settled) Flags(op.Kind) batch.Flags { return batch.Order }

// Mixed is for [Policy].
func (Settled) Mixed() batch.Flags { return 0 }

// Retry is for [Policy].
func (Settled) Retry(_ context.Context, _ Counters, failed *batch.Batch) (still []uint32, more bool, err error) {
	return All(failed.N), false, nil
}
