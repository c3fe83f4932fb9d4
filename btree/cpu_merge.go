package btree

import (
	"sort"
	"sync/atomic"

	"github.com/weftgo/weft/internal/cpu"
)

// supply holds the nodes that a change may take: first the free nodes, then new nodes from number
// top on.
type supply struct {
	free []uint32
	top  uint32
	next atomic.Int64
}

// supplyBlock is the number of nodes that a worker takes at a time.
const supplyBlock = 16

func (s *supply) allocNodes(to []uint32) []uint32 {
	first := int(s.next.Add(supplyBlock)) - supplyBlock
	for i := first; i < first+supplyBlock; i++ {
		if i < len(s.free) {
			to = append(to, s.free[i])
		} else {
			to = append(to, s.top+uint32(i-len(s.free)))
		}
	}
	return to
}

// worker runs the operations below some nodes of the tree.
type worker[K, V, T word] struct {
	*cpuTree[T]
	nodes[T]
	cpu.Changes[K, V]
	fill    int
	items   []cpu.Item[K]
	fetcher cpu.Fetcher[K]

	supply  *supply
	ids     []uint32 // nodes taken from supply and not used yet
	removed []uint32 // nodes that have left the tree
	kept    []uint32 // copies of old content, for versions
	newest  uint64   // time of the newest version

	stack []slot[T] // finished nodes, as slots for their parents
	pairs []slot[T]
	small [levelMask + 1]bool // by level: a finished node may be merged

	level int // level of the tasks' nodes; -1 if no tasks exist
	tasks []task[K, V, T]
}

func (w *worker[K, V, T]) run(t *task[K, V, T]) {
	w.fetcher = w.fetcher.Slice(t.lo, t.hi)
	t.worker, t.from = w, len(w.stack)
	w.runInner(t.self, w.level, t.lo, t.hi)
	t.to, t.small, w.small[w.level] = len(w.stack), w.small[w.level], false
}

// divideItems calls do with each child of a node and the items [lo,hi) on its keys.
func (w *worker[K, V, T]) divideItems(kids []slot[T], lo, hi int, do func(kid slot[T], lo, hi int)) {
	for i, c := range kids {
		end := hi
		if i+1 < len(kids) {
			end = w.lowerBound(lo, hi, K(kids[i+1].key))
		}
		do(c, lo, end)
		lo = end
	}
}

// lowerBound returns the index of the first of items [lo,hi) that has at least the given key.
func (w *worker[K, V, T]) lowerBound(lo, hi int, key K) int {
	if hi-lo > 4*maxSlots {
		return lo + sort.Search(hi-lo, func(i int) bool { return w.items[lo+i].Key >= key })
	}
	for lo < hi && w.items[lo].Key < key {
		lo++
	}
	return lo
}

// descend runs items [lo,hi) below an inner node, and pushes the resulting children to the stack.
func (w *worker[K, V, T]) descend(kids []slot[T], level, lo, hi int) {
	var ends [maxSlots]int
	for i, at := 0, lo; i < len(kids); i++ {
		ends[i] = hi
		if i+1 < len(kids) {
			ends[i] = w.lowerBound(at, hi, K(kids[i+1].key))
		}
		if at < ends[i] && level-1 != w.level {
			w.prefetch(kids[i].id())
		}
		at = ends[i]
	}
	for i, c := range kids {
		end := ends[i]
		switch {
		case lo == end:
			w.stack = append(w.stack, c)
		case level-1 == w.level && w.pushTaskResult(c):
		case level == 1:
			w.runLeaf(c, lo, end)
		default:
			w.runInner(c, level-1, lo, end)
		}
		lo = end
	}
}

// pushTaskResult pushes the result of the next task if c is the root of that task's subtree. It
// reports whether it has done so.
func (w *worker[K, V, T]) pushTaskResult(c slot[T]) bool {
	if len(w.tasks) == 0 || w.tasks[0].worker == nil || w.tasks[0].self != c {
		return false
	}
	t := &w.tasks[0]
	w.stack = append(w.stack, t.worker.stack[t.from:t.to]...)
	w.small[w.level] = w.small[w.level] || t.small
	w.tasks = w.tasks[1:]
	return true
}

