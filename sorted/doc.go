// Package sorted implements an ordered map in a sorted array. A [Map] takes batches of keys on all
// cores of a CPU or on a GPU, and finds pairs by key, by range and by rank.
//
// It is the sorted array that Awad's thesis compares its B-tree with ("Fully Concurrent GPU Data
// Structures", 2022, section 3.5). It has all operations of ordered maps, snapshots, and keys of 32
// and 64 bits, none of them reserved.
//
// # When to choose it
//
// Choose it when the pairs are loaded at once, or in batches that are not small compared with the
// map. Nothing is smaller, since it stores only the pairs and a small index. Ranges run at the
// speed of memory, and rank and select of a key are one search and one access. But every change
// copies all pairs, even for a batch of one key. In a map of 10⁷ pairs of 16 bytes, a core copies
// about 10⁹ pairs per second.
//
// # Layout
//
// The memory has two arrays: the keys in order, and the values in the order of the keys. A pair of
// 32-bit parts takes 8 bytes, one of 64-bit parts 16. They are followed by an index of a fifteenth
// as many keys: the last of each sixteen, the last of each sixteen of those, and so on. Signed keys
// are stored with an inverted sign bit, so all keys compare as unsigned numbers.
//
// # Lookups
//
// A search descends the index, sixteen keys per level. That is seven levels for 10⁸ keys, and the
// cache holds all but the last one or two. A CPU searches for sixteen keys at a time, with
// overlapping memory accesses and without branches that depend on data. A GPU thread reads the
// sixteen keys of a level at once. A range is two such searches and a copy.
//
// # Changes
//
// A batch is sorted by a stable radix sort, unless it is sorted already. On a CPU the sort covers
// only the bits in which the keys differ. The operations on each key run in batch order, also in
// mixed batches, so duplicates cost nothing. The result, at most one pair per key, is merged with
// the pairs into other memory. That becomes the map when it is complete. So a batch is done as a
// whole or not at all, also when its context ends or memory runs out.
//
// Memory holds the pairs twice, the second time for the next merge, which reuses the memory of the
// previous state. [weft.OrderedMap.Compact] frees it.
//
// On a GPU only three cases wait for the device. They are DeleteRange, since the host orders its
// ranges, and a change after others on streams that were not waited for and may have doubled the
// map. The third is a change that frees or reuses memory which earlier lookups on other streams
// read. Positions have 32 bits, so an array on a GPU has at most 4·10⁹ pairs. Beyond that calls
// return [weft.ErrFull]. In batches that mix operations or combine values, one thread runs all
// operations on a key. Then large numbers of operations on few keys are slow.
//
// # Snapshots and concurrency
//
// Pairs do not change once lookups see them. So lookups run alongside changes, on a CPU too. Each
// reads the pairs as of its beginning. On a GPU's stream that is the state after the changes
// submitted before. A snapshot is free to take: it keeps the memory of the map from being reused.
// While it is held, it costs the memory of all pairs once more, whatever has changed since.
// Snapshots without a change between them share it.
package sorted
