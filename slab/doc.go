// Package slab is the slab hash: a [Map], a [Set] and a [MultiMap] that take
// batches of keys, on every core of a CPU or on a GPU, and whose memory grows
// without moving what is there. Its slabs come from an allocator of fixed-size
// units, package alloc.
//
// It is the structure of Ashkiani, Farach-Colton and Owens, "A Dynamic Hash
// Table for the GPU" (IPDPS 2018), complete: SEARCH, SEARCHALL, INSERT,
// REPLACE, DELETE, DELETEALL and FLUSH, the slab list, SlabAlloc and its light
// variant; with 32- and 64-bit keys and values, growth, iteration and
// statistics; and without its limits: no reserved keys, no pool that runs dry,
// no duplicates of a key when threads insert and delete it together.
//
// # When to choose it
//
// When a key may have several values: take a [MultiMap]. When many operations
// change the structure while others read it, or when growing must not stop for
// a rehash: with Options.Buckets only chains grow. When misses are frequent at
// high utilization: a search ends at the end of its bucket's chain, in one or
// two memory accesses, however full the other buckets are.
//
// Otherwise package linear is faster: at moderate loads a lookup there reads
// 32 bytes, here 128. And where memory is to be full to 0.9 and more, package horton
// or cuckoo takes less of it for each lookup: at 0.9 the former reads 1.15 buckets of
// 8 slots on average for a key that is there and 1.05 for one that is not, 64 bytes
// each with 32-bit keys and values, and the latter two at most. But they rehash to
// grow, where this one may let its chains grow.
//
// # Layout
//
// A bucket is a chain of slabs of 128 bytes, what a GPU fetches at most for one
// address. A slab has 15 slots of 8 bytes for 32-bit keys with 32-bit values, 7
// of 16 bytes for pairs with a 64-bit part, 30 or 15 of the bare key in sets,
// and a link in its last 8 bytes. The first slab of each bucket, the base slab,
// is part of an array; those behind it come from an [alloc.Pool] and are named by
// 32-bit addresses.
//
// Slots fill from the front, slab by slab, and a new slab is linked only behind
// a full one. So an empty slot ends every search, and two threads that insert
// one key meet at the same slot: one wins, the other finds the key. Empty slabs
// and free units are all ones, like empty slots and missing links: to link a
// slab is one compare-and-swap, and nothing has to be written before it.
//
// A deleted key leaves its slot dead. In a map, batches of inserts take dead
// slots, and any batch returns a key to the slot that remembers it. A multimap
// leaves dead slots alone, since the order of slots is the order of a key's
// pairs. A flush drops the dead slots of a bucket and gives back slabs that this
// empties: Compact does it, and a structure by itself when Options.MaxTombstones
// of its slots are dead.
//
// The keys ^0 to ^0-3 are sentinels: they say that a slot holds none. A user's
// keys of those values are stored as their complements 0 to 3 in a bucket of
// their own, so every key is legal and ordinary keys pay one comparison.
//
// # Growth
//
// Options.MaxLoad, the share of the slabs' memory that holds pairs, decides how
// many buckets there are for a number of keys. When there are a quarter more keys
// than that, the structure rehashes to at least twice the buckets. The pool of
// slabs grows between batches, where nothing moves and nobody waits; operations of
// a batch that find no slab run again when it has grown, before the call returns.
//
// Iteration reads the buckets in an order that has nothing to do with where they
// lie (core.Spread), so that deleting or copying in that order costs what it
// costs in any other.
//
// # Concurrency
//
// Package weft says what runs beside what. On a GPU, lookups run beside changes,
// growth of the buckets and the pool included. Clear and a flush hold them back.
//
// A lookup of host slices, and an iteration, sees every change whose call has
// returned and every On change submitted before it; nothing else is waited for.
// An On lookup sees the changes submitted to its stream before, those that an
// event of the caller orders before it, and those that the host had waited for.
// Beside a batch whose duplicates have an order, it may meanwhile find the value
// of one that does not count in the end.
//
// Within a launch, operations are concurrent and lock-free on GPUs of compute
// capability 9.0 (one 64- or 128-bit compare-and-swap publishes a pair). Older
// GPUs have no 128-bit compare-and-swap: there, a writer of a 16-byte slot marks
// it pending for the time of one store, and others wait for that store.
// Operations on one key of a map or a set are linearizable. Those of a multimap
// are explained by some order of a launch's operations, where DeleteAll removes
// one pair after another; change.cuh, search.cuh and slot.cuh hold the arguments
// next to the code.
//
// # Duplicates within a batch
//
// On a GPU the order that package weft promises among Puts, PutNews and Deletes of
// a map costs a pass over those operations that found their key present (or,
// deleting, absent); batches of new, different keys pay nothing. Options.Unordered
// drops it.
//
// # Differences from the paper
//
//   - Four lanes work on a slab, not a whole warp: they read 128 bytes as fast,
//     and eight operations of a warp are under way instead of one.
//   - A deleted slot is dead, not empty. The paper's REPLACE may take a hole
//     that a delete leaves while its key lives behind it, and the key is then
//     there twice.
//   - A slab that loses the race for a link is given back, and an allocator
//     that runs out of units fails the operation, which then runs again; the
//     paper's code stops.
//   - A multimap inserts at the tail, whose place the base slab remembers; the
//     paper inserts wherever it finds an empty slot.
//
// # Graphs
//
// A [Graph], and a [WeightedGraph], has a slab hash for each vertex: the layout of Awad's thesis "Fully Concurrent GPU Data Structures"
// (2022), chapter 5. A dictionary has the first base slab of each vertex, how many there are, and the exact degree; neighbor v of
// vertex u is in bucket first[u] + reduce(hash(v), slabs[u]), in 4 bytes without a weight (30 to a slab) and 8 with one of 32 bits (15). A vertex without edges has no slabs. At
// GraphOptions.MaxLoad, 0.7 as in the thesis, base slabs come in bulk before the edges of a batch; a vertex with twice as many neighbors
// is rehashed to base slabs that nobody has, and when there are none left, all move to new memory. Tombstones are kept, as in the thesis, or overwritten
// ([GraphOptions]), and flushed.
//
// Package graph has another layout, of sorted rows, which is the one to choose for most: it takes 5 to 14 bytes an arc where this one takes a slab of 128 for each vertex that has any,
// and its rows come in order, to be exported or intersected as they are. Tables are for graphs with large degrees whose edges
// come and go in small batches, since an edge costs what its slab costs and not its row, and for looking up edges. What is not there: weights of 64
// bits, snapshots and self loops.
//
// Algorithms (package graph/algo) run on a CSR, which Graph.CSR makes on the host and Graph.CSROn on the graph's device, with rows in order; Graph.All goes
// through the edges as they lie. Kernels of users take a GraphRef (weft/slab_graph.cuh), by Graph.View.
//
// # Caveats
//
//   - A rehash needs memory for both tables at once. If there is none, chains
//     get longer; when the pool cannot grow either, calls return
//     device.ErrMemory. Of a graph they do where its tables find no memory to
//     be rehashed to. Nothing that was there is lost.
//   - The hash is fast and seeded, not cryptographic. With the random default
//     seed nobody can prepare colliding keys without seeing which keys are slow.
//   - All pairs of one key are in one chain: looking up a key with many pairs
//     is as long as they are.
//   - Deleting the pairs of one key of a multimap one by one searches past
//     those deleted before, until a flush: n of them take n^2 steps. DeleteAll
//     takes n.
//   - Up to 2^30 buckets, 128 GiB of base slabs, and 255 * 2^24 slabs behind
//     them.
package slab
