package btree

import (
	"context"
	"errors"
	"sort"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// bulkGrain is the number of nodes that a core writes at a time.
const bulkGrain = 1 << 10

// build makes n pairs those of a tree that has none, in nodes side by side, which it has memory
// for. write writes pairs from number first on to slots. If ctx ends, the tree stays without pairs.
func (t *cpuTree[T]) build(ctx context.Context, dev device.Host, n, fill int, write func(to []slot[T], first int)) error {
	a := t.nodes()
	next, count, level := uint32(leafNode), (n+fill-1)/fill, 0
	var below []slot[T] // nodes of the level below, with their low keys
	for items := n; ; items, level = count, level+1 {
		if level > 0 {
			if count <= slotCount[T]() {
				break
			}
			count = (count + fill - 1) / fill
		}
		first, these := next, make([]slot[T], count)
		children := below
		dev.Parallel(count, bulkGrain, func(lo, hi int) {
			if ctx.Err() != nil {
				return
			}
			for i := lo; i < hi; i++ {
				from, end := cut(items, count, i), cut(items, count, i+1)
				x := a.at(first + uint32(i))
				x.begin(level, 0, noNode)
				if level == 0 {
					write(x.slots[:end-from], from)
					x.setCount(end - from)
				} else {
					x.setChildren(children[from:end])
				}
				these[i] = slot[T]{T(first + uint32(i)), x.slots[0].key}
			}
		})
		if err := ctx.Err(); err != nil {
			t.reset()
			return err
		}
		these[0].key = 0
		t.link(dev, these)
		next, below = first+uint32(count), these
	}
	root := a.at(rootNode)
	root.begin(level, 0, noNode)
	root.setChildren(below)
	t.free, t.leaves = nil, nil
	*t.control() = control{top: next}
	t.count(int64(n))
	return nil
}

// cut is where part i of so many begins, which are as large as each other.
func cut(n, parts, i int) int { return n/parts*i + min(i, n%parts) }

// link has the nodes of a level lead to each other.
func (t *cpuTree[T]) link(dev device.Host, level []slot[T]) {
	a := t.nodes()
	dev.Parallel(len(level)-1, 8*bulkGrain, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			x := a.at(level[i].id())
			x.high, x.link = uint64(level[i+1].key), level[i+1].id()
		}
	})
}

// copier writes the pairs of a tree, for build.
func (t *cpuTree[T]) copier() func(to []slot[T], first int) {
	a, o := t.nodes(), t.ordered(0)
	return func(to []slot[T], first int) {
		leaf, at := o.place(uint64(first))
		for done := 0; done < len(to); leaf, at = leaf+1, 0 {
			x := a.at(o.ids[leaf])
			done += copy(to[done:], x.slots[at:x.count()])
		}
	}
}

// load carries a batch out on a tree without pairs.
func (e *cpuEngine[K, V, T]) load(ctx context.Context, b *batch.Batch) error {
	c := &b.Columns
	if b.Kind == op.Put && !c[batch.Kinds].Given() && !c[batch.OK].Given() {
		keys, vals := batch.View[K](c[batch.Keys].Host), batch.View[V](c[batch.Vals].Host)
		if cpu.Ascending(e.Device, keys, e.flip) {
			return e.lay(ctx, len(keys), func(to []slot[T], first int) {
				for i := range to {
					to[i] = slot[T]{T(vals[first+i]), T(keys[first+i] ^ e.flip)}
				}
			})
		}
	}
	defer e.sorter.Trim()
	items, err := e.sorter.Sort(ctx, e.Device, batch.View[K](c[batch.Keys].Host), e.flip)
	if err != nil {
		return err
	}
	to, done, err := e.empty(b.N)
	if err != nil {
		return err
	}
	// What rows return is written from here on.
	p := settled[T]{pairs: make([]slot[T], len(items))}
	for lo := 0; lo < len(items); {
		hi := cpu.RunEnd(items, lo+settlePart)
		p.parts = append(p.parts, lo)
		lo = hi
	}
	p.starts = make([]int, len(p.parts)+1)
	ops, fetch := changesOf[K, V](b), cpu.FetcherOf(b, items)
	e.Device.Parallel(len(p.parts), 1, func(i, _ int) {
		lo, hi := p.parts[i], len(items)
		if i+1 < len(p.parts) {
			hi = p.parts[i+1]
		}
		p.starts[i+1] = settle(ops, fetch.Of(lo, hi), items, lo, hi, p.pairs)
	})
	for i := range p.parts {
		p.starts[i+1] += p.starts[i]
	}
	if n := p.starts[len(p.parts)]; n > 0 {
		err = to.build(context.WithoutCancel(ctx), e.Device, n, e.fill, p.write)
	}
	return done(err)
}

// empty is a tree without pairs that has memory for so many: the one in use, if nobody holds it.
// done makes it that, or frees it after an error.
func (e *cpuEngine[K, V, T]) empty(pairs int) (to *cpuTree[T], done func(error) error, err error) {
	if !e.Leases.Held() {
		to = e.tree()
		to.reset()
		return to, func(err error) error { return err }, to.grow(nodesFor(pairs, e.fill))
	}
	to, err = e.make(nodesFor(pairs, e.fill))
	return to, func(err error) error {
		if err != nil {
			return errors.Join(err, to.Free())
		}
		return e.Leases.Replace(to)
	}, err
}

// lay builds a tree.
func (e *cpuEngine[K, V, T]) lay(ctx context.Context, n int, write func(to []slot[T], first int)) error {
	to, done, err := e.empty(n)
	if err != nil {
		return err
	}
	return done(to.build(ctx, e.Device, n, e.fill, write))
}

// settlePart is the number of rows that a core settles at a time.
const settlePart = 1 << 14

// settle runs the operations of items [lo,hi) on keys without pairs, and writes the pairs that
// there are then, from number lo on. It returns how many.
func settle[K, V, T word](ops cpu.Changes[K, V], fetch cpu.Fetcher[K], items []cpu.Item[K], lo, hi int, pairs []slot[T]) (n int) {
	for i := lo; i < hi; {
		fetch.Fetch(i)
		first := i
		i = cpu.RunEnd(items[:hi], i+1)
		if v, ok := cpu.Settle(&ops, items[first:i], 0, false); ok {
			pairs[lo+n] = slot[T]{T(v), T(items[first].Key)}
			n++
		}
	}
	return n
}

// settled are pairs in parts: those of part i begin at parts[i], and so many come before as
// starts[i] says.
type settled[T word] struct {
	pairs         []slot[T]
	parts, starts []int
}

// write is for build.
func (p *settled[T]) write(to []slot[T], first int) {
	i := sort.SearchInts(p.starts, first+1) - 1
	for done := 0; done < len(to); i++ {
		at := p.parts[i] + first + done - p.starts[i]
		end := p.parts[i] + p.starts[i+1] - p.starts[i]
		done += copy(to[done:], p.pairs[at:end])
	}
}
