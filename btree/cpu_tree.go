package btree

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/internal/core"
)

// word is the set of types that keys, values, and both halves of a slot may have.
type word interface{ uint32 | uint64 }

// slot is a slot of a node. A leaf's slot has a key and its value. An inner node's slot has the low
// key and the number of a child.
type slot[T word] struct{ val, key T }

func (s slot[T]) id() uint32 { return uint32(s.val) }

// maxSlots is the number of slots of a 256-byte node. A 128-byte node has one less.
const maxSlots = 15

// node is a node in host memory, with children in order. In a 128-byte node, the last slot is not
// part of the node: it overlaps the next node.
type node[T word] struct {
	header
	slots [maxSlots]slot[T]
}

func slotCount[T word]() int {
	if unsafe.Sizeof(T(0)) == 4 {
		return maxSlots - 1
	}
	return maxSlots
}

// nodeShift returns the binary logarithm of the size of a node in bytes.
func nodeShift[T word]() uint {
	if unsafe.Sizeof(T(0)) == 4 {
		return 7
	}
	return 8
}

// nodes gives access to the nodes of a tree in host memory.
type nodes[T word] struct{ base unsafe.Pointer }

func nodesOf[T word](mem []byte) nodes[T] {
	return nodes[T]{unsafe.Add(unsafe.Pointer(unsafe.SliceData(mem)), controlBytes)}
}

func (a nodes[T]) at(id uint32) *node[T] {
	return (*node[T])(unsafe.Add(a.base, uintptr(id)<<nodeShift[T]()))
}

// slot returns slot i. It does no bounds check.
func (n *node[T]) slot(i int) *slot[T] {
	return (*slot[T])(unsafe.Add(unsafe.Pointer(&n.slots), uintptr(i)*unsafe.Sizeof(slot[T]{})))
}

// less returns 1 if a < b and 0 otherwise, without a branch, which would be mispredicted half of
// the time.
func less[T word | int](a, b T) int {
	n := 0
	if a < b {
		n = 1
	}
	return n
}

// childIndex returns the index of the child that key belongs to. Children are in order, and the
// slots after them repeat the first. So keys are compared by their distance from the first child's
// key, minus one. This distance wraps around for the first child and its repetitions.
func (n *node[T]) childIndex(key T) int {
	first := n.slots[0].key
	key -= first
	first++
	quarter := (slotCount[T]() + 1) / 4
	i := less(n.slot(7).key-first, key) * 7
	i += less(n.slot(i+quarter).key-first, key) * quarter
	i += less(n.slot(i+2).key-first, key) * 2
	return i + less(n.slot(i+1).key-first, key)
}

// child returns the number of the child that key belongs to.
func (n *node[T]) child(key T) uint32 { return n.slot(n.childIndex(key)).id() }

// lower returns the number of keys in leaf n that are smaller than key.
func (n *node[T]) lower(key T) int {
	c := n.count()
	i := less(n.slots[7].key, key) & less(7, c) << 3
	i += less(n.slot(i+3).key, key) & less(i+3, c) << 2
	i += less(n.slot(i+1).key, key) & less(i+1, c) << 1
	return i + less(n.slot(i-less(slotCount[T]()-1, i)).key, key)&less(i, c)
}

// upper returns the number of keys in leaf n that are at most key.
func (n *node[T]) upper(key T) int {
	at, ok := n.search(key)
	if ok {
		at++
	}
	return at
}

// search returns the index of key in a leaf, and reports whether the leaf has it. If not, at is
// where key would be inserted.
func (n *node[T]) search(key T) (at int, ok bool) {
	at = n.lower(key)
	return at, at < n.count() && n.slots[at].key == key
}

func (n *node[T]) children(to *[maxSlots]slot[T]) []slot[T] {
	return to[:copy(to[:], n.slots[:n.count()])]
}

func (n *node[T]) setCount(c int) {
	n.state = n.state&^(countMask<<countShift) | uint32(c)<<countShift
}