// runInner runs items [lo,hi) below an inner node, and pushes the nodes that replace it.
func (w *worker[K, V, T]) runInner(self slot[T], level, lo, hi int) {
	var buf [maxSlots]slot[T]
	n, base := w.at(self.id()), len(w.stack)
	kids := n.children(&buf)
	w.descend(kids, level, lo, hi)
	list := w.coalesce(w.stack[base:], level-1)
	if equal(list, kids) {
		w.stack = append(w.stack[:base], self)
	} else if len(list) <= slotCount[T]() {
		w.copyOnWrite(self.id())
		n.setChildren(list)
		w.stack = append(w.stack[:base], self)
	} else {
		made := w.splitNode(self, n.header, list, level)
		w.stack = append(w.stack[:base], made...)
	}
	w.small[level] = w.small[level] || n.count() < w.minSlots
}

func equal[T word](a, b []slot[T]) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// runLeaf runs items [lo,hi) on the pairs of a leaf, and pushes the nodes that replace it.
func (w *worker[K, V, T]) runLeaf(self slot[T], lo, hi int) {
	n := w.at(self.id())
	c := n.count()
	for x := lo; x < hi; {
		w.fetcher.Fetch(x)
		first := x
		x = cpu.RunEnd(w.items[:hi], x+1)
		key := T(w.items[first].Key)
		at, found := n.search(key)
		var oldVal V
		if found {
			oldVal = V(n.slots[at].val)
		}
		val, present := cpu.ApplyOps(&w.Changes, w.items[first:x], oldVal, found)
		if found != present || val != oldVal {
			w.copyOnWrite(self.id())
		}
		switch {
		case found && present:
			if val != oldVal {
				n.slots[at].val = T(val)
			}
		case found:
			copy(n.slots[at:c-1], n.slots[at+1:c])
			c--
			n.setCount(c)
		case present && c < slotCount[T]():
			copy(n.slots[at+1:c+1], n.slots[at:c])
			n.slots[at] = slot[T]{T(val), key}
			c++
			n.setCount(c)
		case present:
			w.overflowLeaf(self, n, at, slot[T]{T(val), key}, x, hi)
			return
		}
	}
	w.small[0] = w.small[0] || c < w.minSlots
	w.stack = append(w.stack, self)
}

// overflowLeaf continues runLeaf when newPair must be inserted at index at of a full leaf. It
// merges the pairs with items [x,hi), which all have larger keys, and writes as many leaves as
// needed.
func (w *worker[K, V, T]) overflowLeaf(self slot[T], n *node[T], at int, newPair slot[T], x, hi int) {
	pairs := append(append(w.pairs[:0], n.slots[:at]...), newPair)
	remaining := n.slots[at:slotCount[T]()]
	for x < hi {
		w.fetcher.Fetch(x)
		first := x
		x = cpu.RunEnd(w.items[:hi], x+1)
		key := T(w.items[first].Key)
		for len(remaining) > 0 && remaining[0].key < key {
			pairs, remaining = append(pairs, remaining[0]), remaining[1:]
		}
		var oldVal V
		found := len(remaining) > 0 && remaining[0].key == key
		if found {
			oldVal, remaining = V(remaining[0].val), remaining[1:]
		}
		if val, present := cpu.ApplyOps(&w.Changes, w.items[first:x], oldVal, found); present {
			pairs = append(pairs, slot[T]{T(val), key})
		}
	}
	w.pairs = append(pairs, remaining...)
	if len(w.pairs) <= slotCount[T]() {
		w.copyOnWrite(self.id())
		n.setCount(copy(n.slots[:], w.pairs))
		w.small[0] = w.small[0] || n.count() < w.minSlots
		w.stack = append(w.stack, self)
		return
	}
	w.stack = append(w.stack, w.splitNode(self, n.header, w.pairs, 0)...)
}

