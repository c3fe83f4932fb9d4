package slab

import (
	"context"
	"structs"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

// Ref is a kernel parameter that refers to a map, a set or a multimap. [Map.View] and [Map.Update]
// make it. User kernels take it by value as weft::slab::Ref or weft::slab::MultiRef
// (kernels/include/weft/slab.cuh). Its fields are private to those headers.
type Ref struct {
	_     structs.HostLayout
	Table tableRef
	Terms gpu.Terms
}

// Reducing returns a Ref for launches that neither put nor erase: put and erase do nothing there.
// No key is then replaced, so combining a value takes one atomic operation on the value instead of
// a compare-and-swap of key and value. Launches of one Update may use both kinds of Ref one after
// the other, but not concurrently.
func (r Ref) Reducing() Ref {
	r.Terms = r.Terms.ReduceTerms()
	return r
}

// View calls submit with a Ref that kernels on stream s can read. The memory of the table stays
// valid until the launches that submit makes are done. The Ref is valid only for these launches.
//
// The kernels see what a lookup submitted to s sees: the changes submitted there before, and those
// that events or waits order before. The kernels may run alongside later changes.
//
// submit launches kernels and returns. It must not call methods of this table, which may wait for
// the end of View. It may call View and Update of other tables, always nested in the same order.
//
// A change by the Ref is refused, and Sync reports it as weft.ErrFull. On a CPU, View returns
// device.ErrNoKernels. Otherwise it returns the error of submit.
func (t *table) View(ctx context.Context, s *device.Stream, submit func(Ref) error) error {
	return t.core.View(ctx, s, func(p core.Parts) error {
		return submit(t.ref(refOf(p), t.queue().ReadTerms()))
	})
}

// Update calls submit with a Ref that kernels on stream s can change. They may insert at most
// maxInserts absent keys, or pairs of a multimap. They may put, combine and erase present keys
// without limit. The table has free slots for maxInserts before submit is called. Insertions beyond
// maxInserts do nothing, and Sync reports them as weft.ErrFull.
//
// Update is ordered among changes like a change on the stream: after changes called or submitted
// before, and before later changes, on any stream. The kernels must order their own operations.
// Their changes are counted when they are done, even if submit returns an error, which Update
// returns. As in View, submit must not call methods of this table, including Sync, Check and Stats,
// which wait for the end of Update.
//
// On a CPU, Update returns device.ErrNoKernels.
func (t *table) Update(ctx context.Context, s *device.Stream, maxInserts int, submit func(Ref) error) error {
	return t.core.Update(ctx, s, maxInserts, func(p core.Parts) error {
		ref := refOf(p)
		// Operations are not retried, so the allocator must find any free unit.
		ref.alloc = p.(*generation).units.Ref(true)
		return submit(t.ref(ref, t.queue().ChangeTerms(maxInserts)))
	})
}

// queue returns the queue of the engine. The core has checked that the engine runs on a GPU.
func (t *table) queue() *gpu.Queue { return &t.policy.engine.(*gpuEngine).Queue }

// ref returns the Ref that consists of a table and terms.
func (t *table) ref(table tableRef, terms gpu.Terms) Ref {
	if t.policy.multi {
		terms.Mode |= gpu.IsMulti
	}
	return Ref{Table: table, Terms: terms}
}
