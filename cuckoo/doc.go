// Package cuckoo is a bucketized cuckoo hash table: a [Map] and a [Set] that take
// batches of keys, on every core of a CPU or on a GPU.
//
// It is the table that Breslow, Zhang, Greathouse, Jayasena and Tullsen measure their
// own against ("Horton Tables: Fast Hash Tables for In-Memory Data-Intensive
// Computing", 2016, sections 2 and 3), with buckets of 1 to 16 slots, both of its
// insertion policies and both ways to look up; and with one slot the table of Alcantara
// and others with four functions and a stash, which the SlabHash article compares with
// (section VI). Beyond those it takes batches of any operations, on both devices,
// grows, takes another seed where keys crowd, and lets lookups run beside changes.
//
// # When to choose it
//
// At loads of 0.8 to 0.98, where most lookups find their key, or keys are inserted as often as
// looked up: a lookup reads two buckets at most, whatever the load, where package linear reads
// dozens of lines. At low loads, linear does as well, and its insertions move nothing. Where
// tables are full and many lookups miss, both buckets are read most of the time: 1.65 on average
// at a load of 0.9 with FirstFit, 2 with LoadBalancing, where package horton reads 1.05; but
// its insertions take longer.
//
// Slots: eight, of which a table bears a load of 0.99. Fewer slots read less memory and
// bear less; sixteen insert faster next to a load of 1. With one slot a hit reads a
// sector, and a miss four of them.
//
// # Layout
//
// The table is an array of buckets of slots. A slot is one word: 8 bytes for 32-bit
// keys with 32-bit values, 16 bytes for pairs with a 64-bit part, the bare key in sets.
// Hash functions give each key two buckets, or four of one slot; it is in one of them.
// With FirstFit a key goes to its second bucket only when the first is full, and a slot
// is never empty again before a rehash, so a lookup ends at a bucket with an empty slot.
// A deleted key leaves its slot dead, which any key may take.
//
// The four largest keys are sentinels: they say that a slot holds none. A user's keys of
// those values have a slot each in a line of their own behind the table, so every key is
// legal.
//
// # Evictions
//
// Where all buckets of a key are full, keys are moved to other buckets of theirs: a
// breadth-first search finds the shortest sequence of moves, of which the last is to a
// free slot. On a GPU a warp does it, 32 keys at a time. Load balancing needs fewer
// evictions. The search ends after 512 keys; then the stash takes the key, if there is one,
// or the call goes on as follows.
//
// # Upkeep
//
// A table grows when MaxLoad of its slots have keys, to at least twice its size; one that
// has become almost empty gets smaller. Where operations find no room below that, keys
// crowd: the table is rehashed with another seed, and doubled, too, if it is as full as
// such buckets bear. Keys that were made to collide under one seed are ordinary keys
// under the next. A table of fixed size does the same as long as it holds fewer keys than
// its Capacity; beyond, and when no seed helps, it is [weft.ErrFull].
//
// A batch on a stream of a GPU is waited for where an operation of it may find no room:
// near the load that buckets bear, which is less for small tables. Others are submitted,
// and nothing waits.
//
// # Concurrency
//
// Package weft says what runs beside what. On a GPU, lookups run beside changes,
// evictions and growth included. An eviction copies a key, then clears its old slot, so a
// lookup may see it twice, which does no harm; one that has read the new bucket before
// and the old one behind looks again: locks.cuh says how it knows. Clear holds
// lookups back.
//
// GPUs older than compute capability 9.0 have no compare-and-swap of 128 bits: there, a slot of
// 16 bytes is pending for the time of one store, and a lookup or a change that meets it waits
// for that store.
//
// An iteration reads one bucket after the other, so no key may move meanwhile: a table
// that is iterated over moves none, and one that has to makes a new table, as for growth.
//
// On a CPU the cores work on first buckets side by side; operations that have to go beyond are
// put off and run behind that by one core: of 2^21 slots one insertion in a hundred up to a
// load of 0.5, 11 from there to 0.7, 28 to 0.8, 52 from 0.85 to 0.9 and 65 to 0.95; of other
// changes 4 at a load of 0.7 and 11 at 0.9.
//
// On a GPU a change is up to three launches: the first moves nothing and is lock-free but for
// load balancing; what found all buckets full comes next, with locks: in buckets of eight slots by
// single moves, each lane for itself, then by searches. What a lookup sees, and what becomes of
// duplicates, is as in package linear. cuckoo_evict.cuh and cuckoo_displace.cuh hold the arguments.
//
// # Caveats
//
//   - A rehash needs memory for both tables at once. If there is none, the table goes on
//     filling up to MaxLoad, then calls return device.ErrMemory; nothing is lost.
//   - A fixed table takes Capacity keys: it gets more slots than MaxLoad asks for where
//     that is more than its buckets bear. A search for room ends after 512 keys; on a CPU,
//     after 64 searches in vain the others of a batch wait for another seed. Beyond
//     Capacity no key is moved: a key is refused after it has found no free slot in its
//     buckets, and in its line of the stash.
//   - The hash is fast and seeded, not cryptographic. With the random default seed nobody
//     can prepare colliding keys without seeing which keys are slow.
//   - There is no Ref for kernels of users.
//   - Up to 2^32 slots per table.
package cuckoo