// splitNode writes list, which has too many slots for one node, to node self and to new nodes. It
// returns all of these nodes. They are equally full. If self is the last node of its level, they
// are as full as in a bulk load.
func (w *worker[K, V, T]) splitNode(self slot[T], old header, list []slot[T], level int) (made []slot[T]) {
	parts := (len(list) + w.fill - 1) / w.fill
	made = make([]slot[T], parts)
	made[0] = self
	for i := 1; i < parts; i++ {
		made[i].val = T(w.allocNode())
	}
	w.copyOnWrite(self.id())
	for i, at := 0, 0; i < parts; i++ {
		size := (len(list) - at) / (parts - i)
		if old.link == noNode {
			size = min(w.fill, len(list)-at)
		}
		n, high, link := w.at(made[i].id()), old.high, old.link
		if i > 0 {
			made[i].key = list[at].key
		}
		if i+1 < parts {
			high, link = uint64(list[at+size].key), made[i+1].id()
		}
		n.init(level, high, link)
		if part := list[at : at+size]; level == 0 {
			n.setCount(copy(n.slots[:], part))
		} else {
			n.setChildren(part)
		}
		at += size
	}
	return made
}

func (w *worker[K, V, T]) allocNode() (id uint32) {
	if len(w.ids) == 0 {
		w.ids = w.supply.allocNodes(w.ids)
	}
	id, w.ids = w.ids[len(w.ids)-1], w.ids[:len(w.ids)-1]
	if w.versions != nil {
		w.versions.written[id] = w.newest + 1
	}
	return id
}

// coalesce merges small nodes with their neighbors. list has the children of one node. It returns
// the remaining children.
func (w *worker[K, V, T]) coalesce(list []slot[T], level int) []slot[T] {
	if !w.small[level] {
		return list
	}
	w.small[level] = false
	out := list[:1]
	for _, y := range list[1:] {
		if !w.mergeNodes(out[len(out)-1].id(), y.id(), level) {
			out = append(out, y)
		}
	}
	return out
}

// mergeNodes merges two adjacent nodes into the left one, if one of them has few slots and both
// fit. For inner nodes, it then tries to merge the children at the border.
func (w *worker[K, V, T]) mergeNodes(left, right uint32, level int) bool {
	x, y := w.at(left), w.at(right)
	cx, cy := x.count(), y.count()
	if cx >= w.minSlots && cy >= w.minSlots || cx+cy > w.maxMerged {
		return false
	}
	w.copyOnWrite(left)
	if level == 0 {
		copy(x.slots[cx:], y.slots[:cy])
		x.setCount(cx + cy)
	} else {
		var kids, rightKids [maxSlots]slot[T]
		a, b := x.children(&kids), y.children(&rightKids)
		if w.mergeNodes(a[cx-1].id(), b[0].id(), level-1) {
			b = b[1:]
		}
		x.setChildren(append(a, b...))
	}
	x.high, x.link = y.high, y.link
	w.removed = append(w.removed, right)
	return true
}

// runRoot runs all items on the tree and writes the children of the root. All tasks must have run.
func (w *worker[K, V, T]) runRoot() {
	var buf [maxSlots]slot[T]
	n := w.at(rootNode)
	level, kids := n.level(), n.children(&buf)
	w.descend(kids, level, 0, len(w.items))
	list := w.coalesce(w.stack, level-1)
	for len(list) > slotCount[T]() {
		list = w.splitNode(slot[T]{val: T(w.allocNode())}, header{link: noNode}, list, level)
		level++
	}
	if level != n.level() || !equal(list, kids) {
		w.copyOnWrite(rootNode)
		n.init(level, 0, noNode)
		n.setChildren(list)
	}
	w.collapseRoot()
}

// collapseRoot removes the levels below the root that have a single node.
func (w *worker[K, V, T]) collapseRoot() {
	n := w.at(rootNode)
	for n.count() == 1 && n.level() > 1 {
		var buf [maxSlots]slot[T]
		id := n.slots[0].id()
		kids := w.at(id).children(&buf)
		w.copyOnWrite(rootNode)
		n.init(n.level()-1, 0, noNode)
		n.setChildren(kids)
		w.removed = append(w.removed, id)
	}
}
