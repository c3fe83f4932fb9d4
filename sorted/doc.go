// Package sorted is an ordered map in a sorted array: a [Map] that takes batches of keys on
// every core of a CPU or on a GPU, and finds pairs by key, by ranges of keys and by their
// places.
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
// parts takes 8 bytes, one of 64-bit parts 16. Behind them lies an index of some of the keys, a
// fifteenth as many: the last of each sixteen, the last of each sixteen of those, and so on. Signed keys
// are stored with their sign bit turned, so that all are compared as unsigned numbers.
//
// # Lookups
//
// A search goes down the index, sixteen keys a level: of 10⁸ keys seven levels, of which the
// cache has all but the last one or two. A CPU searches for sixteen keys at a time, whose accesses
// of memory overlap; no branch depends on what they find. A thread of a GPU reads a level's sixteen
// keys at once. Ranges are two such searches and a copy.
//
// # Changes
//
// A batch is sorted by a stable radix sort, on a CPU over the bits in which its keys differ, unless it
// is sorted already. The operations on each key are run in batch order, also those of mixed
// batches, so that duplicates cost nothing; what comes of them, at most one pair a key, is
// merged with the pairs into other memory. That becomes the map when it is complete: a batch
// is done as a whole or not at all, also when its context ends or memory runs out.
//
// Memory is that of the pairs twice, the second time for the next merge: memory that was the
// map before is used again, and [weft.OrderedMap.Compact] gives it back.
//
// On a GPU nothing of that waits for the device, but: a change whose predecessors on streams
// nobody has waited for, where they may have made the map twice as large; one behind lookups on other
// streams, of the map as it was, whose memory it frees or uses; and DeleteRange, whose ranges the host puts
// in order. There are places of 32 bits: an array on a GPU has 4·10⁹ pairs at most, then calls return
// [weft.ErrFull]. Of batches that mix operations or combine values, one thread runs all operations
// on a key, so that many on few keys take long.
//
// # Snapshots and concurrency
//
// Pairs do not change once lookups see them. So lookups run beside changes, on a CPU, too, each
// on the pairs as they were when it began (on a GPU's stream, as they are behind the changes that
// were submitted before), and a snapshot costs nothing to take: it keeps
// the memory that the map was from being used again. While it is held, that is memory of all
// pairs once more, whatever the changes since; snapshots between which there was no change share it.
package sorted
