package linear

import (
	"context"
	"structs"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

// Ref is a map or a set as users' kernels see it: the twin of weft::linear::Ref in
// kernels/include/weft/linear.cuh. Kernels take it by value in their parameters. [Map.View] and
// [Map.Update] make it. Only those headers use its fields.
type Ref struct {
	_     structs.HostLayout
	Table tableRef
	Terms gpu.Terms
}

// Reducing returns a Ref for launches that neither put nor erase; put and erase do nothing there.
// Inserted keys stay, so one atomic combines a value instead of a compare-and-swap of key and
// value. Launches of an Update may use one Ref and then the other, but not both concurrently.
func (r Ref) Reducing() Ref {
	r.Terms = r.Terms.ReduceTerms()
	return r
}

// View calls submit with a Ref from which kernels read, to be launched on a stream. The memory
// stays valid until the kernels end, not just until View returns. The Ref is valid only for what
// submit submits.
//
// The kernels see what a lookup submitted to the stream sees: the changes submitted there before,
// and those that events or waits order before. They may run concurrently with later changes.
//
// submit launches kernels and returns. It must not call a method of this table, which may wait for
// its end. It may nest Views and Updates of other tables, if the program nests them in the same
// order everywhere.
//
// A change through that Ref is refused, and Sync reports it as weft.ErrFull. On a CPU, View returns
// device.ErrNoKernels. View returns the error of submit.
func (t *table) View(ctx context.Context, s *device.Stream, submit func(Ref) error) error {
	return t.core.View(ctx, s, func(p core.Parts) error {
		k := t.kernels()
		return submit(k.ref(p, k.engine.ReadTerms()))
	})
}

// Update calls submit with a Ref for kernels to be launched on a stream. They may insert up to
// maxInserts absent keys, and put, combine and erase others without limit. The table has capacity
// for maxInserts keys before submit is called. Insertions beyond that do nothing, and Sync reports
// them as weft.ErrFull.
//
// Update is ordered as one change of the stream: after those called or submitted before it, before
// later ones, on any stream. The kernels order themselves within it. Their changes are counted when
// they end, also if submit returns an error, which Update returns. As in View, submit must not call
// a method of this table. That includes Sync, Check and Stats, which wait for its end.
//
// On a CPU, Update returns device.ErrNoKernels.
func (t *table) Update(ctx context.Context, s *device.Stream, maxInserts int, submit func(Ref) error) error {
	return t.core.Update(ctx, s, maxInserts, func(p core.Parts) error {
		k := t.kernels()
		return submit(k.ref(p, k.engine.ChangeTerms(maxInserts)))
	})
}

// kernels returns the kernels of the engine. The core has checked that it runs on a GPU.
func (t *table) kernels() *kernels { return &t.policy.engine.(*gpuEngine).kernel }

// ref returns a Ref to a generation. It adds to terms how the tiles of a kernel read the table:
// from the cache, or in whole lines.
func (k *kernels) ref(p core.Parts, terms gpu.Terms) Ref {
	share, cached := k.loadFactor(p), k.cached(p)
	if cached {
		terms.Mode |= gpu.InCache
	}
	if cached || share > k.wideGet {
		terms.Mode |= gpu.WideFind
	}
	if cached || share > k.wideChange {
		terms.Mode |= gpu.WideChange
	}
	return Ref{Table: refOf(p), Terms: terms}
}
