// Package linear is a lock-free hash table with linear probing: a [Map] and a
// [Set] that take batches of keys, on every core of a CPU or on a GPU.
//
// It is the table of David Farrell's article "A Simple GPU Hash Table" (2020),
// complete: any capacity, 32- and 64-bit keys and values, growth, both of the
// article's deletion schemes, iteration, statistics; and without its limits:
// no reserved keys or values, no endless loop when the table is full, a defined
// outcome for duplicates.
//
// # When to choose it
//
// At loads up to about 0.8, when most lookups find their key: then a lookup is
// one memory access, and nothing is faster. A search for a key that is absent
// ends at the first empty slot, so it gets long as the table fills: at load 0.9
// it reads three to six lines on average, at 0.97 dozens. Leave MaxLoad at its
// default unless memory is scarce and misses are rare.
//
// Take package horton or cuckoo from a load of 0.9 on, where keys come and go or many
// lookups miss; and where keys come and go in slots of 16 bytes, from 0.8 on. On an
// H200, deletes here are then slower than in the best of other tables, at 0.9 by a
// third and with slots of 16 bytes by half; inserts and misses lose less, hits nothing.
// At a load of 0.9, a lookup in package horton reads 1.15 buckets of 8 slots on
// average if the key is there, and 1.05 if it is not; one in package cuckoo never
// more than two. Horton tables are for many lookups between changes, since their
// insertions do more; cuckoo tables for the rest.
//
// # Layout
//
// The table is an array of 128-byte lines of four sectors. A GPU fetches at
// least a sector and at most a line for one address; a CPU fetches half a line
// and usually the other half with it. A slot is one word: 8 bytes for 32-bit
// keys with 32-bit values, 16 bytes for pairs with a 64-bit part, the bare key
// in sets.
//
// The hash of a key, scaled to the number of sectors by a multiplication, is
// its home sector. Its path goes through the home sector, then through the
// other sectors of that line in the order of their index xor 1, 2, 3, then
// through the next line in the same order, and so on around the table. The
// article probes slot by slot; sector by sector is what the memory does anyway,
// and because each aligned group of one, two or four sectors is a step of the
// same path, kernels may read narrow at low loads and wide at high ones.
//
// A key goes to the first free slot of its path, so a search ends at its key or
// at the first empty slot. Slots never return to empty before a rehash: a
// deleted key leaves its slot dead, with the key kept in the place of the
// value. With [Keep], the slot is given back to that key alone; with [Reuse],
// to any key that a batch of inserts brings. A table grows when MaxLoad of its
// slots are live or dead, which drops the dead ones.
//
// The keys ^0, ^0-1 and ^0-2 are sentinels: they say that a slot holds none. A
// user's keys of those values are stored as their complements 0, 1 and 2 in a
// line of their own behind the table, so every key is legal and ordinary keys pay
// one comparison.
//
// # Upkeep
//
// A table that grows is rehashed to at least twice its lines, or to the same if
// that drops enough dead slots; one that has become almost empty gets smaller. A
// rehash to a size in which the keys crowd is given up early, and another size
// tried; if none will do the table stays as it is, and the call that has done its
// work succeeds. Operations that find no slot run again in a table of twice the
// size; if that helps none of them, the table is as before and they are
// [weft.ErrFull].
//
// A table of fixed size is rehashed in place, within its own memory, before its
// dead slots make searches long; inplace.go says how.
//
// A batch on a stream of a GPU is waited for where an operation of it may find no
// slot though there are some: mixed batches of sets, and batches that bring a table
// near its last slots. Others are submitted, and nothing waits.
//
// Iteration reads the lines in an order that has nothing to do with where they
// lie (core.Spread): the home of a key is its scaled hash, so deleting or copying
// keys in the order of the table would empty or fill one region after the other.
//
// # Concurrency
//
// Package weft says what runs beside what. On a GPU, lookups run beside changes,
// growth included: that makes a new table, and the old one is freed when its last
// reader is done. Clear and a rehash in place hold lookups back.
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
// Operations on one key are linearizable; slot.cuh and linear.cu hold the
// arguments next to the code.
//
// # Duplicates within a batch
//
// On a GPU the order that package weft promises costs a pass over those operations
// that found their key present (or, deleting, absent); batches of new, different
// keys pay nothing. Options.Unordered drops it.
//
// # Caveats
//
//   - A rehash needs memory for both tables at once. If there is none, the
//     table goes on filling up to MaxLoad, then calls return device.ErrMemory;
//     nothing is lost.
//   - The hash is fast and seeded, not cryptographic. With the random default
//     seed nobody can prepare colliding keys without seeing which keys are slow.
//   - Paths are bounded by 4096 lines, so any table may refuse keys that were made
//     to collide. A full fixed table refuses a key at the first empty slot of its
//     path, after 17 to 33 lines on average. One slot in 16 or 32 stays empty for
//     that (Options.MaxLoad); on a GPU batches take those slots, too, and then
//     refuse a key after 4096 lines.
//   - Up to 2^30 lines, 128 GiB, per table.
package linear
