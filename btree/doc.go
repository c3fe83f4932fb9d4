// Package btree implements an ordered map as a B-link tree. A [Map] stores its keys in the order of
// their type, on a GPU or on all cores of a CPU, and changes its nodes in place.
//
// It is the B-tree of Awad's thesis ("Fully Concurrent GPU Data Structures", 2022, chapters 3 and
// 4), without the faults of the published code. No reader sees half of a change. Latches are taken
// in one order. A writer checks again after each move whether a node is full. No key is reserved,
// and nodes that become small are merged.
//
// # When to choose it
//
// On a CPU it is faster than package ordered, because it writes nodes in place and keeps no index.
// The gain is largest when a map is loaded (lab/NOTES.md). On a CPU, and wherever batches are small
// compared with the map, a change costs one path to its leaf.
//
// On a GPU package ordered is faster for lookups, ranges and large batches. Its index stays in
// cache and it changes whole leaves at once. Choose this package for kernels of users that read and
// write the tree in one launch ([Map.View], [Map.Update]). They look up, insert, combine and erase
// concurrently. With [OutOfPlace] they also take snapshots and read ranges at them.
//
// # Layout
//
// A node is a header of 16 bytes followed by slots, which are pairs of a key and a value:
//
//	keys and values of 32 bits   128 bytes, 14 slots of 8 bytes
//	a part of 64 bits            256 bytes, 15 slots of 16 bytes
//
// A node of 128 bytes would have only seven slots of 16 bytes, and a tree nearly twice as many
// levels. Two adjacent cache lines cost less than a level. A slot is read and written in one
// access. In leaves a slot has a key and its value. In inner nodes it has the number of a child and
// the child's low key, the smallest key that the child may have. Signed keys are stored as unsigned
// numbers of the same order. The header has
//
//	high    the first key that belongs to the next node and no longer to this one
//	link    the number of the next node; none if the node is the last of its level
//	state   latch, changing, dead, the number of pairs, the level (leaves have 0), and a version
//
// Node 0 is the root, which is never a leaf. When the root is full its slots move to two new nodes,
// so the root keeps its number. A tree without pairs has an empty leaf below the root. Nodes lie
// side by side in an address range that grows in place, so growth copies nothing. The first slots
// of a leaf are its pairs, in order. The slots of an inner node are in any order, except that slot
// 0 always has the child with the smallest keys. The slots after the last child repeat slot 0.
//
// # Reading
//
// A reader waits for no latch. It descends to the child with the largest low key that does not
// exceed the search key. If the search key is not below the high key of a node, it moves right, as
// in every B-link tree. In an inner node a reader only needs slots that were valid at some time. If
// it misses a part of a change, it gets too far to the left, and links lead on from there. So inner
// nodes are read once, without a version. A leaf must be read as of one moment. The reader reads
// the state, the leaf, and the state again. It starts over if the states differ or a change is
// under way, which lasts for the stores to one node. On a GPU, the blocks of a large batch of
// lookups first read the levels below the root, and begin there. If a node has changed since, links
// lead on from it.
//
// # Changing
//
// A writer descends as a reader does, and splits full nodes on its way. It takes the latch of its
// leaf if the latch is free, and otherwise starts over. It then reads the leaf again. While the key
// is beyond the leaf it moves right, and takes the next latch before it releases the first. Only
// then does it check for capacity. A writer that splits a node or merges two nodes holds their
// latches, and takes the parent's latch last. Latches are taken from left to right and from bottom
// to top, so no cycle of waiting writers can form. A writer that finds a latch taken does not wait:
// it releases its latches and starts over. The parent is latched before the new node can be
// reached, and contains the new node before the latch of the split node is released. So the holder
// of a parent's latch finds every child in the parent.
//
// A batch takes another path, because writers that complete their own splits take ten times as long
// for a split as for a change. The tiles of a warp descend to their leaves in step, change the
// leaves, split full ones, and list the new leaves, to which links lead. One launch per level then
// inserts the listed nodes into their parents, and lists the nodes that this splits. If two tiles
// need a leaf at the same time, or a leaf has become small, the row is left to a later launch, with
// writers as above.
//
// A leaf that has shrunk to a quarter is merged with a neighbor below the same parent, if both
// together fill at most six sevenths of a node. The right leaf is then dead, and its link leads to
// the left leaf, which has its pairs. Inner nodes are merged in the same way. Dead nodes are reused
// when no reader is under way.
//
// # Batches
//
// A batch is sorted, and the operations on each key run in batch order, so batches with duplicates
// and mixed batches have deterministic results. All operations on a key become one change of the
// tree. Neighboring keys reach a leaf together. With [Options.Unordered] each operation changes the
// tree by itself, in any order, as in the thesis. The first batch of an empty map is laid out
// bottom up, as full as Options.Fill says.
//
// Lookups of keys run alongside changes. Reads of more than one leaf (ranges, neighbors, counts and
// ranks) run between batches, so they are exact, and a later batch waits for them. Ranks, Select,
// and counts of ranges without a limit need the number of pairs before each leaf. The first such
// call after a change sorts all leaves by their first key. Each later call is a binary search over
// the leaves.
//
// # On a CPU
//
// The nodes are the same, with children in order. Changes exclude lookups, as in all structures on
// a CPU, so nothing is latched. The operations of a sorted batch are divided among the children of
// each node, from the root down. Cores run subtrees in parallel, and nodes that leave the tree are
// free at once. Lookups take sixteen keys down a level at a time, so the nodes of some keys are
// fetched while other nodes are searched. If all keys of a batch belong to one leaf, one core runs
// the batch. Appending keys after all others is an example.
//
// # Snapshots
//
// On a GPU, with the default [Whole], a snapshot keeps all nodes as they are. The first change
// after it copies them and continues in the copy. The copy runs at the speed of memory and doubles
// the memory of the tree.
//
// With [InPlace] or [OutOfPlace] leaves have versions, as in chapter 4 of the thesis. Each node has
// 16 more bytes: the time of its content, and the number of the node with its previous content. The
// head of such a list keeps its address, so nothing above a leaf changes when the leaf is copied. A
// clock advances with each snapshot.
//
// InPlace copies a leaf before its first change since the newest held snapshot, and otherwise
// changes the leaf in place. This takes as much memory as the leaves that change. The clock does
// not advance while a batch runs. Times and lists grow with the tree while a snapshot is held, or
// once kernels of users have used the map.
//
// OutOfPlace copies a leaf before every change, because kernels of users may take a snapshot at any
// moment. A write has no time at first. The first reader or writer that meets the write sets the
// time from the clock (Wei et al., "Constant-time snapshots with applications to concurrent data
// structures", PPoPP 2021). Inner nodes have no versions, and splits copy nothing. The right node
// of a split begins with the list of the left one. So the leaf that has a key now leads to the
// content that had the key at any time.
//
// Copies that a snapshot of the host may read are kept until the snapshot is closed. Then they are
// kept for the previous snapshot, if it reads them. Other copies are free once no block of a launch
// can be in them (package internal/epoch), and are reused in the same launch or a later one.
// [Stats] reports the number of each.
//
// Snapshots have one of three scopes (thesis, listing 4.1). A snapshot of the host is taken with
// [weft.OrderedMap.Snapshot]. A snapshot of a stream is taken by a kernel, read by later kernels of
// the stream, and dropped by a kernel (VersionedRef::hold). A snapshot of a tile lasts for a group
// of operations in its block (Session::snapshot), and makes a range linearizable alongside changes.
//
// On a CPU snapshots are version lists too. A node keeps its address. Before its first change since
// the newest snapshot, its content is copied to another node, and the node then leads to this older
// content. So taking a snapshot is free, and a held snapshot costs one copy of each node that
// changes. Nodes that only a closed snapshot read are free with the next change.
package btree
