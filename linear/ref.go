package linear

import (
	"context"
	"structs"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

// Ref is the parameter through which users' kernels access a map or a set. Kernels take it by
// value. [Map.View] and [Map.Update] make it. In C++ it is the struct weft::linear::Ref of
// kernels/include/weft/linear.cuh. Only code in those headers uses the fields.
type Ref struct {
	_     structs.HostLayout
	Table tableRef
	Terms gpu.Terms
}

// Reducing returns a Ref for launches that neither put nor erase. In such launches put and erase
// have no effect. Since inserted keys stay, one atomic operation combines a value, instead of a
// compare-and-swap of key and value. Launches of one Update may use either Ref, but not both
// concurrently.
func (r Ref) Reducing() Ref {
	r.Terms = r.Terms.ReduceTerms()
	return r
}

// View calls submit with a Ref for kernels that read the table. submit launches them on s. The
// memory stays valid until these kernels end, even after View returns. The Ref must not be used in
// other launches.
//
// The kernels see the same changes as a lookup submitted to s: changes submitted to s before, and
// changes that events or waits order before. Later changes may run concurrently.
//
// submit launches kernels and returns. It must not call methods of this table, because they may
// wait until View has ended. It may nest Views and Updates of other tables, if the whole program
// nests them in the same order.
//
// A change through this Ref is rejected, and Sync reports it as weft.ErrFull. On a CPU, View
// returns device.ErrNoKernels. Otherwise View returns the error of submit.
func (t *table) View(ctx context.Context, s *device.Stream, submit func(Ref) error) error {
	return t.core.View(ctx, s, func(p core.Parts) error {
		k := t.kernels()
		return submit(k.ref(p, k.engine.ReadTerms()))
	})
}

// Update calls submit with a Ref for kernels that change the table. submit launches them on s. The
// kernels may insert up to maxInserts absent keys, and put, combine and erase other keys without
// limit. Before Update calls submit, it reserves capacity for maxInserts more keys. Further
// insertions do nothing, and Sync reports them as weft.ErrFull.
//
// All launches of an Update count as one change. It runs after all earlier changes and before all
// later ones, whatever streams these use. The kernels must synchronize among themselves. When they
// end, the counters of the table include their changes, even if submit has returned an error.
// Update returns that error. submit must not call methods of this table, including Sync, Check and
// Stats, because they wait until Update has ended.
//
// On a CPU, Update returns device.ErrNoKernels.
func (t *table) Update(ctx context.Context, s *device.Stream, maxInserts int, submit func(Ref) error) error {
	return t.core.Update(ctx, s, maxInserts, func(p core.Parts) error {
		k := t.kernels()
		return submit(k.ref(p, k.engine.ChangeTerms(maxInserts)))
	})
}

// kernels returns the kernels of the engine. The core has checked that the engine runs on a GPU.
func (t *table) kernels() *kernels { return &t.policy.engine.(*gpuEngine).kernel }

// ref returns a Ref to a generation. It also sets in terms whether tiles work in the cache and read
// whole lines.
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
