package btree

import (
	"context"
	"structs"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

// Ref is a map without versions as kernels of users see it: the twin of weft::btree::Ref in
// kernels/include/weft/btree.cuh, which they take by value in their parameters. [Map.View] and [Map.Update] make it. Its
// fields are those headers' concern.
type Ref struct {
	_     structs.HostLayout
	Tree  treeRef
	Past  pastRef
	Terms gpu.Terms
}

// VersionedRef is a Ref of a map with versions: the twin of weft::btree::VersionedRef.
type VersionedRef Ref

// Versioned is the Ref of a map with versions, for the kernels that take such.
func (r Ref) Versioned() VersionedRef { return VersionedRef(r) }

// Bits of a mode (twins: btree.cuh).
const (
	hasVersions = 1 << 6
	maySnapshot = 1 << 7
)

// View gives submit a Ref from which kernels read, to be launched on a stream.
// The memory that it names stays until that is done, not just until View returns;
// the Ref is good for what submit submits and for nothing else.
//
// What the kernels see is what a lookup that is submitted to the stream sees: the
// changes submitted there before, and those that events or waits order before. They
// may run beside later changes: with [OutOfPlace] they may take snapshots then. The first
// View or Update of a map with [InPlace] waits for the changes before it, and takes memory for versions.
//
// submit launches and returns: it calls no method of this map, which may wait for
// its end. Views and Updates of other tables may be nested in it, in one order
// wherever a program nests them.
//
// A change by that Ref is refused, and reported as weft.ErrFull by Sync. On a CPU,
// View returns device.ErrNoKernels. An error of submit is returned.
func (t *table) View(ctx context.Context, s *device.Stream, submit func(Ref) error) error {
	if err := t.refer(ctx, "View"); err != nil {
		return err
	}
	return t.core.View(ctx, s, func(p core.Parts) error { return submit(t.kernels().viewRef(p.(*tree))) })
}

// Update gives submit a Ref by which kernels insert up to maxInserts keys that are
// absent, and put, combine and erase others as they like, to be launched on a stream.
// The map has room for so many before submit is called. Insertions beyond do
// nothing, and Sync reports them as weft.ErrFull; so are changes for which there is no node to keep
// what a leaf was, because a snapshot lasts.
//
// Among changes it comes as one of the stream does: behind those called or submitted
// before, ahead of those after, whatever their streams. Within it, the kernels order
// themselves. What they change is counted when they are done, also if submit
// returns an error, which Update returns. As in View, submit calls no method of this
// map: not Sync, Check or Stats either, which wait for its end.
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

// refer has trees with versions keep a past from now on, which kernels of users read.
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

// kernels is the engine, of which the core has made sure that it is one on a GPU.
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

// changingRef is for those who have their turn.
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

// Update is for [core.Updater].
func (e *gpuEngine) Update(s *device.Stream, n int, f func() error) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	t := e.now()
	e.stale, t.order.nodes = true, 0
	t.past.changed(e.versions == OutOfPlace)
	if t.past != nil {
		t.past.stale = true
		t.past.reserve, t.past.pool = e.need(n)+e.residentTiles(), e.poolOf(t) // of the same nodes as the need below
	}
	t.most = min(t.room(), t.most+e.updateNeed(n))
	return e.SubmitVisible(s, func() (err error) {
		defer func() { // also if f fails: what it has submitted is counted
			p := accountParams{control: t.buf.Ptr, account: e.Word(gpu.WordLost)}
			if lerr := device.Launch(s, e.account, gpu.Grid(1), gpu.Block, &p); err == nil {
				err = lerr
			}
		}()
		return f()
	})
}

// updateNeed is how many nodes an update takes that may insert n keys. How many leaves it copies nobody knows; what is
// retired is used again, unless somebody holds it: blocks that find no node wait until others' groups end.
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

// poolOf is how many nodes there are for the copies of an update's kernels.
func (e *gpuEngine) poolOf(t *tree) int { return max(e.pool, t.most/outsideShare) }

// residentTiles is how many tiles of kernels there are at a moment, at most: of four lanes or more.
func (e *gpuEngine) residentTiles() int { return max(1, e.Dev.Properties().Units) * threadsPerUnit / 4 }

// reserve is for the policy.
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

// Reserve is for [core.Reserver].
func (p *policy) Reserve(_ context.Context, now core.Counters, n int) (ok bool, err error) {
	return p.engine.(*gpuEngine).reserve(now.Exact, n)
}
