package btree

import (
	"math"

	"github.com/weftgo/weft/internal/batch"
)

// eraseRanges is the maximum number of ranges that a call of deleteRanges deletes. After about
// erasePairs deleted pairs, the call leaves the other ranges to the next call.
const (
	eraseRanges = 1 << 12
	erasePairs  = 1 << 22
)

// deleteRanges deletes the pairs of the first ranges in a batch, and returns how many ranges are
// done. It stops after some milliseconds.
func (e *cpuEngine[K, V, T]) deleteRanges(b *batch.Batch) (done int, err error) {
	t, c := e.tree(), &b.Columns
	lo, hi := batch.View[K](c[batch.Keys].Host), batch.View[K](c[batch.Keys2].Host)
	counts := batch.View[uint32](c[batch.Counts].Host)
	n := min(b.N, eraseRanges)
	if err := t.reserve(t.maxCopies(2*n) + supplyBlock); err != nil {
		return 0, err
	}
	w := worker[K, V, T]{cpuTree: t, fill: e.fill}
	w.start()
	for done < n && w.Live > -erasePairs {
		before := w.Live
		if from, last := T(lo[done]^e.flip), T(hi[done]^e.flip); from <= last {
			w.erase(rootNode, w.depth(), from, last)
			w.collapseRoot()
		}
		if counts != nil {
			counts[done] = uint32(min(before-w.Live, math.MaxUint32))
		}
		done++
	}
	t.recordSupply(w.supply)
	w.finish()
	return done, nil
}

// erase removes the pairs with keys in [from,last] below node id. A child is dropped if the range
// includes its whole key range. The first child always stays.
func (w *worker[K, V, T]) erase(id uint32, level int, from, last T) {
	n := w.at(id)
	if level == 0 {
		a, b, c := n.lower(from), n.upper(last), n.count()
		if a == b {
			return
		}
		w.copyOnWrite(id)
		copy(n.slots[a:c], n.slots[b:c])
		n.setCount(c - (b - a))
		w.Live -= int64(b - a)
		return
	}
	var buf [maxSlots]slot[T]
	kids := n.children(&buf)
	out, count := kids[:0], len(kids)
	for i, c := range kids {
		maxKey := ^T(0)
		if i+1 < count {
			maxKey = kids[i+1].key - 1
		} else if n.link != noNode {
			maxKey = T(n.high) - 1
		}
		switch {
		case c.key > last || maxKey < from:
		case len(out) > 0 && from <= c.key && maxKey <= last:
			w.detachSubtree(out[len(out)-1].id(), c.id(), level-1)
			continue
		default:
			w.erase(c.id(), level-1, from, last)
			w.small[level-1] = w.small[level-1] || w.at(c.id()).count() < w.minSlots
		}
		out = append(out, c)
	}
	if out = w.coalesce(out, level-1); len(out) != count {
		w.copyOnWrite(id)
		n.setChildren(out)
	}
}

// detachSubtree retires the subtree below node id, which follows the subtree below left. On each
// level, the last node below left gets the link of the last node below id.
func (w *worker[K, V, T]) detachSubtree(left, id uint32, level int) {
	for l, x, y := level, w.at(left), w.at(id); ; l-- {
		w.copyOnWrite(left)
		x.high, x.link = y.high, y.link
		if l == 0 {
			break
		}
		left = x.lastChild()
		x, y = w.at(left), w.at(y.lastChild())
	}
	w.retireSubtree(id, level)
}

func (n *node[T]) lastChild() uint32 { return n.child(^T(0)) }

func (w *worker[K, V, T]) retireSubtree(id uint32, level int) {
	n := w.at(id)
	if level == 0 {
		w.Live -= int64(n.count())
	} else {
		for _, c := range n.slots[:n.count()] {
			w.retireSubtree(c.id(), level-1)
		}
	}
	w.removed = append(w.removed, id)
}
