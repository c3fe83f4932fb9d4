// Package btree is an ordered map in a B-link tree: a [Map] whose keys are in the order of their
// type, on a GPU or on every core of a CPU, in nodes that change where they are.
//
// It is the B-tree of Awad's thesis ("Fully Concurrent GPU Data Structures", 2022, chapters 3 and
// 4) without the faults of the published code: no reader meets half of a change, latches are taken
// in one order, a node is found full again after each move, no key is reserved, and nodes that
// become small are merged.
//
// # When to choose it
//
// On a CPU, where it is ahead of package ordered, for it writes nodes where they are, and no index: most where a map
// is loaded (lab/NOTES.md). There, and where batches are small beside the map, a change costs a path
// to its leaf and no more.
//
// On a GPU package ordered is faster in all that has been measured: it has an index that stays in cache, and changes
// whole leaves at once. A tree whose readers and writers meet in one launch is for kernels of users ([Map.View],
// [Map.Update]): they look up, insert, combine and erase, and, with [OutOfPlace], take snapshots and read ranges at them,
// beside each other.
//
// # Layout
//
// A node is a header of 16 bytes and slots, pairs of a key and a value:
//
//	keys and values of 32 bits   128 bytes, 14 slots of 8 bytes
//	a part of 64 bits            256 bytes, 15 slots of 16 bytes
//
// A node of 128 bytes would have seven slots of the wider kind, and a tree of them nearly twice
// as many levels; two lines side by side cost less than a level. A slot is
// read and written in one access, and never half. In leaves the value is the value of the key, in
// inner nodes the number of a child, and the key is the smallest that the child may have. Signed keys
// are stored as unsigned numbers of the same order. The header has
//
//	high    the first key that does not belong to the node any more, but to the next one
//	link    the number of that node; none, if the node is the last one of its level
//	state   latch, changing, dead, the number of pairs, the level (leaves have 0), and a version
//
// Node 0 is the root, which is never a leaf: when it is full its slots go to two new nodes, so it
// keeps its number, and a tree without pairs has an empty leaf below it. Nodes lie side by side in
// an address range that grows where it is, so growth copies nothing. The first slots of a leaf are
// its pairs, in order. The slots of an inner node are in any order, and those behind its number of children repeat
// slot 0, which is the child with the smallest keys and stays that for as long as the node lives.
//
// # Reading
//
// A reader waits for no latch. It goes to the child with the largest key that is not larger than its
// own, or to the right where the high key says so, as in every B-link tree. In an inner node it needs no more than
// that each slot is one that was there at some time: whatever it misses of a change leads it too far
// to the left, and from there links lead on. So inner nodes are read once, without a version. Of a leaf all must be from one
// moment: a reader reads the state, the leaf, and the state again, and starts over if that is
// another or a change is under way, which is for as long as the stores of one node take.
// The blocks of a large batch of lookups on a GPU read the levels below the root first, and begin there: what has become of a node since leads them on.
//
// # Changing
//
// A writer goes down as a reader does, and splits full nodes on its way. It takes the latch of its
// leaf if it is free, and else starts over. Behind the latch it reads the leaf again, and goes to the right, the
// next latch before it gives up the first, while the key is not one of the leaf's. Only then it
// decides whether there is room, after every such move anew. Who splits a node or merges two has both and takes the
// parent's latch behind them: latches are taken from the left to the right and from below to above, so nobody
// waits in a circle; and nobody waits with a latch, but gives up what it has and starts over. The
// parent is latched before the new node can be reached, and gets it before its latch is free again: whoever has
// the latch of a parent finds every child in it.
//
// A batch goes another way, for writers that each look after a split by themselves take ten times as long for it as for a
// change: the tiles of a warp go to their leaves in step, change them and split those that are full, and list the new leaves. Links lead to these. Then
// a launch for each level puts what has been listed into its parents, and lists in turn what that splits. Only what did not work out in step, because
// two wanted a leaf at one moment, or a leaf has become small, is for writers as above, behind that.
//
// A leaf that has lost pairs until a quarter is left is merged with the next one below the same parent,
// if both fit one. What was the right one is dead: its link leads to the left one, which has its pairs. Inner nodes
// are merged alike. Dead nodes are used again when no reader is under way.
//
// # Batches
//
// A batch is sorted, and the operations on each key are run in batch order, so that duplicates and
// mixed batches have one outcome; what comes of each key is one change of the tree. Neighbouring
// keys go to a leaf together. With [Options.Unordered] operations go to the tree as they come, each by itself, as
// in the thesis. The first batch of an empty map is laid out from below, as full as Options.Fill says.
//
// Lookups of keys run beside changes. What reads more than one leaf, ranges, neighbours, counts
// and ranks, is run between batches, so that it is exact; a batch that comes later waits for it. Counts of
// ranges without a limit, ranks and places need the number of pairs before each leaf: the first of these calls
// after a change sorts all leaves by their first key; after that each is a binary search over the leaves.
//
// # On a CPU
//
// The same nodes, whose children are in order there. Changes exclude lookups, as in all structures on
// a CPU, so nothing is latched: the operations of a sorted batch are dealt out from the root to its children, subtrees are
// carried out by cores side by side, and nodes that go are free at once. Lookups take sixteen keys down a level
// at a time, so that the nodes of some are on their way while those of others are searched. A batch whose keys all fall
// into one leaf, behind all others for example, is one core's work.
//
// # Snapshots
//
// On a GPU, unless [Options.Versions] says otherwise, a snapshot keeps the nodes as they are: the first change after it
// copies all of them and goes on in the copy. That is as fast as memory, and as much memory again.
//
// With [InPlace] or [OutOfPlace] leaves have versions, as in chapter 4 of the thesis. Beside each node lie the time of what it
// has, and the number of the node that has what it was before: 16 bytes. The head of such a list keeps its address, so
// nothing above it changes when a leaf is copied. A clock moves on with each snapshot. InPlace copies a leaf before its
// first change since the newest snapshot that is held, which takes as much as the leaves that change, and changes it where it
// is else; the clock stands while a batch runs. Times and lists grow with the tree while a snapshot is held, or when kernels of users have seen it. OutOfPlace copies it before every change, since kernels of users may
// take a snapshot at any moment: a write has no time at first, and whoever meets it first, writer or reader, sets
// it by the clock (Wei et al., "Constant-time snapshots with applications to concurrent data structures", PPoPP 2021).
// Inner nodes have no versions, and splits copy nothing: the right node of a split begins with the list of the
// left one, so the leaf that has a key now leads to what had it at any time.
//
// Copies that a snapshot of the host may have are kept until it is closed, and go to the one before then if there is one.
// Others are free when no block of a launch can be in them (package internal/epoch), and used again in the same launch or
// a later one. [Stats] tells how many there are of each.
//
// Snapshots have one of three scopes (thesis, listing 4.1). Those of the host are [weft.OrderedMap.Snapshot]. Those of a
// stream are taken by a kernel, read by later ones of the stream, and dropped by one (VersionedRef::hold). Those of a tile last for
// a group of operations of its block (Session::snapshot), which is what makes a range linearizable beside changes.
//
// On a CPU snapshots are version lists, as in chapter 4 of the thesis. A node keeps its address; what it was
// moves to another node before it is changed for the first time since the newest snapshot, and from there a list leads
// on to what it was before. So a snapshot is free to take and costs the nodes that change, once for each snapshot that is held. What only an
// ended one has read is free with the next change.
package btree
