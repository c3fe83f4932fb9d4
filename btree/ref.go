package btree

import (
	"context"
	"structs"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

// Ref is the kernel parameter with which users' kernels access a map without versions. [Map.View]
// and [Map.Update] make it. Kernels take it by value. It matches weft::btree::Ref in
// kernels/include/weft/btree.cuh, and only the headers there use its fields.
type Ref struct {
	_     structs.HostLayout
	Tree  treeRef
	Past  pastRef
	Terms gpu.Terms
}

// VersionedRef is the kernel parameter for a map with versions. It matches
// weft::btree::VersionedRef.
type VersionedRef Ref

// Versioned converts r, which must be the Ref of a map with versions.
func (r Ref) Versioned() VersionedRef { return VersionedRef(r) }

// Bits of gpu.Terms.Mode, as in btree.cuh.
const (
	hasVersions = 1 << 6
	maySnapshot = 1 << 7
)

// View calls submit with a Ref that kernels can read. submit launches the kernels on a stream. Only
// work that submit submits may use the Ref. The memory that the Ref refers to is kept until that
// work is done, even after View has returned.
//
// The kernels see the same pairs as a lookup submitted to the stream: the changes submitted to the
// stream before, and changes ordered before it by events or waits. They may run alongside later
// changes. With [OutOfPlace] they may then take snapshots. With [InPlace], the first View or Update
// of a map waits for earlier changes and allocates memory for versions.
//
// submit must not call methods of this map, since they may wait for submit to end. It may call View
// and Update of other tables, in one order throughout the program.
//
// A kernel's change through this Ref does nothing, and Sync reports it as weft.ErrFull. On a CPU,
// View returns device.ErrNoKernels. If submit returns an error, View returns it.
func (t *table) View(ctx context.Context, s *device.Stream, submit func(Ref) error) error {
	if err := t.requireVersions(ctx, "View"); err != nil {
		return err
	}
	return t.core.View(ctx, s, func(p core.Parts) error { return submit(t.gpu().viewRef(p.(*tree))) })
}

// Update calls submit with a Ref with which kernels can change the map. They may insert up to
// maxInserts absent keys, and put, combine and erase other keys without a limit. submit launches
// the kernels on a stream. Update reserves capacity for maxInserts before it calls submit.
// Insertions beyond that do nothing, and Sync reports them as weft.ErrFull. While a snapshot is
// held, a change that finds no node for the old content of a leaf also does nothing and is reported
// so.
//
// An update is ordered like a change: after all changes called or submitted before, and before
// later ones, on any stream. The kernels of one update must order themselves. Their changes are
// counted when they are done, even if submit returns an error, which Update returns. As in View,
// submit must not call methods of this map. Sync, Check and Stats wait for submit to end, too.
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

// requireVersions makes trees always have a past from now on, since kernels of users read it.
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

// gpu returns the engine. The core has checked that the map is on a GPU.
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

// updateRef returns a Ref with which kernels can change the tree. The caller holds the writer lock.
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
		// Both numbers must match those in updateNodes below.
		t.past.reserve, t.past.pool = e.maxSplitNodes(n)+e.residentTiles(), e.poolNodes(t)
	}
	t.maxUsed = min(t.capacity(), t.maxUsed+e.updateNodes(n))
	return e.SubmitVisible(s, func() (err error) {
		defer func() { // count what f has submitted, even if f fails
			p := accountParams{control: t.buf.Ptr, account: e.Word(gpu.WordDropped)}
			if lerr := device.Launch(s, e.account, gpu.Grid(1), gpu.Block, &p); err == nil {
				err = lerr
			}
		}()
		return f()
	})
}

// updateNodes returns the number of nodes to allocate for an update that may insert n keys. The
// number of leaves that it copies is unknown. Retired nodes are reused unless a snapshot holds
// them, and blocks that find no node wait until the groups of other blocks end.
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

// poolNodes returns the number of nodes that an update's kernels may use for copies.
func (e *gpuEngine) poolNodes(t *tree) int { return max(e.minPool, t.maxUsed/copyShare) }

// residentTiles returns the maximum number of tiles that run at the same time. A tile has at least
// four lanes.
func (e *gpuEngine) residentTiles() int { return max(1, e.Dev.Properties().Units) * threadsPerUnit / 4 }

// reserve allocates the nodes of an update with n insertions. It returns false if exact counters
// are needed first.
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
