package inorder

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// Engine is a [cpu.Engine] whose generations do not change once they are seen: lookups run beside
// changes, and a snapshot is a lease. A structure embeds it.
type Engine[K cpu.Key] struct {
	cpu.Engine
	Flip   K // turns keys into unsigned numbers in order, and back, by exclusive or
	Sorter cpu.Sorter[K]
}

// Caps implements [core.Engine]. A delete needs memory, as every change does.
func (e *Engine[K]) Caps() core.Caps {
	return core.Caps{ConcurrentReads: true, DeletesMayOverflow: true, Updates: true}
}

// Pin implements [core.Versioner]: a generation never changes.
func (e *Engine[K]) Pin(context.Context) (version uint64, err error) { return 0, nil }

// Unpin implements [core.Versioner].
func (e *Engine[K]) Unpin(context.Context, uint64) error { return nil }

// Whole implements Change of [core.Engine]: it applies all of a batch, or nothing. It calls ranges
// for a batch of ranges to delete, and change for operations on keys.
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

// Gone returns the spans of the pairs to delete. find locates the spans of some ranges on one core,
// in order and without overlaps. The batch's Counts receive the number of pairs of each range. A
// pair of several ranges counts for the first.
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
