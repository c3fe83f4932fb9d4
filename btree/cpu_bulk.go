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

// build writes n pairs to adjacent nodes of an empty tree, which must have memory for them. For
// each leaf, it calls write with the slots to fill and the index of the first pair. If ctx ends,
// the tree stays empty.
func (t *cpuTree[T]) build(ctx context.Context, dev device.Host, n, fill int, write func(to []slot[T], first int)) error {
	a := t.nodes()
	next, count, level := uint32(leafNode), (n+fill-1)/fill, 0
	var lowKeys []T // by node of the level below: its low key
	for items := n; ; items, level = count, level+1 {
		if level > 0 {
			if count <= slotCount[T]() {
				break
			}
			count = (count + fill - 1) / fill
		}
		first, lows := next, make([]T, count)
		children, child := lowKeys, next-uint32(len(lowKeys))
		dev.Parallel(count, bulkGrain, func(lo, hi int) {
			if ctx.Err() != nil {
				return
			}
			for i := lo; i < hi; i++ {
				from, end := partStart(items, count, i), partStart(items, count, i+1)
				x := a.at(first + uint32(i))
				x.init(level, 0, noNode)
				if level == 0 {
					write(x.slots[:end-from], from)
					x.setCount(end - from)
				} else {
					x.setChildRange(child+uint32(from), children[from:end])
				}
				lows[i] = x.slots[0].key
				if i > lo {
					a.linkTo(first+uint32(i), lows[i])
				}
			}
		})
		if err := ctx.Err(); err != nil {
			t.reset()
			return err
		}
		lows[0] = 0
		for i := bulkGrain; i < count; i += bulkGrain {
			a.linkTo(first+uint32(i), lows[i])
		}
		next, lowKeys = first+uint32(count), lows
	}
	root := a.at(rootNode)
	root.init(level, 0, noNode)
	root.setChildRange(next-uint32(len(lowKeys)), lowKeys)
	t.free, t.presentOrder = nil, nil
	*t.control() = control{top: next}
	t.addPairs(int64(n))
	return nil
}

// partStart returns the start of part i if n items are cut into equal parts.
func partStart(n, parts, i int) int { return n/parts*i + min(i, n%parts) }

// linkTo links node to-1 to node to, whose low key is low.
func (a nodes[T]) linkTo(to uint32, low T) {
	x := a.at(to - 1)
	x.high, x.link = uint64(low), to
}

// setChildRange makes adjacent nodes, from node first on, the children of n.
func (n *node[T]) setChildRange(first uint32, lows []T) {
	for i, low := range lows {
		n.slots[i] = slot[T]{T(first) + T(i), low}
	}
	for i := len(lows); i < slotCount[T](); i++ {
		n.slots[i] = n.slots[0]
	}
	n.setCount(len(lows))
}

// copier returns a write function for build. The function copies the pairs of t.
func (t *cpuTree[T]) copier() func(to []slot[T], first int) {
	a, o := t.nodes(), t.leafOrder(0)
	return func(to []slot[T], first int) {
		leaf, at := o.locate(uint64(first))
		for done := 0; done < len(to); leaf, at = leaf+1, 0 {
			x := a.at(o.ids[leaf])
			done += copy(to[done:], x.slots[at:x.count()])
		}
	}
}

// load runs a batch on an empty tree.
func (e *cpuEngine[K, V, T]) load(ctx context.Context, b *batch.Batch) error {
	c := &b.Columns
	if b.Kind == op.Put && !c[batch.Kinds].Given() && !c[batch.OK].Given() {
		if laid, err := e.loadAscending(ctx, batch.View[K](c[batch.Keys].Host), batch.View[V](c[batch.Vals].Host)); laid || err != nil {
			return err
		}
	}
	defer e.sorter.Trim()
	items, err := e.sorter.Sort(ctx, e.Device, batch.View[K](c[batch.Keys].Host), e.flip)
	if err != nil {
		return err
	}
	to, done, err := e.prepareEmpty(b.N)
	if err != nil {
		return err
	}
	// From here on, results of rows are written, so the load does not stop.
	p := pairParts[T]{pairs: make([]slot[T], len(items))}
	for lo := 0; lo < len(items); {
		hi := cpu.RunEnd(items, lo+partRows)
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
		p.starts[i+1] = applyOps(ops, fetch.Slice(lo, hi), items, lo, hi, p.pairs)
	})
	for i := range p.parts {
		p.starts[i+1] += p.starts[i]
	}
	if n := p.starts[len(p.parts)]; n > 0 {
		err = to.build(context.WithoutCancel(ctx), e.Device, n, e.fill, p.write)
	}
	return done(err)
}

// prepareEmpty returns an empty tree with memory for the given number of pairs: the current tree,
// or a new one if the current tree has open leases. done makes the new tree current, or frees it
// after an error.
func (e *cpuEngine[K, V, T]) prepareEmpty(pairs int) (to *cpuTree[T], done func(error) error, err error) {
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

// loadAscending builds a tree from pairs. It returns false if the keys do not ascend.
func (e *cpuEngine[K, V, T]) loadAscending(ctx context.Context, keys []K, vals []V) (laid bool, err error) {
	return cpu.WhileAscending(ctx, keys, e.flip, func(ctx context.Context, wrote func(first int, ascends bool)) error {
		to, done, err := e.prepareEmpty(len(keys))
		if err != nil {
			return err
		}
		return done(to.build(ctx, e.Device, len(keys), e.fill, func(to []slot[T], first int) {
			wrote(first, writeAscending(to, keys[first:first+len(to)], vals[first:first+len(to)], e.flip))
		}))
	})
}

// writeAscending writes pairs to slots, and reports whether their keys ascend in stored form.
func writeAscending[K, V, T word](to []slot[T], keys []K, vals []V, flip K) bool {
	keys, vals = keys[:len(to)], vals[:len(to)]
	last, falls := keys[0]^flip, 0
	to[0] = slot[T]{T(vals[0]), T(last)}
	for i := 1; i < len(to); i++ {
		k := keys[i] ^ flip
		falls |= 1 - less(last, k)
		to[i], last = slot[T]{T(vals[i]), T(k)}, k
	}
	return falls == 0
}

// partRows is the approximate number of rows that a core resolves at a time.
const partRows = 1 << 14

// applyOps runs the operations of items [lo,hi) on an empty map. It writes the resulting pairs to
// pairs[lo:], and returns their number.
func applyOps[K, V, T word](ops cpu.Changes[K, V], fetch cpu.Fetcher[K], items []cpu.Item[K], lo, hi int, pairs []slot[T]) (n int) {
	for i := lo; i < hi; {
		fetch.Fetch(i)
		first := i
		i = cpu.RunEnd(items[:hi], i+1)
		if v, ok := cpu.ApplyOps(&ops, items[first:i], 0, false); ok {
			pairs[lo+n] = slot[T]{T(v), T(items[first].Key)}
			n++
		}
	}
	return n
}

// pairParts holds pairs in parts. Part i begins at pairs[parts[i]]. The parts before part i have
// starts[i] pairs together.
type pairParts[T word] struct {
	pairs         []slot[T]
	parts, starts []int
}

// write copies pairs, from index first on, to slots of a leaf. build calls it.
func (p *pairParts[T]) write(to []slot[T], first int) {
	i := sort.SearchInts(p.starts, first+1) - 1
	for done := 0; done < len(to); i++ {
		at := p.parts[i] + first + done - p.starts[i]
		end := p.parts[i] + p.starts[i+1] - p.starts[i]
		done += copy(to[done:], p.pairs[at:end])
	}
}
