package ordered

import (
	"context"
	"sort"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// A change is run in pieces: a piece is sorted, and then its operations are carried out
// leaf by leaf, on all cores, and what has become of the leaves makes a new index. A
// piece that is being carried out does not stop; before that, it can be given up. All
// memory that it may need is taken before it touches a leaf.

// Tuning of changes; tests make all of it smaller.
var (
	// piece is the number of operations of a piece, some milliseconds' work of a few cores.
	piece = 1 << 18

	// endlessPiece is the number of operations of a piece where no context can end: the more
	// operations a piece has, the more there are for each leaf.
	endlessPiece = 1 << 22

	// chunkLeaves are the leaves of a chunk, chunkItems the operations of one.
	chunkLeaves = 1 << 9
	chunkItems  = 1 << 14
)

// Change is for [core.Engine].
func (e *cpuEngine[K, V]) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if err := cpu.Open(s); err != nil {
		return 0, nil, err
	}
	for done < b.N {
		if err := ctx.Err(); err != nil {
			return done, nil, err
		}
		n := min(piece, b.N-done)
		if e.forest().present.leaves == 0 {
			n = b.N - done // it can be given up at any time
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

// change runs a piece, or does nothing and returns why.
func (e *cpuEngine[K, V]) change(ctx context.Context, b *batch.Batch) error {
	f := e.forest()
	if f.present.leaves == 0 {
		if loaded, err := e.load(ctx, b); loaded || err != nil {
			return err
		}
	}
	items, err := e.sorter.sort(ctx, e.Device, batch.View[K](b.Columns[batch.Keys].Host), e.order)
	if err != nil {
		return err
	}
	chunks := f.chunks(items)
	ops, rows := cpu.ChangesOf[K, V](b), columnsOf(b)
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
		m.forest, m.Changes, m.index, m.items, m.rows = f, ops, f.present, items, rows
		m.run(&chunks[i])
		e.mergers.Put(m)
	})
	if fresh && ctx.Err() != nil {
		f.abandon(chunks)
		return ctx.Err()
	}
	return f.fold(e.Device, f.present, false, chunks)
}

// merger is one that nobody uses.
func (e *cpuEngine[K, V]) merger() *merger[K, V] {
	if m, ok := e.mergers.Get().(*merger[K, V]); ok {
		return m
	}
	return &merger[K, V]{}
}

// chunks cuts the leaves that have operations into chunks, and their operations with
// them. How does not depend on the number of cores.
func (f *forest[K, V]) chunks(items []item[K]) (chunks []chunk[K]) {
	x := f.present
	if x.leaves == 0 {
		for lo := 0; lo < len(items); {
			hi := runEnd(items, lo+chunkItems)
			chunks = append(chunks, chunk[K]{lo: lo, hi: hi})
			lo = hi
		}
		return chunks
	}
	for lo := 0; lo < len(items); {
		a := x.leaf(items[lo].key) / chunkLeaves * chunkLeaves
		b := min(a+chunkLeaves, x.leaves)
		hi := x.items(items, lo, b)
		if hi-lo <= chunkItems {
			chunks = append(chunks, chunk[K]{a: a, b: b, lo: lo, hi: hi})
		} else {
			chunks = x.split(chunks, items[:hi], lo, a, b)
		}
		lo = hi
	}
	return chunks
}

// items is where the items from number lo on end that are for leaves before b.
func (x *index[K]) items(items []item[K], lo, b int) int {
	if b == x.leaves {
		return len(items)
	}
	sep := x.seps[0][b]
	return lo + sort.Search(len(items)-lo, func(i int) bool { return items[lo+i].key >= sep })
}

// split cuts leaves [a,b), which have the items from number lo on, into chunks of a bearable
// number of items.
func (x *index[K]) split(chunks []chunk[K], items []item[K], lo, a, b int) []chunk[K] {
	for p := a; p < b; {
		q, hi := p, lo
		for q < b {
			end := x.items(items, hi, q+1)
			if q > p && end-lo > chunkItems {
				break
			}
			q, hi = q+1, end
		}
		switch {
		case hi-lo > chunkItems && q == p+1:
			chunks = x.cut(chunks, items[:hi], lo, p)
		case hi > lo:
			chunks = append(chunks, chunk[K]{a: p, b: q, lo: lo, hi: hi})
		}
		p, lo = q, hi
	}
	return chunks
}

// cut cuts a leaf that has the items from number lo on.
func (x *index[K]) cut(chunks []chunk[K], items []item[K], lo, p int) []chunk[K] {
	from := x.seps[0][p]
	for lo < len(items) {
		hi := runEnd(items, lo+chunkItems)
		c := chunk[K]{a: p, b: p + 1, lo: lo, hi: hi, cut: true, from: from, last: hi == len(items)}
		if !c.last {
			c.to = items[hi].key
		}
		chunks = append(chunks, c)
		lo, from = hi, c.to
	}
	return chunks
}

// runEnd is where items may be cut, from number i on: behind the last of a key.
func runEnd[K word](items []item[K], i int) int {
	for ; i < len(items); i++ {
		if items[i].key != items[i-1].key {
			return i
		}
	}
	return len(items)
}

// each calls visit with each leaf of a chunk and the items for it.
func (c *chunk[K]) each(x *index[K], items []item[K], visit func(p int, items []item[K])) {
	at := c.lo
	for p := c.a; p < c.b; p++ {
		from := at
		if p+1 == c.b {
			at = c.hi
		} else {
			for next := x.seps[0][p+1]; at < c.hi && items[at].key < next; {
				at++
			}
		}
		visit(p, items[from:at])
	}
}

// plan works out how many leaves a chunk needs at most.
func (f *forest[K, V]) plan(c *chunk[K], items []item[K], ops *cpu.Changes[K, V]) {
	if c.a == c.b {
		c.need = f.leavesFor(c.hi - c.lo)
		return
	}
	c.each(f.present, items, func(p int, items []item[K]) {
		if len(items) > 0 {
			c.need += f.needs(p, c.cut, items, ops)
			c.touched = append(c.touched, f.present.ids[p])
		}
	})
}

// needs is how many leaves the pairs of a leaf need beside it at most, as operations leave
// them.
func (f *forest[K, V]) needs(p int, cut bool, items []item[K], ops *cpu.Changes[K, V]) int {
	id, n := f.present.ids[p], int(f.present.sizes[p])
	own := 0
	if !cut && f.mine(id) {
		own = 1
	}
	pairs := n + inserted(items, ops, nil)
	if pairs > leafPairs && !cut {
		l := f.at(id)
		pairs = n + inserted(items, ops, func(key K) bool { return l.upper(key, n) > l.lower(key, n) })
	}
	return max(f.leavesFor(pairs)-own, 0)
}

// inserted counts the keys that operations may insert, but for those that are there.
func inserted[K, V word](items []item[K], ops *cpu.Changes[K, V], there func(K) bool) (n int) {
	counted := false
	for i, it := range items {
		if i > 0 && it.key != items[i-1].key {
			counted = false
		}
		if !counted && ops.Kind(it.row).Inserts() {
			counted = true
			if there == nil || !there(it.key) {
				n++
			}
		}
	}
	return n
}
