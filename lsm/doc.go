// Package lsm is an ordered map in a log-structured merge tree: a [Map] that takes batches of keys on
// every core of a CPU or on a GPU, for which a change costs about what the batch is large, however
// many pairs there are.
//
// It is the structure that Awad's thesis measures its B-tree against ("Fully Concurrent GPU Data
// Structures", 2022, section 3.5): GPU LSM (Ashkiani and others, "GPU LSM: A Dynamic Dictionary Data
// Structure for the GPU", IPDPS 2018), with all operations of ordered maps, snapshots, and keys of 32
// and 64 bits, of which none is reserved. A level is a sorted array as in package sorted.
//
// # When to choose it
//
// When small batches come to a large map more often than it is asked, and keys are asked for by their
// order. A lookup searches each level until one has the key, of a key that is absent all: some log₂ of
// how many batches there have been. Package ordered looks up in one place; package sorted does, too,
// and copies everything for a batch.
//
// # Layout
//
// Level i has up to 2^i times as many entries as [Options] says that the newest may have. An entry is
// a key, a value and a byte: 1, if no older level has the key; 0, if it has another value for one; -1
// for its tombstone. So these bytes add up to the number of keys, and with their sums before each sixteenth
// entry ranks and counts are one search a level, whatever was deleted or written again. A pair of
// 32-bit parts takes 9.5 bytes, one of 64-bit parts 17.8, with the index.
//
// # Changes
//
// A batch is sorted by a stable radix sort, and the operations on each key are run in batch order, also
// those of mixed batches, on the value that the key has. What they come to becomes a run of entries: at
// most one a key, none for a key that stays what it is. The run is merged with the levels that are
// newer than the first with room for all of these together. Of entries with one key the newest is left; a
// tombstone goes as soon as it meets what it deletes. So a key that is inserted moves twice a level at
// most, on average once for each time that the map has become twice as large.
//
// The published tree leaves out the look at the value that a key has. It is what an insertion pays
// here for Len, for the number of new keys and for ranks: a lookup, of a sorted batch, in each level.
//
// A batch is done as a whole or not at all, also when its context ends or memory runs out. A batch of less
// than the newest level may have is merged with it, so single keys cost as much as it has entries.
//
// DeleteRange writes a tombstone for each pair, unless all go. Where entries in vain are more than keys,
// all levels are merged behind a call; [weft.OrderedMap.Compact] does it at any time, and gives back the
// memory that is kept for merges, about as much as the levels have.
//
// On a GPU nothing of that waits for the device, but: a change whose predecessors on streams
// nobody has waited for, where they may have made the tree twice as large; one whose memory has to be
// freed for it; and DeleteRange. Levels of batches that nobody has waited for count as if all their
// operations had become entries. There are places of 32 bits: a tree has 4·10⁹ entries at most, then calls
// return [weft.ErrFull]. Of batches that mix operations or combine values, one thread runs all operations
// on a key, so that many on few keys take long.
//
// # Lookups
//
// A range, forward or backward, merges the levels from its first key on. Long ones are shared among the lanes of
// a warp, or the cores; they find their places by rank. Select settles its key bit by bit, a rank each: 30
// times as dear as Rank. Neighbors pass some tombstones one by one, and many by one Select, so none
// waits for how many there are. Iterations and Save do a Select every some thousand pairs, on a GPU every 64.
//
// # Snapshots and concurrency
//
// Levels do not change once lookups see them. So lookups run beside changes, on a CPU, too, each
// on the levels as they were when it began (on a GPU's stream, as they are behind the changes that
// were submitted before), and a snapshot costs nothing to take. While it is held, it keeps the memory of
// those of its levels that have been merged since; the large ones are shared for long.
package lsm
