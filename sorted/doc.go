// Package sorted implements an ordered map in a sorted array. A [Map] takes batches of keys on all
// cores of a CPU or on a GPU, and finds pairs by key, by range and by rank.
//
// It is the sorted array that Awad's thesis compares its B-tree with ("Fully Concurrent GPU Data
// Structures", 2022, section 3.5). It has all operations of ordered maps, snapshots, and keys of 32
// and 64 bits. No key is reserved.
//
// # When to choose it
//
// Choose it when the pairs are loaded at once, or in batches that are not small compared with the
// map. No other structure is smaller, since it stores only the pairs and a small index. Ranges run
// at the speed of memory. Rank is one search, and Select is one access. But every change copies all
// pairs, even for a batch of one key. In a map of 10⁷ pairs of 16 bytes, a core copies about
// 10⁹ pairs per second.
//
// # Layout
//
// The memory has two arrays: the keys in order, and the values in the order of the keys. A pair
// takes 8 bytes if both parts have 32 bits, and 16 bytes if both have 64. After the arrays lies an
// index that has a fifteenth as many keys: the last of each sixteen keys, the last of each sixteen
// of those, and so on. Signed keys are stored with an inverted sign bit, so all keys compare as
// unsigned numbers.
//
// # Lookups
//
// A search descends the index and reads sixteen keys per level. 10⁸ keys have seven levels, and
// all but the last one or two stay in cache. A CPU searches for sixteen keys at a time, with
// overlapping memory accesses and without branches that depend on data. A GPU thread reads the
// sixteen keys of a level at once. A range takes two searches and a copy.
//
// # Changes
//
// A batch is sorted by a stable radix sort, unless it is sorted already. On a CPU the sort covers
// only the bits in which the keys differ. The operations on each key run in batch order, also in
// mixed batches, so duplicates cost nothing. The result, at most one pair per key, is merged with
// the pairs into other memory. When the merge is complete, that memory becomes the map. So a batch
// runs as a whole or not at all, also when its context ends or memory runs out.
//
// The map uses memory for the pairs twice. The second part is for the next merge, which reuses the
// memory of the previous state. [weft.OrderedMap.Compact] frees it.
//
// On a GPU a change waits for the device in three cases only. DeleteRange waits, since the host
// orders its ranges. A change waits if earlier changes on streams were not waited for and may have
// doubled the map. A change also waits if it frees or reuses memory that earlier lookups on other
// streams read. Positions have 32 bits, so an array on a GPU has at most 4·10⁹ pairs. Beyond
// that calls return [weft.ErrFull]. In batches that mix operations or combine values, one thread
// runs all operations on a key. So large numbers of operations on few keys are slow.
//
// # Snapshots and concurrency
//
// Pairs do not change once lookups see them. So lookups run alongside changes, on a CPU too. Each
// lookup reads the pairs as they were when it began. On a GPU's stream that is the state after the
// changes submitted before. A snapshot is free to take: it only keeps the memory of the map from
// being reused. While it is held and the map has changed, it costs the memory of all pairs once
// more. Snapshots without a change between them share that memory.
package sorted
