// Package sorted is an ordered map in a sorted array: a [Map] that takes batches of keys on
// every core of a CPU, and finds pairs by key, by ranges of keys and by their places.
//
// It is the sorted array that Awad's thesis measures its B-tree against ("Fully Concurrent GPU
// Data Structures", 2022, section 3.5), with all operations of ordered maps, snapshots, and keys of 32 and
// 64 bits, of which none is reserved.
//
// # When to choose it
//
// When the pairs are loaded at once, or in batches that are not small beside what is there:
// nothing is smaller, since there are pairs and nothing else, ranges are as fast as memory, and rank
// and place of a key are one search and one access. Every change copies all pairs, though: of
// 10⁷ pairs of 16 bytes a core copies some 10⁹ a second, for a batch of one key, too.
//
// # Layout
//
// Two arrays: the keys, in order, and the values in the order of the keys. A pair of 32-bit
// parts takes 8 bytes, one of 64-bit parts 16. Signed keys are stored with their sign bit
// turned, so that all are compared as unsigned numbers.
//
// # Lookups
//
// Sixteen keys are searched for at a time, by halving in step: their accesses of memory
// overlap, and no branch depends on what they find. Ranges are two such searches and a copy.
//
// # Changes
//
// A batch is sorted by a stable radix sort over the bits in which its keys differ, unless it is
// sorted already. The operations on each key are run in batch order, also those of mixed
// batches, so that duplicates cost nothing; what comes of them, at most one pair a key, is
// merged with the pairs into other memory. That becomes the map when it is complete: a batch
// is done as a whole or not at all, also when its context ends or memory runs out.
//
// Memory is that of the pairs twice, the second time for the next merge: memory that was the
// map before is used again, and [weft.OrderedMap.Compact] gives it back.
//
// # Snapshots and concurrency
//
// Pairs do not change once lookups see them. So lookups run beside changes, on a CPU, too, each
// on the pairs as they were when it began, and a snapshot costs nothing to take: it keeps
// the memory that the map was from being used again. While it is held, that is memory of all
// pairs once more, whatever the changes since; snapshots between which there was no change share it.
package sorted
