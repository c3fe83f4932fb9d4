package btree

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/internal/core"
)

// word is the set of types of keys and values as unsigned integers, and of both halves of a slot.
type word interface{ uint32 | uint64 }

// slot is a slot of a node: a pair in a leaf, the smallest key of a child and its number in an
// inner node.
type slot[T word] struct{ val, key T }

func (s slot[T]) id() uint32 { return uint32(s.val) }

// mostSlots is the number of slots of a wide node. Narrow nodes have fewer.
const mostSlots = 15

// node is a node in memory. On a host, children are in order. The last slot of a narrow node does
// not exist: that memory belongs to the next node.
type node[T word] struct {
	header
	slots [mostSlots]slot[T]
}

// slotCount returns the number of slots of a node.
func slotCount[T word]() int {
	if unsafe.Sizeof(T(0)) == 4 {
		return mostSlots - 1
	}
	return mostSlots
}

// nodeShift returns the binary logarithm of the size of a node in bytes.
func nodeShift[T word]() uint {
	if unsafe.Sizeof(T(0)) == 4 {
		return 7
	}
	return 8
}

// nodes is the nodes of a tree in host memory.
type nodes[T word] struct{ base unsafe.Pointer }

func nodesOf[T word](mem []byte) nodes[T] {
	return nodes[T]{unsafe.Add(unsafe.Pointer(unsafe.SliceData(mem)), controlBytes)}
}

func (a nodes[T]) at(id uint32) *node[T] {
	return (*node[T])(unsafe.Add(a.base, uintptr(id)<<nodeShift[T]()))
}

// slot returns slot i, without a bounds check.
func (n *node[T]) slot(i int) *slot[T] {
	return (*slot[T])(unsafe.Add(unsafe.Pointer(&n.slots), uintptr(i)*unsafe.Sizeof(slot[T]{})))
}

// below returns 1 if a < b and 0 otherwise, without a branch, which would be mispredicted half of
// the time.
func below[T word | int](a, b T) int {
	n := 0
	if a < b {
		n = 1
	}
	return n
}

// place returns the index of the child that has a key. On a host children are in order, and the
// slots after them repeat the first one. So it compares keys by their distance from the first
// child's key, minus one, which wraps around for the first.
func (n *node[T]) place(key T) int {
	first := n.slots[0].key
	key -= first
	first++
	quarter := (slotCount[T]() + 1) / 4
	i := below(n.slot(7).key-first, key) * 7
	i += below(n.slot(i+quarter).key-first, key) * quarter
	i += below(n.slot(i+2).key-first, key) * 2
	return i + below(n.slot(i+1).key-first, key)
}

// child returns the number of the child that has a key.
func (n *node[T]) child(key T) uint32 { return n.slot(n.place(key)).id() }

// lower returns the number of pairs of a leaf with smaller keys.
func (n *node[T]) lower(key T) int {
	c := n.count()
	i := below(n.slots[7].key, key) & below(7, c) << 3
	i += below(n.slot(i+3).key, key) & below(i+3, c) << 2
	i += below(n.slot(i+1).key, key) & below(i+1, c) << 1
	return i + below(n.slot(i-below(slotCount[T]()-1, i)).key, key)&below(i, c)
}

// upper returns the number of pairs of a leaf with keys that are not larger.
func (n *node[T]) upper(key T) int {
	at, ok := n.has(key)
	if ok {
		at++
	}
	return at
}

// has returns the index of a key in a leaf, and whether the leaf has it.
func (n *node[T]) has(key T) (at int, ok bool) {
	at = n.lower(key)
	return at, at < n.count() && n.slots[at].key == key
}

// children copies the children of an inner node to memory of the caller.
func (n *node[T]) children(to *[mostSlots]slot[T]) []slot[T] {
	return to[:copy(to[:], n.slots[:n.count()])]
}

// setCount writes the number of pairs or children.
func (n *node[T]) setCount(c int) {
	n.state = n.state&^(countMask<<countShift) | uint32(c)<<countShift
}

// setChildren writes the children of an inner node.
func (n *node[T]) setChildren(c []slot[T]) {
	for i := copy(n.slots[:], c); i < slotCount[T](); i++ {
		n.slots[i] = c[0]
	}
	n.setCount(len(c))
}

// begin makes a node an empty node of a level.
func (n *node[T]) begin(level int, high uint64, link uint32) {
	n.header = header{high: high, link: link, state: stateOf(level, 0)}
}

// cpuTree is a generation on a host.
type cpuTree[T word] struct {
	*tree
	free []uint32 // free nodes; all others below control.top are in use

	versions *versions // nil: none

	mu     sync.Mutex            // guards leaves and past
	leaves *leafOrder            // nil: not listed since the tree changed
	past   map[uint64]*leafOrder // by time of a version
}

func (t *cpuTree[T]) nodes() nodes[T]   { return nodesOf[T](t.buf.Host) }
func (t *cpuTree[T]) control() *control { return controlOf(t.buf.Host) }

// count adds to the number of pairs.
func (t *cpuTree[T]) count(live int64) {
	t.tally.Live += uint64(live)
	t.tally.Used = t.tally.Live
	t.control().tally = t.tally
}

// taken returns the number of nodes in use.
func (t *cpuTree[T]) taken() int { return int(t.control().top) - len(t.free) }

// supply allocates memory for n more nodes.
func (t *cpuTree[T]) supply(n int) error { return t.grow(int(t.control().top) + max(0, n-len(t.free))) }

// reset makes the tree empty.
func (t *cpuTree[T]) reset() {
	copy(t.buf.Host, t.shape.first())
	t.tally = core.Tally{}
	t.free, t.leaves, t.versions = nil, nil, nil
}

// give makes nodes free.
func (t *cpuTree[T]) give(ids []uint32) {
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
	starts []uint64 // pairs before each leaf, and the total at the end
}

// ordered returns the leaves in order, of a version if time is not 0. It lists them at most once
// between two changes.
func (t *cpuTree[T]) ordered(time uint64) *leafOrder {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.view(time)
	if time != 0 {
		if t.past == nil {
			t.past = map[uint64]*leafOrder{}
		}
		if t.past[time] == nil {
			t.past[time] = t.putInOrder(&a)
		}
		return t.past[time]
	}
	if t.leaves == nil {
		t.leaves = t.putInOrder(&a)
	}
	return t.leaves
}

func (t *cpuTree[T]) putInOrder(a *view[T]) *leafOrder {
	level := []uint32{rootNode}
	for range a.depth() {
		below := make([]uint32, 0, len(level)*slotCount[T]())
		var room [mostSlots]slot[T]
		for i, id := range level {
			a.fetch(level[min(i+4, len(level)-1)])
			for _, c := range a.node(id).children(&room) {
				below = append(below, c.id())
			}
		}
		level = below
	}
	o := &leafOrder{ids: level, places: make([]uint32, t.control().top), starts: make([]uint64, len(level)+1)}
	for i, id := range level {
		a.fetch(level[min(i+8, len(level)-1)])
		o.places[id] = uint32(i)
		o.starts[i+1] = o.starts[i] + uint64(a.node(id).count())
	}
	return o
}

// place returns the leaf that has the pair of a rank, and the pair's index in it. The tree has more
// than rank pairs.
func (o *leafOrder) place(rank uint64) (leaf, at int) {
	i, _ := slices.BinarySearch(o.starts, rank+1)
	return i - 1, int(rank - o.starts[i-1])
}
