package btree

import (
	"structs"

	"github.com/weftgo/weft/internal/core"
)

// The memory of a tree is the same on every device (see btree_node.cuh in kernels/include/weft).
// All numbers are little-endian.
//
//	0      control (one of [control])
//	4096   node 0, the root; node 1; …
//
// A node has 128 bytes if keys and values have 32 bits, and 256 bytes otherwise:
//
//	0      high   uint64, the first key that belongs to the next node; see link
//	8      link   uint32, the next node of the level; noNode if none, then high has no meaning
//	12     state  uint32, see the bits below
//	16     slots  of 8 bytes: value uint32, key uint32, so the key is the upper half of the word
//	              of 16 bytes: value uint64, key uint64; parts of 32 bits lie in the lower half
//
// Check verifies these rules while no change runs. The bits changing and latched are zero then.
//
//   - Keys are unsigned numbers in order (core.Type.Order).
//   - Every leaf has level 0, every child one level less than its parent, the root at least 1.
//   - A node has the keys from its low key up to its high key. Its low key is the key of its slot
//     in its parent, and never changes. The low key of the leftmost node of each level is 0.
//   - Leaf: slots [0,count) are pairs in ascending order. The other slots are undefined. count may
//     be 0.
//   - Inner node: slots [0,count) are children, each with its low key. Slot 0 has the smallest key,
//     which is the low key of the node. The other children are in any order. Slots from count on
//     repeat slot 0. count is at least 1. Once changes are done, exactly the live nodes of a level
//     are children of the level above, and links lead through them in order.
//   - A dead node (bit dead) has been merged into its left neighbor. The link of a dead leaf leads
//     to the node that now has its pairs. A dead inner node keeps high, link and slots. Dead nodes
//     have no parent. They become free when no reader can be in one. Free nodes are dead nodes with
//     level freeLevel.
//
// # Latches and versions
//
// A writer sets the latch bit by compare-and-swap (acquire). Nothing else writes the node until the
// writer clears the bit (release). Before it stores to a leaf, the writer sets the changing bit. A
// reader that sees one of its stores then also sees that bit, or a later state. The store that
// clears both bits increments the version. A reader of a leaf reads state (acquire), contents
// (acquire), state. Both states must be equal, and not changing. Stores to an inner node are single
// slots, and the header in one access of 16 bytes, so readers need no version. The slots and the
// header of a new node are stored before the header or the slot that leads to it (release), and
// readers acquire that.
//
// Latches are taken in one order: on a level from left to right, and a parent after its child. A
// writer that finds a latch taken releases all its latches and starts over. After taking a latch,
// and after every move to the right, a writer checks again whether the node is dead, has its key,
// and is full.
//
// A split: latch the node and check it. Take a new node. Latch the parent (level + 1, moving
// right), which must contain the node and not be full, or else start over. Write the right node.
// Write the node's header (high, link, count) and slots. Insert the right node into the parent.
// Release the parent, then the node. The root is split by moving all its slots to two new nodes,
// under its latch alone.
//
// A split in a batch: latch the leaf and check it. Take a new node. Write the right node. Write the
// leaf's header, which leads to it. Release the leaf. The parent lacks the right node until a later
// launch of the same batch latches the parent and inserts the node, level by level. No merge and no
// other split happens before all nodes are children again.
//
// A merge: latch left. Latch right (left's link). Latch the parent, which must contain both. Write
// left with all slots, and right's high and link. Mark right dead, with its link leading left.
// Remove it from the parent: the last slot takes its place, and that slot then repeats slot 0.
// Release parent, right, left.
const (
	controlBytes = 4096
	headerBytes  = 16

	noNode   = ^uint32(0)
	rootNode = 0
	leafNode = 1 // the first leaf of an empty tree
	newNodes = 2 // number of nodes of an empty tree

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

	// freeLevel is the level that is stored in free nodes.
	freeLevel = levelMask
)

// shape is the part of the layout that depends on the widths of keys and values.
type shape struct {
	slot  int // size of a slot in bytes
	node  int // size of a node in bytes
	slots int // number of slots per node
	// minSlots is the number of slots in use below which a node is merged with a neighbor. Both
	// together may use at most maxMerged slots.
	minSlots  int
	maxMerged int
}

// shapeOf returns the shape for a size of slots in bytes.
func shapeOf(slotBytes int) shape {
	s := shape{slot: slotBytes, node: 128}
	if slotBytes == 16 {
		s.node = 256
	}
	s.slots = (s.node - headerBytes) / slotBytes
	s.minSlots, s.maxMerged = (s.slots+3)/4, s.slots*6/7
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

// stateOf returns a state with version 0.
func stateOf(level, count int) uint32 { return uint32(level)<<levelShift | uint32(count)<<countShift }

// has reports whether a key belongs to the node. key must be at least the low key.
func (h *header) has(key uint64) bool { return h.link == noNode || key < h.high }

// wideSlot is a slot of 16 bytes. A slot of 8 bytes is the word key<<32 | value.
type wideSlot struct {
	_        structs.HostLayout
	val, key uint64
}

// control lies at the beginning of the memory of a tree (Control in btree_node.cuh).
type control struct {
	_     structs.HostLayout
	tally core.Tally
	// To allocate a node, add one to taken. Allocation i gets node freed[i] if i < free, and node
	// top + i - free otherwise. free, taken and top are set anew when dead nodes become free.
	top   uint32
	free  uint32
	taken uint32
	// dead counts the nodes that have died since the last reclaim, and those taken but not used.
	dead uint32
}