func (n *node[T]) setChildren(c []slot[T]) {
	for i := copy(n.slots[:], c); i < slotCount[T](); i++ {
		n.slots[i] = c[0]
	}
	n.setCount(len(c))
}

// init makes n an empty node of a level.
func (n *node[T]) init(level int, high uint64, link uint32) {
	n.header = header{high: high, link: link, state: stateOf(level, 0)}
}

// cpuTree is a generation on the host.
type cpuTree[T word] struct {
	*tree
	free []uint32 // free nodes; all other nodes below control.top are in use

	versions *versions // nil if no version has been taken

	mu            sync.Mutex            // guards presentOrder and versionOrders
	presentOrder  *leafOrder            // nil if not listed since the last change
	versionOrders map[uint64]*leafOrder // by time of the version
}

func (t *cpuTree[T]) nodes() nodes[T]   { return nodesOf[T](t.buf.Host) }
func (t *cpuTree[T]) control() *control { return controlOf(t.buf.Host) }

// addPairs adds live, which may be negative, to the number of pairs in the tree.
func (t *cpuTree[T]) addPairs(live int64) {
	t.tally.Live += uint64(live)
	t.tally.Used = t.tally.Live
	t.control().tally = t.tally
}

func (t *cpuTree[T]) inUse() int { return int(t.control().top) - len(t.free) }

// reserve allocates memory for n nodes in addition to those in use.
func (t *cpuTree[T]) reserve(n int) error {
	return t.grow(int(t.control().top) + max(0, n-len(t.free)))
}

func (t *cpuTree[T]) reset() {
	copy(t.buf.Host, t.shape.emptyImage())
	t.tally = core.Tally{}
	t.free, t.presentOrder, t.versions = nil, nil, nil
}

func (t *cpuTree[T]) freeNodes(ids []uint32) {
	a := t.nodes()
	for _, id := range ids {
		a.at(id).header = header{link: noNode, state: dead | freeLevel<<levelShift}
	}
	t.free = append(t.free, ids...)
}

// depth returns the level of the root.
func (t *cpuTree[T]) depth() int { return t.nodes().at(rootNode).level() }

// leafOrder lists the leaves of a tree in order.
type leafOrder struct {
	ids    []uint32
	places []uint32 // by node: its index in ids
	starts []uint64 // number of pairs before each leaf, and the total at the end
}

// leafOrder returns the list of leaves of the version at time, or of the present tree if time is 0.
// It caches the lists, and makes the present one anew after a change.
func (t *cpuTree[T]) leafOrder(time uint64) *leafOrder {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.view(time)
	if time != 0 {
		if t.versionOrders == nil {
			t.versionOrders = map[uint64]*leafOrder{}
		}
		if t.versionOrders[time] == nil {
			t.versionOrders[time] = t.listLeaves(&a)
		}
		return t.versionOrders[time]
	}
	if t.presentOrder == nil {
		t.presentOrder = t.listLeaves(&a)
	}
	return t.presentOrder
}

func (t *cpuTree[T]) listLeaves(a *view[T]) *leafOrder {
	level := []uint32{rootNode}
	for range a.depth() {
		children := make([]uint32, 0, len(level)*slotCount[T]())
		var buf [maxSlots]slot[T]
		for i, id := range level {
			a.prefetch(level[min(i+4, len(level)-1)])
			for _, c := range a.node(id).children(&buf) {
				children = append(children, c.id())
			}
		}
		level = children
	}
	o := &leafOrder{ids: level, places: make([]uint32, t.control().top), starts: make([]uint64, len(level)+1)}
	for i, id := range level {
		a.prefetch(level[min(i+8, len(level)-1)])
		o.places[id] = uint32(i)
		o.starts[i+1] = o.starts[i] + uint64(a.node(id).count())
	}
	return o
}

// locate returns the leaf of the pair at a rank, and the index of the pair in the leaf. The pair
// must exist.
func (o *leafOrder) locate(rank uint64) (leaf, at int) {
	i, _ := slices.BinarySearch(o.starts, rank+1)
	return i - 1, int(rank - o.starts[i-1])
}
