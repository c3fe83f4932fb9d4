package btree

import (
	"structs"

	"github.com/weftgo/weft/internal/core"
)

// The memory of a tree, the same on every device (twin:
// btree_node.cuh in kernels/include/weft). All numbers are little-endian.
//
//	0      control (one of [control])
//	4096   node 0, the root; node 1; …
//
// A node is 128 bytes where keys and values have 32 bits, else 256 bytes:
//
//	0      high   uint64, the first key that belongs to the next node; see link
//	8      link   uint32, the next node of the level; noNode: there is none, and high means nothing
//	12     state  uint32, see the bits below
//	16     slots  of 8 bytes: value uint32, key uint32, so as one number the key lies above
//	              of 16 bytes: value uint64, key uint64; parts of 32 bits lie in the lower half
//
// Rules, which Check looks at where nothing is under way (changing and latch bits are zero then):
//
//   - Keys are unsigned numbers in order (core.Type.Order).
//   - Every leaf has level 0, every child one level less than its parent, the root at least 1.
//   - A node has the keys from its low key on, up to its high key; its low key is that of its
//     slot in its parent, and never changes. The low key of the leftmost node of each level is 0.
//   - Leaf: slots [0,count) are pairs in ascending order. Others hold anything. count may be 0.
//   - Inner node: slots [0,count) are children, each with its low key, in any order but for slot
//     0, which has the smallest and the node's own low key. Slots behind repeat slot 0. count is at
//     least 1. All live nodes of a level, and no others, are children of the level above once
//     changes are done, and links lead through them in order.
//   - A dead node (bit) has been merged into the one on its left. Of a dead leaf the link is the
//     node that has its pairs now; a dead inner node keeps high, link and slots. Dead nodes lie in no
//     parent; they become free when no reader can be in one. Free nodes are dead nodes with level freeLevel.
//
// # Latches and versions
//
// A writer sets the latch bit by compare-and-swap (acquire); nobody else writes the node
// until it clears the bit (release). Before it stores to a leaf it sets the changing bit, and makes
// sure that whoever sees one of its stores sees that bit, or the state that comes after; the store
// that clears both raises the version by one. A reader of a leaf reads state (acquire), contents
// (acquire), state; both must be equal, and not changing. Stores to an inner node are single slots, and the header
// in one access of 16 bytes; readers need no version. But: slots of a new node, and the new
// node's header, are stored before the header or the slot that leads to it (release), and readers acquire that.
//
// Latches are taken in one order: of a level from the left to the right; a parent behind its
// child. Who finds a latch taken gives up all that it has and starts over. After taking a latch, and after
// every move to the right, a writer looks again whether the node is dead, has its key, and is full.
//
// A split: latch node, look; take a new node; latch the parent (level + 1, moving right), which must
// hold the node and not be full, else start over; write the right node; write the node's header
// (high, link, count) and slots; put the right node into the parent; free parent, then node. The root is split by moving all
// its slots to two new nodes, under its latch alone.
//
// A split in a batch: latch leaf, look; take a new node; write the right node; write the leaf's header, which leads to it; free leaf. The parent does
// not have the right node then, until a later launch of the same batch latches it and puts the node there, level by level: there is no merge, and no other split, before
// all nodes are children again.
//
// A merge: latch left, latch right (left's link), latch the parent, which must hold both; write left with all
// slots, right's high and link; mark right dead, its link leading left; take it out of the parent (the last slot
// takes its place, and that slot repeats slot 0); free parent, right, left.
const (
	controlBytes = 4096
	headerBytes  = 16

	noNode   = ^uint32(0)
	rootNode = 0
	leafNode = 1 // the first leaf, of an empty tree
	newNodes = 2 // that an empty tree has

	// maxNodes is the number of nodes of a tree, at most.
	maxNodes = 1 << 31

	// Bits of a state.
	latched      = 1 << 0
	changing     = 1 << 1
	dead         = 1 << 2
	countShift   = 3
	countMask    = 31
	levelShift   = 8
	levelMask    = 15
	versionShift = 12

	// freeLevel is the level of nodes that are free.
	freeLevel = levelMask
)

// shape is what depends on the widths of keys and values.
type shape struct {
	slot  int // bytes
	node  int // bytes
	slots int // of a node
	few   int // pairs or children below which a node is merged with the next, if both have at most many
	many  int
}

// shapeOf is the shape for slots of so many bytes.
func shapeOf(slotBytes int) shape {
	s := shape{slot: slotBytes, node: 128}
	if slotBytes == 16 {
		s.node = 256
	}
	s.slots = (s.node - headerBytes) / slotBytes
	s.few, s.many = (s.slots+3)/4, s.slots*6/7
	return s
}

// header is the first 16 bytes of a node.
type header struct {
	_     structs.HostLayout
	high  uint64
	link  uint32
	state uint32
}

func (h *header) count() int      { return int(h.state >> countShift & countMask) }
func (h *header) level() int      { return int(h.state >> levelShift & levelMask) }
func (h *header) isDead() bool    { return h.state&dead != 0 }
func (h *header) isLatched() bool { return h.state&(latched|changing) != 0 }

// stateOf is a state of version 0.
func stateOf(level, count int) uint32 { return uint32(level)<<levelShift | uint32(count)<<countShift }

// has reports whether a key, which is not below the node's low key, is one of the node.
func (h *header) has(key uint64) bool { return h.link == noNode || key < h.high }

// wideSlot is a slot of 16 bytes; one of 8 is key<<32 | value.
type wideSlot struct {
	_        structs.HostLayout
	val, key uint64
}

// control lies at the beginning of the memory (twin: Control in btree_node.cuh).
type control struct {
	_     structs.HostLayout
	tally core.Tally
	// Nodes are given out by adding to taken: number i is freed[i] while i < free, and else
	// top + i - free. free, taken and top are made anew when dead nodes become free.
	top   uint32
	free  uint32
	taken uint32
	// dead is how many nodes have died since then, or were taken and not used.
	dead uint32
}
