// Package slab implements the slab hash: a [Map], a [Set] and a [MultiMap]. They take batches of
// keys, on every core of a CPU or on a GPU. Their memory grows without moving existing pairs. Slabs
// come from package alloc, an allocator of fixed-size units.
//
// The structure is that of Ashkiani, Farach-Colton and Owens, "A Dynamic Hash Table for the GPU"
// (IPDPS 2018). It is complete: SEARCH, SEARCHALL, INSERT, REPLACE, DELETE, DELETEALL and FLUSH,
// the slab list, SlabAlloc and its light variant. It adds 32- and 64-bit keys and values, growth,
// iteration and statistics. It removes the limits of the paper. No key is reserved, the pool does
// not run dry, and concurrent inserts and deletes of a key leave no duplicates.
//
// # When to choose it
//
// Choose slab in these cases:
//
//   - A key may have several values: use a [MultiMap].
//   - Many operations change the structure while others read it.
//   - Growth must not stop for a rehash: with Options.Buckets only chains grow.
//   - Misses are frequent at high utilization. A search ends at the end of its bucket's chain, in
//     one or two memory accesses, however full the other buckets are.
//
// Otherwise package linear is faster. At moderate loads a lookup there reads 32 bytes, here 128. To
// fill memory to 0.9 and more, choose package horton or cuckoo, which read less per lookup. At 0.9,
// horton reads on average 1.15 buckets of 8 slots for a present key and 1.05 for an absent one. A
// bucket has 64 bytes with 32-bit keys and values. cuckoo reads at most two buckets. Both must
// rehash to grow, where slab may let its chains grow.
//
// # Layout
//
// A bucket is a chain of slabs of 128 bytes, the most that a GPU fetches for one address. A slab
// has 15 slots of 8 bytes for 32-bit keys with 32-bit values, and 7 of 16 bytes for pairs with a
// 64-bit part. In sets it has 30 or 15 slots of the bare key. Its last 8 bytes are a link. The
// first slab of each bucket, the base slab, is part of an array. The chained slabs come from an
// [alloc.Pool] and have 32-bit addresses.
//
// Slots fill from the front, slab by slab, and a new slab is linked only to a full one. So an empty
// slot ends every search, and two threads that insert one key meet at the same slot: one wins, the
// other finds the key. Empty slabs and free units are all ones, like empty slots and missing links.
// Linking a slab is therefore one compare-and-swap, with nothing to write before it.
//
// Deleting a key leaves a tombstone, a dead slot. In a map, batches of inserts take dead slots, and
// any batch returns a key to the slot that remembers it. A multimap leaves dead slots alone, since
// the order of slots is the order of a key's pairs. A flush drops the dead slots of a bucket and
// frees the slabs that this empties. Compact flushes, and a structure flushes itself when
// Options.MaxTombstones of its slots are dead.
//
// The keys ^0 to ^0-3 are sentinels that mark a slot without a key. User keys with those values are
// stored as their complements 0 to 3 in a bucket of their own. So every key is legal, and ordinary
// keys pay one comparison.
//
// # Growth
//
// Options.MaxLoad, the share of the slabs' memory that holds pairs, determines the number of
// buckets for a number of keys. With a quarter more keys than that, the structure rehashes to at
// least twice the buckets. The pool of slabs grows between batches, which moves nothing and blocks
// no caller. Operations of a batch that find no slab are retried after the pool has grown, before
// the call returns.
//
// Iteration reads the buckets in an order that is unrelated to their addresses (core.WeylOrder). So
// deleting or copying in iteration order costs the same as in any other order.
//
// # Concurrency
//
// Package weft documents which calls run concurrently. On a GPU, lookups run alongside changes,
// including growth of the buckets and of the pool. Clear and a flush exclude lookups.
//
// A lookup of host slices, and an iteration, sees every change of a call that has returned and
// every On change submitted before it. It waits for nothing else. An On lookup sees three kinds of
// changes: those submitted to its stream before it, those that an event of the caller orders before
// it, and those that the host had waited for. Alongside a batch with ordered duplicates, it may
// find the value of a duplicate that does not count in the end.
//
// Within a launch, operations are concurrent and lock-free on GPUs of compute capability 9.0: one
// 64- or 128-bit compare-and-swap publishes a pair. Older GPUs have no 128-bit compare-and-swap.
// There, a writer of a 16-byte slot marks it pending for the time of one store, and others wait for
// that store. Operations on one key of a map or a set are linearizable. The outcome of a launch on
// a multimap is that of some order of its operations, where DeleteAll removes one pair after
// another. change.cuh, search.cuh and slot.cuh hold the arguments next to the code.
//
// # Duplicates within a batch
//
// Package weft promises an order among the Puts, PutNews and Deletes of a map. On a GPU this order
// costs a pass over the operations that found their key present (or, deleting, absent). Batches of
// new, different keys pay nothing. Options.Unordered drops the promise.
//
// # Differences from the paper
//
//   - Four lanes work on a slab, not a whole warp. They read 128 bytes as fast, and a warp has
//     eight operations under way instead of one.
//   - A deleted slot is dead, not empty. The paper's REPLACE may fill a hole that a delete leaves
//     while its key lives further down the chain, which duplicates the key.
//   - A slab that loses the race for a link is freed. An operation for which the allocator has no
//     unit fails and is retried; the paper's code stops.
//   - A multimap inserts at the tail, which the base slab remembers. The paper inserts wherever it
//     finds an empty slot.
//
// # Graphs
//
// A [Graph] or a [WeightedGraph] has a slab hash for each vertex. This is the layout of Awad's
// thesis "Fully Concurrent GPU Data Structures" (2022), chapter 5. A dictionary stores the first
// base slab of each vertex, the number of its base slabs, and its exact degree. Neighbor v of
// vertex u is in bucket first[u] + reduce(hash(v), slabs[u]). An arc takes 4 bytes without a weight
// (30 to a slab) and 8 bytes with a 32-bit weight (15 to a slab). A vertex without edges has no
// slabs.
//
// GraphOptions.MaxLoad is 0.7 by default, as in the thesis. Base slabs are allocated in bulk before
// the edges of a batch are inserted. A vertex with twice as many neighbors is rehashed to unused
// base slabs. When none are left, the whole graph moves to new memory. Tombstones are kept, as in
// the thesis, or overwritten ([GraphOptions]), and flushed.
//
// Package graph has another layout, of sorted rows, which is the better choice for most programs.
// It takes 5 to 14 bytes per arc, where this one takes a slab of 128 bytes for each vertex with
// edges. Its rows are in order, ready to be exported or intersected. Choose slab for looking up
// edges, and for graphs with large degrees and edges that come and go in small batches. There an
// edge costs what its slab costs, and not its row. It has no 64-bit weights, no snapshots and no
// self loops.
//
// Algorithms (package graph/algo) run on a CSR with rows in order. Graph.CSR makes one on the host,
// Graph.CSROn on the graph's device. Graph.All iterates over the edges in storage order. User
// kernels take a GraphRef (weft/slab_graph.cuh), from Graph.View.
//
// # Caveats
//
//   - A rehash needs memory for both tables at once. Without that memory, chains get longer; when
//     the pool cannot grow either, calls return device.ErrMemory. A graph returns it when its
//     tables find no memory for a rehash. No stored data is lost.
//   - The hash is fast and seeded, not cryptographic. With the random default seed, an attacker
//     cannot prepare colliding keys without observing which keys are slow.
//   - All pairs of one key are in one chain: a lookup takes time proportional to the number of
//     pairs of its key.
//   - Deleting the pairs of one key of a multimap one by one searches past those deleted before,
//     until a flush: n of them take n^2 steps. DeleteAll takes n.
//   - A table has at most 2^30 buckets, 128 GiB of base slabs, and 255 * 2^24 chained slabs.
package slab
