// Package lsm implements an ordered map as a log-structured merge tree. A [Map] takes batches of
// keys on all cores of a CPU or on a GPU. The cost of a change depends on the size of its batch,
// and hardly on the number of pairs.
//
// It is the structure that Awad's thesis compares its B-tree with ("Fully Concurrent GPU Data
// Structures", 2022, section 3.5): GPU LSM (Ashkiani and others, "GPU LSM: A Dynamic Dictionary
// Data Structure for the GPU", IPDPS 2018). It has all operations of ordered maps, snapshots, and
// keys of 32 and 64 bits. No key is reserved. A level is a sorted array as in package sorted.
//
// # When to choose it
//
// Choose it when small batches change a large map more often than the map is queried, and keys are
// queried by their order. A lookup searches the levels until one has the key, and all levels for an
// absent key. The number of levels is about log₂ of the number of batches. Package ordered looks
// up in one place. Package sorted does too, but it copies all pairs for each batch.
//
// # Layout
//
// The newest level, level 0, has up to [Options].Base entries. Level i has up to 2^i times as many.
// An entry is a key, a value and a byte. The byte is 1 if no older level has the key, 0 if the
// entry replaces a value in an older level, and -1 if the entry is a tombstone. So the sum of these
// bytes is the number of keys. Each level stores the sums before each sixteenth entry. With them,
// ranks and counts take one search per level, however many keys were deleted or overwritten. A pair
// takes 9.5 bytes with the index if both parts have 32 bits, and 17.8 bytes if both have 64.
//
// # Changes
//
// A batch is sorted by a stable radix sort. The operations on each key run in batch order, also in
// mixed batches. The results become a run of entries: at most one per key, and none for a key that
// does not change. The run is merged with the newest levels, up to the first level that has
// capacity for all of them together. Of the entries of one key only the newest remains. A tombstone
// is dropped as soon as it meets the entry that it deletes. So an inserted key moves at most twice
// per level, and on average once for each time that the map has doubled.
//
// The published tree does not look up the value of a key during an insertion. Here the sorted batch
// is looked up in each level. Insertions take longer for that, but it provides Len, the number of
// new keys, and ranks.
//
// A batch runs as a whole or not at all, also when its context ends or memory runs out. A batch
// smaller than the newest level is merged with that level, so even a change of one key rewrites it.
//
// DeleteRange writes a tombstone for each pair, unless it deletes all pairs. If dead entries
// outnumber keys after a call, all levels are merged. [weft.OrderedMap.Compact] does so at any
// time. It also frees the memory that is kept for merges, which is about as large as the levels.
//
// On a GPU a change waits for the device in three cases only. DeleteRange waits. A change waits if
// memory must be freed for it. A change also waits if earlier changes on streams were not waited
// for and may have doubled the tree. The size of such changes' levels is unknown, so each operation
// counts as an entry. Positions have 32 bits, so a tree has at most 4·10⁹ entries. Beyond that
// calls return [weft.ErrFull]. In batches that mix operations or combine values, one thread runs
// all operations on a key. So large numbers of operations on few keys are slow.
//
// # Lookups
//
// A range, forward or backward, merges the levels from its first key on. A long range is divided
// among the lanes of a warp, or the cores, which find their parts by rank. Select determines its
// key bit by bit, with a rank for each bit, so it costs 30 times as much as Rank. Successor and
// Predecessor skip a few tombstones one by one and many by one Select, so their cost does not
// depend on the number of tombstones. Iterations and Save do a Select every few thousand pairs, or
// every 64 on a GPU.
//
// # Snapshots and concurrency
//
// Levels do not change once lookups see them. So lookups run alongside changes, on a CPU too. Each
// lookup reads the levels as they were when it began. On a GPU's stream that is the state after the
// changes submitted before. A snapshot is free to take. While it is held, it keeps the memory of
// its levels that have since been merged. Large levels are merged rarely, so they stay shared for
// long.
package lsm
