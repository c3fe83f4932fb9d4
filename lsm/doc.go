// Package lsm implements an ordered map as a log-structured merge tree. A [Map] takes batches of
// keys on all cores of a CPU or on a GPU. A change costs about as much as its batch is large,
// regardless of the number of pairs.
//
// It is the structure that Awad's thesis compares its B-tree with ("Fully Concurrent GPU Data
// Structures", 2022, section 3.5): GPU LSM (Ashkiani and others, "GPU LSM: A Dynamic Dictionary
// Data Structure for the GPU", IPDPS 2018). It has all operations of ordered maps, snapshots, and
// keys of 32 and 64 bits, none of them reserved. A level is a sorted array as in package sorted.
//
// # When to choose it
//
// Choose it when small batches change a large map more often than it is queried, and keys are
// queried by their order. A lookup searches the levels until one has the key, and all of them for
// an absent key. Their number is about log₂ of the number of batches. Package ordered looks up in
// one place. So does package sorted, which copies everything for a batch.
//
// # Layout
//
// Level i has up to 2^i times as many entries as [Options] allows for the newest. An entry is a
// key, a value and a byte. The byte is 1 if no older level has the key, 0 if it has another value
// of the key, and -1 for a tombstone of the key. So these bytes sum up to the number of keys. With
// their sums before each sixteenth entry, ranks and counts take one search per level, whatever was
// deleted or overwritten. A pair of 32-bit parts takes 9.5 bytes with the index, one of 64-bit
// parts 17.8.
//
// # Changes
//
// A batch is sorted by a stable radix sort. The operations on each key run in batch order on the
// value of the key, also in mixed batches. The results become a run of entries: at most one per
// key, and none for a key that stays what it is. The run is merged with all levels newer than the
// first level that has capacity for all of them together. Of the entries of one key the newest
// remains. A tombstone is dropped as soon as it meets the entry that it deletes. So an inserted key
// moves at most twice per level, and on average once for each time that the map has doubled.
//
// The published tree does not look up the value of a key. Here an insertion pays for that lookup,
// of a sorted batch in each level, to provide Len, the number of new keys, and ranks.
//
// A batch is done as a whole or not at all, also when its context ends or memory runs out. A batch
// smaller than the newest level is merged with it, so a single key costs as much as that level has
// entries.
//
// DeleteRange writes a tombstone for each pair, unless all pairs go. When dead entries outnumber
// keys, all levels are merged after a call. [weft.OrderedMap.Compact] does so at any time. It also
// frees the memory that is kept for merges, which is about as large as the levels.
//
// On a GPU only three cases wait for the device. They are DeleteRange, a change for which memory
// must be freed, and a change after others on streams that were not waited for and may have doubled
// the tree. Levels of batches that were not waited for count as if every operation had become an
// entry. Positions have 32 bits, so a tree has at most 4·10⁹ entries. Beyond that calls return
// [weft.ErrFull]. In batches that mix operations or combine values, one thread runs all operations
// on a key. Then large numbers of operations on few keys are slow.
//
// # Lookups
//
// A range, forward or backward, merges the levels from its first key on. A long one is shared among
// the lanes of a warp, or the cores, which find their parts by rank. Select determines its key bit
// by bit, with a rank for each, so it costs 30 times as much as Rank. Neighbors skip a few
// tombstones one by one and many by one Select, so their cost does not depend on the number of
// tombstones. Iterations and Save do a Select every few thousand pairs, or every 64 on a GPU.
//
// # Snapshots and concurrency
//
// Levels do not change once lookups see them. So lookups run alongside changes, on a CPU too. Each
// reads the levels as of its beginning. On a GPU's stream that is the state after the changes
// submitted before. A snapshot is free to take. While it is held, it keeps the memory of those of
// its levels that have been merged since. The large levels are shared for long.
package lsm
