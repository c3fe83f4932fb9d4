package inorder

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// Engine is a [cpu.Engine] for generations that do not change once readers can see them. So lookups
// run alongside changes, and a snapshot only needs a lease. Structures embed an Engine.
type Engine[K cpu.Key] struct {
	cpu.Engine
	Flip   K // keys xor Flip, as unsigned numbers, have the order of the keys
	Sorter cpu.Sorter[K]
}

// Caps implements [core.Engine]. Deletes may overflow, since every change allocates memory.
func (e *Engine[K]) Caps() core.Caps {
	return core.Caps{ConcurrentReads: true, DeletesMayOverflow: true, Updates: true}
}

// Pin implements [core.Versioner]. It does nothing, since a generation never changes.
func (e *Engine[K]) Pin(context.Context) (version uint64, err error) { return 0, nil }

// Unpin implements [core.Versioner].
func (e *Engine[K]) Unpin(context.Context, uint64) error { return nil }

// Whole implements the method Change of [core.Engine] for an engine that applies a batch as a whole
// or not at all. It calls ranges if the batch deletes ranges, and otherwise change.
func (e *Engine[K]) Whole(ctx context.Context, s *device.Stream, b *batch.Batch, ranges, change func(context.Context, *batch.Batch) error) (done int, failed []uint32, err error) {
	if err := cpu.SyncStream(s); err != nil || b.N == 0 {
		return 0, nil, err
	}
	if b.Kind == op.DeleteRange && !b.Columns[batch.Kinds].Given() {
		change = ranges
	}
	if err := change(ctx, b); err != nil {
		return 0, nil, err
	}
	return b.N, nil, nil
}

// Gone returns the spans of the pairs that a batch deletes by key ranges. find runs on one core:
// for each key range with an index in [from,to), it stores the span of the pairs. The result is in
// order and without overlaps. Gone also stores the number of pairs in each key range in the batch's
// Counts. A pair in several key ranges counts for the first one.
func (e *Engine[K]) Gone(ctx context.Context, b *batch.Batch, find func(w *cpu.Watch, from, to int, spans []core.Span) (ran, hits int)) ([]core.Span, error) {
	spans := make([]core.Span, b.N)
	done, _, err := e.RunLookup(ctx, b.N, func(w *cpu.Watch, from, to int) (ran, hits int) { return find(w, from, to, spans) })
	if done < b.N {
		return nil, err
	}
	gone, counts := core.AssignRanges(spans)
	copy(batch.View[uint32](b.Columns[batch.Counts].Host), counts)
	return gone, nil
}
