// Package linear implements a lock-free hash table with linear probing. Its [Map] and [Set] take
// batches of keys, on every core of a CPU or on a GPU.
//
// The table follows David Farrell's article "A Simple GPU Hash Table" (2020) and adds any capacity,
// 32- and 64-bit keys and values, growth, both of the article's deletion schemes, iteration and
// statistics. It drops the article's limits: no keys or values are reserved, a full table does not
// loop forever, and the outcome of duplicates is defined.
//
// # When to choose it
//
// Choose it for loads up to about 0.8 when most lookups find their key: such a lookup is one memory
// access, and nothing is faster. A search for an absent key ends at the first empty slot, so it
// gets longer as the table fills. At load 0.9 it reads three to six lines on average, at 0.97
// dozens. Leave MaxLoad at its default unless memory is scarce and misses are rare.
//
// Choose package horton or cuckoo from a load of 0.9 on if keys come and go or many lookups miss.
// With slots of 16 bytes and keys that come and go, choose them from 0.8 on. At those loads deletes
// on an H200 are slower than in the best of the other tables: by a third at 0.9, and by half with
// slots of 16 bytes. Inserts and misses lose less, hits nothing. At a load of 0.9, a lookup in
// package horton reads 1.15 buckets of 8 slots on average if the key is present and 1.05 if it is
// not. One in package cuckoo reads at most two. Horton tables suit many lookups between changes,
// since their insertions do more work. Cuckoo tables suit the rest.
//
// # Layout
//
// The table is an array of 128-byte lines of four sectors. For one address a GPU fetches at least a
// sector and at most a line. A CPU fetches half a line and usually the other half with it. A slot
// is one word: 8 bytes for 32-bit keys with 32-bit values, 16 bytes for pairs with a 64-bit part,
// the bare key in sets.
//
// The hash of a key, scaled to the number of sectors by a multiplication, is its home sector. The
// key's path starts in the home sector. It continues through the other sectors of that line in the
// order of their index xor 1, 2, 3, then through the next line in the same order, and so on around
// the table. The article probes slot by slot; memory is read sector by sector anyway. Each aligned
// group of one, two or four sectors is a step of the same path, so kernels may read narrow at low
// loads and wide at high ones.
//
// A key goes to the first free slot of its path, so a search ends at its key or at the first empty
// slot. Slots never return to empty before a rehash. A deleted key leaves its slot dead (a
// tombstone), with the key kept in place of the value. With [Keep], only that key may take the slot
// again; with [Reuse], any key that a batch of inserts brings. A table grows when MaxLoad of its
// slots are live or dead; growing drops the dead ones.
//
// The keys ^0, ^0-1 and ^0-2 are sentinels that mark slots without a key. User keys of those values
// are stored as their complements 0, 1 and 2 in an extra line after the table. So every key is
// legal, and ordinary keys pay one comparison.
//
// # Upkeep
//
// A table that grows is rehashed to at least twice its lines, or to the same number if that drops
// enough dead slots. A table that has become almost empty shrinks. A rehash to a size in which keys
// crowd is given up early, and another size is tried. If no size works, the table stays as it is,
// and the call, its work done, succeeds. Operations that find no slot run again in a table of twice
// the size. If that helps none of them, the table is restored and they fail with [weft.ErrFull].
//
// A table of fixed size is rehashed in place, within its own memory, before its dead slots make
// searches long; see inplace.go.
//
// A call that submits a batch to a stream of a GPU waits for it only if an operation may find no
// slot although the table has some. Those are mixed batches of sets, and batches that bring a table
// near its last slots.
//
// Iteration reads the lines in an order that is independent of their position (core.WeylOrder). The
// home of a key is its scaled hash, so deleting or copying keys in table order would empty or fill
// one region after the other.
//
// # Concurrency
//
// Package weft documents what runs concurrently with what. On a GPU, lookups run concurrently with
// changes, growth included: growth makes a new table, and the old one is freed after its last
// reader. Clear and a rehash in place hold lookups back.
//
// A lookup of host slices, and an iteration, sees every change with a call that has returned, and
// every On change submitted before it. It waits for nothing else. An On lookup sees the changes
// submitted to its stream before it, those that an event of the caller orders before it, and those
// that the host had waited for. During a batch with ordered duplicates, it may find the value of a
// duplicate that loses in the end.
//
// Within a launch, operations are concurrent and lock-free on GPUs of compute capability 9.0, where
// one 64- or 128-bit compare-and-swap publishes a pair. Older GPUs have no 128-bit
// compare-and-swap. There, the writer of a 16-byte slot marks it pending for the time of one store,
// and others wait for that store. Operations on one key are linearizable; slot.cuh and linear.cu
// hold the arguments next to the code.
//
// # Duplicates within a batch
//
// On a GPU, the order that package weft promises costs a pass over those operations that found
// their key present (or, for a delete, absent). Batches of new, distinct keys pay nothing.
// Options.Unordered drops the order.
//
// # Caveats
//
//   - A rehash needs memory for both tables at once. Without it, the table fills up to MaxLoad,
//     then calls return device.ErrMemory; nothing is lost.
//   - The hash is fast and seeded, not cryptographic. With the random default seed, an attacker
//     must observe which keys are slow to prepare colliding keys.
//   - Paths are bounded by 4096 lines, so any table may refuse keys that were made to collide. A
//     full fixed table refuses a key at the first empty slot of its path, after 17 to 33 lines on
//     average. One slot in 16 or 32 stays empty for that (Options.MaxLoad). On a GPU, batches take
//     those slots, too, and then refuse a key after 4096 lines.
//   - A table has at most 2^30 lines, 128 GiB.
package linear
