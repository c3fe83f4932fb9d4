package btree

import (
	"context"
	"structs"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

// Ref is a map without versions as kernels of users see it. It is the twin of weft::btree::Ref in
// kernels/include/weft/btree.cuh, and kernels take it by value as a parameter. [Map.View] and
// [Map.Update] make it. Its fields are for those headers only.
type Ref struct {
	_     structs.HostLayout
	Tree  treeRef
	Past  pastRef
	Terms gpu.Terms
}

// VersionedRef is a Ref of a map with versions: the twin of weft::btree::VersionedRef.
type VersionedRef Ref

// Versioned returns the Ref of a map with versions as a VersionedRef.
func (r Ref) Versioned() VersionedRef { return VersionedRef(r) }

// Bits of a mode (twins: btree.cuh).
const (
	hasVersions = 1 << 6
	maySnapshot = 1 << 7
)

// View calls submit with a Ref from which kernels read. submit launches them on a stream. The
// memory of the Ref is kept until they are done, not only until View returns. The Ref is valid
// only for what submit submits.
//
// The kernels see what a lookup submitted to the stream sees: the changes submitted there before,
// and those ordered before it by events or waits. They may run alongside later changes. With
// [OutOfPlace] they may take snapshots then. The first View or Update of a map with [InPlace] waits
// for the changes before it, and allocates memory for versions.
//
// submit launches kernels and returns. It calls no method of this map, since that may wait for
// submit to end. Views and Updates of other tables may be nested in it, in one order throughout the
// program.
//
// A change through this Ref is refused, and Sync reports it as weft.ErrFull. On a CPU, View returns
// device.ErrNoKernels. View returns an error of submit.
func (t *table) View(ctx context.Context, s *device.Stream, submit func(Ref) error) error {
	if err := t.requireVersions(ctx, "View"); err != nil {
		return err
	}
	return t.core.View(ctx, s, func(p core.Parts) error { return submit(t.gpu().viewRef(p.(*tree))) })
}

// Update calls submit with a Ref through which kernels insert up to maxInserts absent keys, and
// put, combine and erase others freely. submit launches them on a stream. The map reserves capacity
// for maxInserts before submit is called. Insertions beyond that do nothing, and Sync reports them
// as weft.ErrFull. It also reports changes that find no node to keep old content of a leaf while a
// snapshot is held.
//
// An update is ordered like a change of the stream: after those called or submitted before, and
// before later ones, whatever their streams. Within it, the kernels order themselves. Their changes
// are counted when they are done, even if submit returns an error, which Update returns. As in
// View, submit calls no method of this map. That includes Sync, Check and Stats, which wait for it
// to end.
//
// On a CPU, Update returns device.ErrNoKernels.
func (t *table) Update(ctx context.Context, s *device.Stream, maxInserts int, submit func(Ref) error) error {
	if err := t.requireVersions(ctx, "Update"); err != nil {
		return err
	}
	return t.core.Update(ctx, s, maxInserts, func(p core.Parts) error {
		return submit(t.gpu().updateRef(p.(*tree), maxInserts))
	})
}

// requireVersions makes trees with versions keep a past from now on, since kernels of users read
// it.
func (t *table) requireVersions(ctx context.Context, method string) error {
	e, ok := t.policy.engine.(*gpuEngine)
	if !ok || !e.isLazy() {
		return nil
	}
	return t.core.WithWriteLock(ctx, method, func(core.Counters) error {
		if err := e.activate(e.current()); err != nil {
			return err
		}
		e.needVersions.Store(true)
		return nil
	})
}

// gpu returns the engine. The core has checked that it is one on a GPU.
func (t *table) gpu() *gpuEngine { return t.policy.engine.(*gpuEngine) }

func (e *gpuEngine) viewRef(t *tree) Ref {
	r := Ref{Tree: e.refOf(t), Terms: e.ReadTerms()}
	if t.past != nil {
		e.submitMu.Lock()
		defer e.submitMu.Unlock()
		e.setPast(&r, t)
	}
	return r
}

// updateRef returns a Ref that changes the tree. The caller holds the writer lock.
func (e *gpuEngine) updateRef(t *tree, maxInserts int) Ref {
	r := Ref{Tree: e.refOf(t), Terms: e.ChangeTerms(maxInserts)}
	if t.past != nil {
		e.setPast(&r, t)
		r.Past.reserve, r.Past.pool = uint32(t.past.reserve), uint32(t.past.pool)
	}
	return r
}

func (e *gpuEngine) setPast(r *Ref, t *tree) {
	r.Past = e.pastRef(t)
	r.Terms.Mode |= hasVersions
	if e.versions == OutOfPlace {
		r.Terms.Mode |= maySnapshot
	}
}

// Update implements core.Updater.
func (e *gpuEngine) Update(s *device.Stream, n int, f func() error) error {
	e.submitMu.Lock()
	defer e.submitMu.Unlock()
	t := e.current()
	e.stale, t.order.nodes = true, 0
	t.past.markStale(e.versions == OutOfPlace)
	if t.past != nil {
		t.past.stale = true
		// The number is computed from the same nodes as in updateNodes below.
		t.past.reserve, t.past.pool = e.maxSplitNodes(n)+e.residentTiles(), e.poolNodes(t)
	}
	t.maxUsed = min(t.capacity(), t.maxUsed+e.updateNodes(n))
	return e.SubmitVisible(s, func() (err error) {
		defer func() { // even if f fails, what it has submitted is counted
			p := accountParams{control: t.buf.Ptr, account: e.Word(gpu.WordDropped)}
			if lerr := device.Launch(s, e.account, gpu.Grid(1), gpu.Block, &p); err == nil {
				err = lerr
			}
		}()
		return f()
	})
}

// updateNodes returns the number of nodes for an update that may insert n keys. The number of
// leaves that it copies is unknown. Retired nodes are reused unless a snapshot holds them, and
// blocks that find no node wait until the groups of others end.
func (e *gpuEngine) updateNodes(n int) int {
	t := e.current()
	total := e.maxSplitNodes(n)
	switch {
	case t.past == nil:
	case e.versions == OutOfPlace:
		total += e.poolNodes(t) + e.residentTiles()
	case len(t.past.held) > 0:
		total += t.maxUsed + n + e.residentTiles()
	}
	return total
}

// poolNodes returns the number of nodes for the copies of an update's kernels.
func (e *gpuEngine) poolNodes(t *tree) int { return max(e.minPool, t.maxUsed/copyShare) }

// residentTiles returns the maximum number of tiles of kernels at a time. A tile has at least four
// lanes.
func (e *gpuEngine) residentTiles() int { return max(1, e.Dev.Properties().Units) * threadsPerUnit / 4 }

// reserve allocates the nodes of an update, for Reserve.
func (e *gpuEngine) reserve(exact bool, n int) (bool, error) {
	t := e.current()
	if !exact && (e.mustCopy() || t.maxUsed+e.updateNodes(n)-e.cached.nFree() > t.capacity()) {
		return false, nil
	}
	if e.mustCopy() {
		if err := e.copyTree(); err != nil {
			return false, err
		}
	}
	return true, e.grow(e.current(), e.current().maxUsed+e.updateNodes(n))
}

// Reserve implements core.Reserver.
func (p *policy) Reserve(_ context.Context, now core.Counters, n int) (ok bool, err error) {
	return p.engine.(*gpuEngine).reserve(now.Exact, n)
}
