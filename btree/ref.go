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
	if err := t.refer(ctx, "View"); err != nil {
		return err
	}
	return t.core.View(ctx, s, func(p core.Parts) error { return submit(t.kernels().viewRef(p.(*tree))) })
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
	if err := t.refer(ctx, "Update"); err != nil {
		return err
	}
	return t.core.Update(ctx, s, maxInserts, func(p core.Parts) error {
		return submit(t.kernels().changingRef(p.(*tree), maxInserts))
	})
}

// refer makes trees with versions keep a past from now on, since kernels of users read it.
func (t *table) refer(ctx context.Context, method string) error {
	e, ok := t.policy.engine.(*gpuEngine)
	if !ok || !e.lazy() {
		return nil
	}
	return t.core.Alone(ctx, method, func(core.Counters) error {
		if err := e.wake(e.now()); err != nil {
			return err
		}
		e.refs.Store(true)
		return nil
	})
}

// kernels returns the engine. The core has checked that it is one on a GPU.
func (t *table) kernels() *gpuEngine { return t.policy.engine.(*gpuEngine) }

func (e *gpuEngine) viewRef(t *tree) Ref {
	r := Ref{Tree: e.refOf(t), Terms: e.View()}
	if t.past != nil {
		e.turn.Lock()
		defer e.turn.Unlock()
		e.withPast(&r, t)
	}
	return r
}

// changingRef returns a Ref that changes the tree. The caller holds the writer lock.
func (e *gpuEngine) changingRef(t *tree, maxInserts int) Ref {
	r := Ref{Tree: e.refOf(t), Terms: e.Changing(maxInserts)}
	if t.past != nil {
		e.withPast(&r, t)
		r.Past.reserve, r.Past.pool = uint32(t.past.reserve), uint32(t.past.pool)
	}
	return r
}

func (e *gpuEngine) withPast(r *Ref, t *tree) {
	r.Past = e.pastRef(t)
	r.Terms.Mode |= hasVersions
	if e.versions == OutOfPlace {
		r.Terms.Mode |= maySnapshot
	}
}

// Update implements core.Updater.
func (e *gpuEngine) Update(s *device.Stream, n int, f func() error) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	t := e.now()
	e.stale, t.order.nodes = true, 0
	t.past.changed(e.versions == OutOfPlace)
	if t.past != nil {
		t.past.stale = true
		// The need is computed from the same nodes as in updateNeed below.
		t.past.reserve, t.past.pool = e.need(n)+e.residentTiles(), e.poolOf(t)
	}
	t.most = min(t.room(), t.most+e.updateNeed(n))
	return e.SubmitVisible(s, func() (err error) {
		defer func() { // even if f fails, what it has submitted is counted
			p := accountParams{control: t.buf.Ptr, account: e.Word(gpu.WordLost)}
			if lerr := device.Launch(s, e.account, gpu.Grid(1), gpu.Block, &p); err == nil {
				err = lerr
			}
		}()
		return f()
	})
}

// updateNeed returns the number of nodes for an update that may insert n keys. The number of leaves
// that it copies is unknown. Retired nodes are reused unless a snapshot holds them, and blocks that
// find no node wait until the groups of others end.
func (e *gpuEngine) updateNeed(n int) int {
	t := e.now()
	need := e.need(n)
	switch {
	case t.past == nil:
	case e.versions == OutOfPlace:
		need += e.poolOf(t) + e.residentTiles()
	case len(t.past.held) > 0:
		need += t.most + n + e.residentTiles()
	}
	return need
}

// poolOf returns the number of nodes for the copies of an update's kernels.
func (e *gpuEngine) poolOf(t *tree) int { return max(e.pool, t.most/outsideShare) }

// residentTiles returns the maximum number of tiles of kernels at a time. A tile has at least four
// lanes.
func (e *gpuEngine) residentTiles() int { return max(1, e.Dev.Properties().Units) * threadsPerUnit / 4 }

// reserve allocates the nodes of an update, for Reserve.
func (e *gpuEngine) reserve(exact bool, n int) (bool, error) {
	t := e.now()
	if !exact && (e.parts() || t.most+e.updateNeed(n)-e.known.left() > t.room()) {
		return false, nil
	}
	if e.parts() {
		if err := e.part(); err != nil {
			return false, err
		}
	}
	return true, e.grow(e.now(), e.now().most+e.updateNeed(n))
}

// Reserve implements core.Reserver.
func (p *policy) Reserve(_ context.Context, now core.Counters, n int) (ok bool, err error) {
	return p.engine.(*gpuEngine).reserve(now.Exact, n)
}
