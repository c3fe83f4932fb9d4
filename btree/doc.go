// Package btree implements an ordered map as a B-link tree. A [Map] keeps its keys in the order of
// their type, on a GPU or on all cores of a CPU, and changes its nodes in place.
//
// It is the B-tree of Awad's thesis ("Fully Concurrent GPU Data Structures", 2022, chapters 3 and
// 4) without the faults of the published code. No reader sees half of a change. Latches are taken
// in one order. A writer checks again after each move whether a node is full. No key is reserved,
// and nodes that become small are merged.
//
// # When to choose it
//
// On a CPU it is faster than package ordered, because it writes nodes in place and keeps no index.
// The gain is largest when a map is loaded (lab/NOTES.md). On a CPU, and wherever batches are small
// compared with the map, a change costs one path to its leaf.
//
// On a GPU package ordered is faster in everything that has been measured: its index stays in cache
// and it changes whole leaves at once. A tree that is read and written in one launch is meant for
// kernels of users ([Map.View], [Map.Update]). They look up, insert, combine and erase
// concurrently. With [OutOfPlace] they also take snapshots and read ranges at them.
//
// # Layout
//
// A node is a header of 16 bytes followed by slots, which are pairs of a key and a value:
//
//	keys and values of 32 bits   128 bytes, 14 slots of 8 bytes
//	a part of 64 bits            256 bytes, 15 slots of 16 bytes
//
// With 128 bytes a node would have seven slots of the wider kind, and a tree nearly twice as many
// levels. Two adjacent cache lines cost less than a level. A slot is read and written in one
// access, never in halves. In leaves a slot holds a key and its value. In inner nodes it holds the
// number of a child and the smallest key that the child may have. Signed keys are stored as
// unsigned numbers of the same order. The header has
//
//	high    the first key that belongs to the next node and no longer to this one
//	link    the number of the next node; none if the node is the last of its level
//	state   latch, changing, dead, the number of pairs, the level (leaves have 0), and a version
//
// Node 0 is the root, which is never a leaf. When it is full its slots move to two new nodes, so
// the root keeps its number. A tree without pairs has an empty leaf below the root. Nodes lie side
// by side in an address range that grows in place, so growth copies nothing. The first slots of a
// leaf are its pairs, in order. The slots of an inner node are in any order. The slots after the
// last child repeat slot 0. Slot 0 is the child with the smallest keys for as long as the node
// lives.
//
// # Reading
//
// A reader waits for no latch. It descends to the child with the largest key that does not exceed
// its own, or moves right when the high key says so, as in every B-link tree. In an inner node it
// only needs slots that were valid at some time. Whatever it misses of a change leads it too far to
// the left, and links lead on from there. So inner nodes are read once, without a version. A leaf
// must be read as of one moment. The reader reads the state, the leaf, and the state again. It
// starts over if the state differs or a change is under way, which lasts for the stores of one
// node. On a GPU, the blocks of a large batch of lookups first read the levels below the root and
// begin there. Links lead on from nodes that have changed since.
//
// # Changing
//
// A writer descends as a reader does and splits full nodes on its way. It takes the latch of its
// leaf if it is free, and otherwise starts over. It then reads the leaf again. While the key is
// beyond the leaf it moves right, taking the next latch before it releases the first. Only then
// does it check for capacity, again after every such move. A writer that splits a node or merges
// two holds their latches, and takes the parent's latch last. Latches are taken from left to right
// and from below to above, so no cycle of waiting writers can form. No writer waits while it holds
// a latch: it releases what it has and starts over. The parent is latched before the new node can
// be reached, and contains the new node before the latch of the split node is released. So the
// holder of a parent's latch finds every child in it.
//
// A batch takes another path, because writers that each complete their own splits take ten times as
// long for a split as for a change. The tiles of a warp descend to their leaves in step, change
// them, split those that are full, and list the new leaves. Links lead to these. A launch for each
// level then inserts the listed nodes into their parents and lists the nodes that this splits. What
// fails in step, because two tiles needed a leaf at once or a leaf has become small, is left to
// writers as above, in a later launch.
//
// A leaf that has shrunk to a quarter is merged with a neighbor below the same parent, if both
// together fill at most six sevenths of a node. The right one is then dead. Its link leads to the
// left one, which has its pairs. Inner nodes are merged alike. Dead nodes are reused when no reader
// is under way.
//
// # Batches
//
// A batch is sorted, and the operations on each key run in batch order, so duplicates and mixed
// batches have one outcome. All operations on a key become one change of the tree. Neighboring keys
// go to a leaf together. With [Options.Unordered] each operation goes to the tree by itself, in any
// order, as in the thesis. The first batch of an empty map is laid out bottom up, as full as
// Options.Fill says.
//
// Lookups of keys run alongside changes. Reads of more than one leaf (ranges, neighbors, counts and
// ranks) run between batches, so they are exact, and a later batch waits for them. Counts of ranges
// without a limit, ranks and Select need the number of pairs before each leaf. The first of these
// calls after a change sorts all leaves by their first key. After that each call is a binary search
// over the leaves.
// # On a CPU
//
// The nodes are the same, with children in order. Changes exclude lookups, as in all structures on
// a CPU, so nothing is latched. The operations of a sorted batch are divided from the root down
// among its children, cores run subtrees in parallel, and nodes that leave the tree are free at
// once. Lookups take sixteen keys down a level at a time, so the nodes of some keys are fetched
// while those of others are searched. A batch with all keys in one leaf, after all others for
// example, is the work of one core.
//
// # Snapshots
//
// On a GPU, unless [Options.Versions] says otherwise, a snapshot keeps the nodes as they are. The
// first change after it copies all of them and continues in the copy. The copy runs at the speed of
// memory and takes as much memory again.
//
// With [InPlace] or [OutOfPlace] leaves have versions, as in chapter 4 of the thesis. Each node has
// 16 more bytes: the time of its content, and the number of the node with its previous content. The
// head of such a list keeps its address, so nothing above a leaf changes when the leaf is copied. A
// clock advances with each snapshot.
//
// InPlace copies a leaf before its first change since the newest held snapshot, and otherwise
// changes it in place. This takes as much memory as the leaves that change. The clock stands still
// while a batch runs. Times and lists grow with the tree while a snapshot is held, or once kernels
// of users have read it.
//
// OutOfPlace copies a leaf before every change, because kernels of users may take a snapshot at any
// moment. A write has no time at first. The first reader or writer that meets it sets its time from
// the clock (Wei et al., "Constant-time snapshots with applications to concurrent data structures",
// PPoPP 2021). Inner nodes have no versions and splits copy nothing. The right node of a split
// begins with the list of the left one, so the leaf that now has a key leads to what held it at any
// time.
//
// Copies that a snapshot of the host may read are kept until it is closed. Then they pass to the
// snapshot before it, if there is one. Other copies are free once no block of a launch can be in
// them (package internal/epoch), and are reused in the same launch or a later one. [Stats] reports
// the number of each.
//
// Snapshots have one of three scopes (thesis, listing 4.1). Those of the host are
// [weft.OrderedMap.Snapshot]. Those of a stream are taken by a kernel, read by later kernels of the
// stream, and dropped by one (VersionedRef::hold). Those of a tile last for a group of operations
// of its block (Session::snapshot), which makes a range linearizable alongside changes.
//
// On a CPU snapshots are version lists too. A node keeps its address. Before its first change since
// the newest snapshot its content moves to another node, from which a list leads to older content.
// So taking a snapshot is free, and a held one costs each node that changes once. Nodes that only a
// closed snapshot read are free with the next change.
package btree
