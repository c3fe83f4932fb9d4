// Package cuckoo implements a bucketized cuckoo hash table. Its [Map] and [Set] take batches of
// keys, on every core of a CPU or on a GPU.
//
// The table is the baseline of Breslow, Zhang, Greathouse, Jayasena and Tullsen ("Horton Tables:
// Fast Hash Tables for In-Memory Data-Intensive Computing", 2016, sections 2 and 3). It has buckets
// of 1 to 16 slots, both insertion policies and both ways to look up. With one slot it is the table
// of Alcantara and others with four functions and a stash, which the SlabHash article compares with
// (section VI). Beyond those, it takes batches of any operations on both devices, grows, changes
// its seed if too many keys share buckets, and runs lookups concurrently with changes.
//
// # When to choose it
//
// Choose it for loads of 0.8 to 0.98 if most lookups find their key, or if keys are inserted as
// often as looked up. A lookup reads at most two buckets at any load, where package linear reads
// dozens of lines. At low loads linear is as fast, and its insertions move nothing. In full tables,
// most lookups of absent keys read both buckets: at a load of 0.9, 1.65 on average with FirstFit
// and 2 with LoadBalancing. Package horton reads 1.05 there, but its insertions take longer.
//
// Buckets of eight slots can be filled to a load of 0.99. With fewer slots a lookup reads less
// memory, but the maximum load is lower. With sixteen, insertions are faster at loads near 1. With
// one slot a hit reads one sector, and a miss four.
//
// # Layout
//
// The table is an array of buckets, which are arrays of slots. A slot is one word: 8 bytes for
// 32-bit keys with 32-bit values, 16 bytes for pairs with a 64-bit part, just the key in sets. Hash
// functions map each key to two buckets, or to four if buckets have one slot. The key is stored in
// one of them. With FirstFit a key goes to its second bucket only if the first is full. A used slot
// is not empty again before a rehash, so a lookup ends at a bucket with an empty slot. A deleted
// key leaves its slot dead (a tombstone), and any key may take it.
//
// The four largest keys are sentinels that mark slots without a key. A user's key that equals a
// sentinel has its own slot in an extra line after the table, so every key is legal.
//
// # Evictions
//
// If all buckets of a key are full, keys are moved to their other buckets. A breadth-first search
// finds the shortest sequence of moves that ends at a free slot. On a GPU a warp searches, 32 keys
// at a time. Load balancing needs fewer evictions. The search ends after 512 keys. Then the stash
// takes the key, if the table has one. Otherwise the table is rehashed, as described next.
//
// # Upkeep
//
// A table grows when MaxLoad of its slots have keys, to at least twice its size. A table that has
// become almost empty shrinks. If operations find no slot below that load, too many keys share
// buckets. The table is then rehashed with another seed, and also doubled if it is near its maximum
// load. Keys that were made to collide under one seed are ordinary keys under the next. A fixed
// table does the same while it holds fewer keys than its Capacity, but does not grow. Beyond that,
// and if no seed helps, calls return [weft.ErrFull].
//
// On a GPU, a call that submits a batch to a stream waits for it only if an operation may find no
// slot. This happens near the maximum load, which is lower for small tables.
//
// # Concurrency
//
// Package weft documents which calls run concurrently. On a GPU, lookups run concurrently with
// changes, including evictions and growth. An eviction copies a key, then clears its old slot. A
// lookup that sees the key twice is still correct. A lookup that reads the new bucket before the
// copy and the old one after the clear retries; locks.cuh explains how it detects that. Clear makes
// lookups wait.
//
// GPUs older than compute capability 9.0 have no compare-and-swap of 128 bits. There, a slot of 16
// bytes is pending for the time of one store, and a lookup or a change that meets it waits for that
// store.
//
// An iteration reads one bucket after the other, so no key may move meanwhile. If keys have to move
// during an iteration, the table makes a new table, as for growth.
//
// On a CPU the cores work on first buckets in parallel. Operations that need other buckets are
// deferred, and one core runs them afterwards. In 2^21 slots, one insertion in a hundred is
// deferred up to a load of 0.5, 11 from 0.5 to 0.7, 28 from 0.7 to 0.8, and 52 from 0.85 to 0.9.
// From 0.9 to 0.95, 65 in a hundred are deferred. Of other changes, 4 in a hundred are deferred at
// a load of 0.7, and 11 at 0.9.
//
// On a GPU a change is up to three launches. The first moves nothing and is lock-free except with
// load balancing. The others run the operations that found all buckets full, with locks. If buckets
// have eight slots, one launch makes single moves, one per lane. The last launch searches. The
// results of lookups and of duplicates are as in package linear. cuckoo_evict.cuh and
// cuckoo_displace.cuh explain why.
//
// # Caveats
//
//   - A rehash needs memory for both tables at once. Without it, the table fills up to MaxLoad.
//     Then calls return device.ErrMemory, and no keys are lost.
//   - A fixed table takes Capacity keys. It gets more slots than MaxLoad requires if MaxLoad is
//     above the load that its buckets reach. A search for a slot ends after 512 keys. On a CPU,
//     after 64 failed searches the rest of a batch waits for another seed. Beyond Capacity no key
//     is moved: a key is refused if its buckets, and its line of the stash, have no free slot.
//   - The hash is fast and seeded, not cryptographic. With the random default seed, an attacker
//     must observe which keys are slow to prepare colliding keys.
//   - Users' kernels cannot access the table: it has no Ref.
//   - A table has at most 2^32 slots.
package cuckoo
