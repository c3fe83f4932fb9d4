package slab

import (
	"context"
	"structs"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

// Ref is a map, a set or a multimap as a parameter of user kernels. Its twins are weft::slab::Ref
// and weft::slab::MultiRef in kernels/include/weft/slab.cuh, which kernels take by value.
// [Map.View] and [Map.Update] make it. Its fields are private to those headers.
type Ref struct {
	_     structs.HostLayout
	Table tableRef
	Terms gpu.Terms
}

// Reducing returns a Ref for launches that neither put nor erase. Inserted keys stay, so one atomic
// combines a value instead of a compare-and-swap of key and value. put and erase do nothing there.
// The launches of an Update may use both kinds of Ref one after the other, but not concurrently.
func (r Ref) Reducing() Ref {
	r.Terms = r.Terms.ReduceTerms()
	return r
}

// View calls submit with a Ref from which kernels read, to be launched on a stream. The memory of
// the table stays valid until those launches are done, not just until View returns. The Ref is
// valid only for the launches that submit makes.
//
// The kernels see what a lookup submitted to the stream sees: the changes submitted there before,
// and those that events or waits order before. They may run alongside later changes.
//
// submit launches and returns. It must not call methods of this table, which may wait for its end.
// Views and Updates of other tables may be nested in it, if the program always nests them in the
// same order.
//
// A change by that Ref is refused, and Sync reports it as weft.ErrFull. On a CPU, View returns
// device.ErrNoKernels. View returns the error of submit.
func (t *table) View(ctx context.Context, s *device.Stream, submit func(Ref) error) error {
	return t.core.View(ctx, s, func(p core.Parts) error {
		return submit(t.ref(refOf(p), t.queue().ReadTerms()))
	})
}

// Update calls submit with a Ref by which kernels may insert up to maxInserts absent keys, or pairs
// of a multimap. They may put, combine and erase others without limit. The kernels are launched on
// a stream. The table has free slots for maxInserts before submit is called. Insertions beyond it
// do nothing, and Sync reports them as weft.ErrFull.
//
// Update is ordered among changes like a change on the stream: after those called or submitted
// before, ahead of those after, whatever their streams. Within it, the kernels order themselves.
// Their changes are counted when they are done, even if submit returns an error, which Update
// returns. As in View, submit must not call methods of this table, including Sync, Check and Stats,
// which wait for its end.
//
// On a CPU, Update returns device.ErrNoKernels.
func (t *table) Update(ctx context.Context, s *device.Stream, maxInserts int, submit func(Ref) error) error {
	return t.core.Update(ctx, s, maxInserts, func(p core.Parts) error {
		ref := refOf(p)
		// No retries: the search must not miss a free unit.
		ref.alloc = p.(*generation).units.Ref(true)
		return submit(t.ref(ref, t.queue().ChangeTerms(maxInserts)))
	})
}

// queue returns the queue of the engine. The core has checked that the engine runs on a GPU.
func (t *table) queue() *gpu.Queue { return &t.policy.engine.(*gpuEngine).Queue }

// ref returns the Ref of a table with terms.
func (t *table) ref(table tableRef, terms gpu.Terms) Ref {
	if t.policy.multi {
		terms.Mode |= gpu.IsMulti
	}
	return Ref{Table: table, Terms: terms}
}
