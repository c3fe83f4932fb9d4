package ordered

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// A change runs in pieces. A piece is sorted. Then all cores run its operations leaf by leaf, and
// the resulting leaves make a new index. A piece can be canceled until its operations begin to run.
// All memory that a piece may need is allocated before it touches a leaf.

// Sizes of pieces and chunks. Tests make all of them smaller.
var (
	// piece is the number of operations of a piece. A few cores run them in some milliseconds, so a
	// canceled change ends soon.
	piece = 1 << 18

	// endlessPiece is the size of a piece if the context cannot end. A larger piece has more
	// operations per leaf.
	endlessPiece = 1 << 22

	// chunkLeaves is the maximum number of leaves of a chunk. A chunk has at most about chunkItems
	// operations.
	chunkLeaves = 1 << 9
	chunkItems  = 1 << 14
)

// Change implements core.Engine.
func (e *cpuEngine[K, V]) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if err := cpu.SyncStream(s); err != nil {
		return 0, nil, err
	}
	for done < b.N {
		if err := ctx.Err(); err != nil {
			return done, nil, err
		}
		n := min(piece, b.N-done)
		if e.forest().present.leaves == 0 {
			n = b.N - done // a bulk load can be canceled at any time
		} else if ctx.Done() == nil {
			n = min(endlessPiece, b.N-done)
		}
		part := b.Part(done, done+n)
		if b.Kind == op.DeleteRange && !b.Columns[batch.Kinds].Given() {
			n, err = e.deleteRanges(part)
		} else {
			err = e.change(ctx, part)
		}
		if err != nil {
			return done, nil, err
		}
		done += n
	}
	return done, nil, nil
}

// change runs a batch as one piece. After an error the piece has changed nothing.
func (e *cpuEngine[K, V]) change(ctx context.Context, b *batch.Batch) error {
	f := e.forest()
	if f.present.leaves == 0 {
		if loaded, err := e.loadAscending(ctx, b); loaded || err != nil {
			return err
		}
	}
	defer e.sorter.Trim()
	items, err := e.sorter.Sort(ctx, e.Device, batch.View[K](b.Columns[batch.Keys].Host), e.order)
	if err != nil {
		return err
	}
	chunks := f.chunks(items)
	ops, fetcher := cpu.ChangesOf[K, V](b), cpu.FetcherOf(b, items)
	ops.Updates = true
	e.Device.Parallel(len(chunks), 1, func(i, _ int) { f.plan(&chunks[i], items, &ops) })
	if err := f.prepare(chunks); err != nil {
		return err
	}
	fresh := f.present.leaves == 0
	e.Device.Parallel(len(chunks), 1, func(i, _ int) {
		if fresh && ctx.Err() != nil {
			return
		}
		m := e.merger()
		m.forest, m.Changes, m.index, m.items, m.fetcher = f, ops, f.present, items, fetcher
		m.run(&chunks[i])
		e.mergers.Put(m)
	})
	if fresh && ctx.Err() != nil {
		f.abandon(chunks)
		return ctx.Err()
	}
	return f.fold(e.Device, f.present, false, chunks)
}

func (e *cpuEngine[K, V]) merger() *merger[K, V] {
	if m, ok := e.mergers.Get().(*merger[K, V]); ok {
		return m
	}
	return &merger[K, V]{}
}

// plan computes how many leaves c may need in addition to its own, and lists the leaves of c that
// have operations.
func (f *forest[K, V]) plan(c *chunk[K], items []cpu.Item[K], ops *cpu.Changes[K, V]) {
	if c.a == c.b {
		c.maxExtra = f.leavesFor(c.hi - c.lo)
		return
	}
	c.visitLeaves(f.present, items, func(p int, items []cpu.Item[K]) {
		if len(items) > 0 {
			c.maxExtra += f.extraLeaves(p, c.cut, items, ops)
			c.touched = append(c.touched, f.present.ids[p])
		}
	})
}

// extraLeaves returns how many additional leaves the pairs of leaf p may need after its operations.
func (f *forest[K, V]) extraLeaves(p int, cut bool, items []cpu.Item[K], ops *cpu.Changes[K, V]) int {
	id, n := f.present.ids[p], int(f.present.sizes[p])
	reusable := 0
	if !cut && f.unshared(id) {
		reusable = 1
	}
	pairs := n + inserted(items, ops, nil)
	if pairs > leafPairs && !cut {
		l := f.at(id)
		pairs = n + inserted(items, ops, func(key K) bool { return l.upper(key, n) > l.lower(key, n) })
	}
	return max(f.leavesFor(pairs)-reusable, 0)
}

// inserted counts the keys that operations may insert. It does not count keys for which present
// returns true.
func inserted[K, V word](items []cpu.Item[K], ops *cpu.Changes[K, V], present func(K) bool) (n int) {
	counted := false
	for i, it := range items {
		if i > 0 && it.Key != items[i-1].Key {
			counted = false
		}
		if !counted && ops.Kind(it.Row).Inserts() {
			counted = true
			if present == nil || !present(it.Key) {
				n++
			}
		}
	}
	return n
}
