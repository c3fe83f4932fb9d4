package slab

import (
	"context"
	"structs"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

// Ref is a map, a set or a multimap as kernels of users see it: the twin of
// weft::slab::Ref and weft::slab::MultiRef in kernels/include/weft/slab.cuh, which
// they take by value in their parameters. [Map.View] and [Map.Update] make it. Its
// fields are those headers' concern.
type Ref struct {
	_     structs.HostLayout
	Table tableRef
	Terms gpu.Terms
}

// Reducing is a Ref for launches that neither put nor erase: keys that are inserted
// stay, so a value is combined by one atomic instead of a compare-and-swap of key and
// value. put and erase do nothing there. Launches of an Update may have one or the
// other, one after the other, not both beside each other.
func (r Ref) Reducing() Ref {
	r.Terms = r.Terms.Reducing()
	return r
}

// View gives submit a Ref from which kernels read, to be launched on a stream.
// The memory that it names stays until that is done, not just until View returns;
// the Ref is good for what submit submits and for nothing else.
//
// What the kernels see is what a lookup that is submitted to the stream sees: the
// changes submitted there before, and those that events or waits order before. They
// may run beside later changes.
//
// submit launches and returns: it calls no method of this table, which may wait for
// its end. Views and Updates of other tables may be nested in it, in one order
// wherever a program nests them.
//
// A change by that Ref is refused, and reported as weft.ErrFull by Sync. On a CPU,
// View returns device.ErrNoKernels. An error of submit is returned.
func (t *table) View(ctx context.Context, s *device.Stream, submit func(Ref) error) error {
	return t.core.View(ctx, s, func(p core.Parts) error {
		return submit(t.ref(refOf(p), t.queue().View()))
	})
}

// Update gives submit a Ref by which kernels insert up to maxInserts keys that are
// absent, or pairs of a multimap, and put, combine and erase others as they like, to
// be launched on a stream. The table has room for so many before submit is called.
// Insertions beyond do nothing, and Sync reports them as weft.ErrFull.
//
// Among changes it comes as one of the stream does: behind those called or submitted
// before, ahead of those after, whatever their streams. Within it, the kernels order
// themselves. What they change is counted when they are done, also if submit
// returns an error, which Update returns. As in View, submit calls no method of this
// table: not Sync, Check or Stats either, which wait for its end.
//
// On a CPU, Update returns device.ErrNoKernels.
func (t *table) Update(ctx context.Context, s *device.Stream, maxInserts int, submit func(Ref) error) error {
	return t.core.Update(ctx, s, maxInserts, func(p core.Parts) error {
		ref := refOf(p)
		ref.alloc = p.(*generation).units.Ref(true) // nothing runs again: no free unit may be missed
		return submit(t.ref(ref, t.queue().Changing(maxInserts)))
	})
}

// queue is that of the engine, of which the core has made sure that it is one on a
// GPU.
func (t *table) queue() *gpu.Queue { return &t.policy.engine.(*gpuEngine).Queue }

// ref is a table on terms.
func (t *table) ref(table tableRef, terms gpu.Terms) Ref {
	if t.policy.multi {
		terms.Mode |= gpu.IsMulti
	}
	return Ref{Table: table, Terms: terms}
}
