// Package slab implements the slab hash: a [Map], a [Set] and a [MultiMap]. They take batches of
// keys, on all cores of a CPU or on a GPU. Their memory grows without moving existing pairs. Slabs
// come from package alloc, an allocator of fixed-size units.
//
// The structure follows Ashkiani, Farach-Colton and Owens, "A Dynamic Hash Table for the GPU"
// (IPDPS 2018). It is complete: SEARCH, SEARCHALL, INSERT, REPLACE, DELETE, DELETEALL and FLUSH,
// the slab list, SlabAlloc and its light variant. This package adds 32- and 64-bit keys and values,
// growth, iteration and statistics. It removes three limits of the paper: no key is reserved, the
// pool grows instead of running dry, and concurrent inserts and deletes leave no duplicates.
//
// # When to choose it
//
// Choose slab in these cases:
//
//   - A key may have several values: use a [MultiMap].
//   - Many operations change the structure while others read it.
//   - Growth must not stop for a rehash: with Options.Buckets only chains grow.
//   - Misses are frequent at high utilization. A search ends at the end of its bucket's chain, in
//     one or two memory accesses, even if other buckets are full.
//
// Otherwise package linear is faster. At moderate loads a lookup there reads 32 bytes, here 128. To
// fill memory to 0.9 and more, choose package horton or cuckoo, which read less per lookup. At 0.9,
// horton reads on average 1.15 buckets for a present key and 1.05 for an absent key. Its bucket has
// 8 slots, which take 64 bytes with 32-bit keys and values. cuckoo reads at most two buckets. Both
// must rehash to grow, where slab may let its chains grow.
//
// # Layout
//
// A bucket is a chain of slabs of 128 bytes, the largest block that a GPU fetches for one address.
// A slab has 15 slots of 8 bytes for 32-bit keys with 32-bit values, and 7 slots of 16 bytes for
// pairs with a 64-bit part. In a set, a slot holds only a key: a slab has 30 slots for 32-bit keys,
// and 15 for 64-bit keys. The last 8 bytes of a slab are a link. The first slab of a bucket, its
// base slab, is in an array. The chained slabs come from an [alloc.Pool] and have 32-bit addresses.
//
// Slots fill from the front, slab by slab, and a new slab is linked only to a full slab. So an
// empty slot ends every search. Two threads that insert the same key meet at the same slot: one
// succeeds, and the other finds the key. All bits of empty slots, missing links, empty slabs and
// free units are ones. So linking a slab takes only one compare-and-swap.
//
// Deleting a key leaves a tombstone, a dead slot. In a map, batches of inserts reuse dead slots,
// and any batch may put a key back into the dead slot that remembers it. A multimap does not reuse
// dead slots, since the order of slots is the order of a key's pairs. A flush drops the dead slots
// of a bucket and frees the slabs that become empty. Compact flushes. A structure flushes itself
// when the share Options.MaxTombstones of its slots is dead.
//
// The keys ^0 to ^0-3 are sentinels that mark a slot without a key. User keys with those values are
// stored as their complements 0 to 3 in a separate bucket. So every key is legal, and ordinary keys
// pay one comparison.
//
// # Growth
//
// Options.MaxLoad is the share of the slabs' memory that holds pairs. It determines the number of
// buckets for a number of keys. With a quarter more keys, the structure rehashes to at least twice
// as many buckets. The pool of slabs grows between batches, which moves nothing and blocks no
// caller. Operations that find no slab are retried after the pool has grown, before the call
// returns.
//
// Iteration reads the buckets in an order that is unrelated to their addresses (core.WeylOrder). So
// deleting or copying in iteration order costs the same as in any other order.
//
// # Concurrency
//
// Package weft documents which calls run concurrently. On a GPU, lookups run alongside changes, and
// alongside growth of the buckets and of the pool. Clear and a flush exclude lookups.
//
// A lookup of host slices, and an iteration, sees every change of a call that has returned and
// every On change submitted before it. It waits for nothing else. An On lookup sees three kinds of
// changes: those submitted to its stream before it, those that an event of the caller orders before
// it, and those that the host has waited for. During a batch with ordered duplicates, it may find
// the value of a duplicate that another duplicate then replaces.
//
// Within a launch, operations run concurrently. They are lock-free on GPUs of compute capability
// 9.0: one 64- or 128-bit compare-and-swap publishes a pair. Older GPUs have no 128-bit
// compare-and-swap. There, a writer of a 16-byte slot marks it pending until one store is done, and
// other threads wait for that store. Operations on one key of a map or a set are linearizable. A
// launch on a multimap has the result of some order of its operations, in which DeleteAll removes
// one pair after another. change.cuh, search.cuh and slot.cuh contain the arguments.
//
// # Duplicates within a batch
//
// Package weft promises an order among the Puts, PutNews and Deletes of a map. On a GPU this order
// costs a pass over the operations that found their key present (or absent, for deletions). Batches
// of new, different keys pay nothing. Options.Unordered drops the promise.
//
// # Differences from the paper
//
//   - Four lanes work on a slab, not a whole warp. They read 128 bytes as fast, and a warp runs
//     eight operations at a time instead of one.
//   - A deleted slot is dead, not empty. In the paper, REPLACE may fill the slot of a deleted key
//     while its own key is further down the chain, which duplicates the key.
//   - A slab that loses the race for a link is freed. If the allocator has no unit, the operation
//     fails and is retried; the paper's code stops.
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
// GraphOptions.MaxLoad is 0.7 by default, as in the thesis. Before the edges of a batch are
// inserted, all their base slabs are allocated together. The table of a vertex with twice as many
// neighbors is rehashed to unused base slabs. When none are left, the whole graph moves to new
// memory. Tombstones are kept, as in the thesis, or overwritten ([GraphOptions]), and flushed.
//
// Package graph stores sorted rows, which is the better choice for most programs. It takes 5 to 14
// bytes per arc, where package slab takes at least a slab of 128 bytes for each vertex with edges.
// Sorted rows can be exported and intersected without sorting. Choose slab for looking up edges,
// and for graphs with large degrees that change in small batches. There a change costs the size of
// a slab, not of a row. A graph of package slab has no 64-bit weights, no snapshots and no self
// loops.
//
// Algorithms (package graph/algo) run on a CSR with sorted rows. Graph.CSR makes a CSR on the host,
// and Graph.CSROn on the graph's device. Graph.All iterates over the edges in storage order. User
// kernels take a GraphRef (weft/slab_graph.cuh), which Graph.View makes.
//
// # Caveats
//
//   - A rehash needs memory for both tables at once. Without that memory, chains get longer. If the
//     pool cannot grow either, calls return device.ErrMemory. A graph returns it if a rehash of
//     tables finds no memory. No stored data is lost.
//   - The hash is fast and seeded, not cryptographic. With the random default seed, an attacker
//     cannot prepare colliding keys without observing which keys are slow.
//   - All pairs of a key are in one chain, so a lookup takes time proportional to their number.
//   - To delete the pairs of one key of a multimap one by one, each deletion searches past all
//     pairs deleted before, until a flush. So n deletions take n^2 steps. DeleteAll takes n.
//   - A table has at most 2^30 buckets, 128 GiB of base slabs, and 255 * 2^24 chained slabs.
package slab
