// Package linear implements a lock-free hash table with linear probing. Its [Map] and [Set] take
// batches of keys and run on all cores of a CPU or on a GPU.
//
// The table follows David Farrell's article "A Simple GPU Hash Table" (2020). It adds any capacity,
// 32- and 64-bit keys and values, growth, both of the article's deletion schemes, iteration and
// statistics. Three limits of the article are gone: no keys or values are reserved, a full table
// does not loop forever, and the outcome of duplicates is defined.
//
// # When to choose it
//
// Choose linear for loads up to about 0.8 if most lookups find their key. Such a lookup is one
// memory access, and no other table is faster. A search for an absent key ends at the first empty
// slot, so it gets longer as the table fills. At load 0.9 it reads three to six lines on average,
// at 0.97 dozens. Leave MaxLoad at its default unless memory is scarce and misses are rare.
//
// Choose package horton or cuckoo for loads from 0.9 on if keys come and go or many lookups miss.
// For slots of 16 bytes with keys that come and go, choose them from 0.8 on. At those loads,
// deletes in linear on an H200 are slower than in the fastest other table: by a third at 0.9, and
// by half with slots of 16 bytes. Inserts and misses lose less, hits nothing. At load 0.9, a lookup
// in package horton reads 1.15 buckets of 8 slots on average if the key is present, and 1.05 if it
// is absent. A lookup in package cuckoo reads at most two buckets. Horton suits many lookups
// between changes, since its insertions do more work. Cuckoo suits other workloads at high load.
//
// # Layout
//
// The table is an array of 128-byte lines; each line has four sectors. For one address, a GPU
// fetches at least a sector and at most a line. A CPU fetches half a line, and usually the other
// half with it. A slot is one word: 8 bytes for 32-bit keys with 32-bit values, 16 bytes for pairs
// with a 64-bit part, and the bare key in sets.
//
// The home sector of a key is the key's hash, scaled to the number of sectors by a multiplication.
// The key's path starts in the home sector. It continues through the other sectors of that line, in
// the order of their index xor 1, 2, 3. Then it continues through the next line in the same order,
// and so on around the table. The article probes slot by slot, although memory is read sector by
// sector anyway. Each aligned group of one, two or four sectors is a contiguous step of the path.
// So kernels may read sectors at low loads and whole lines at high loads.
//
// A key is stored in the first free slot of its path, so a search ends at the key or at the first
// empty slot. A used slot does not become empty again before a rehash. A deleted key leaves a dead
// slot (a tombstone), which holds the key in place of the value. With [Keep], only that key may
// take the slot again. With [Reuse], any key of a batch of inserts may take it. A table grows when
// the fraction MaxLoad of its slots is live or dead; growing drops the dead slots.
//
// The keys ^0, ^0-1 and ^0-2 are sentinels that mark slots without a key. User keys with these
// values are stored as their complements 0, 1 and 2 in an extra line after the table. So every key
// is legal, at the cost of one comparison per ordinary key.
//
// # Upkeep
//
// A table that grows is rehashed to at least twice its lines, or to the same number of lines if
// that drops enough dead slots. A table that has become almost empty shrinks. If keys crowd at a
// new size, the rehash is aborted early and another size is tried. If no size works, the table
// stays as it is, and a call that has done its work succeeds. Operations that find no slot run
// again in a table of twice the size. If that helps none of them, the table is restored, and they
// fail with [weft.ErrFull].
//
// A table of fixed size is rehashed in place, within its own memory, before its dead slots make
// searches long; see inplace.go.
//
// A call that submits a batch to a stream of a GPU waits for the batch only if an operation may
// find no slot although the table has free slots. That is possible for mixed batches of sets, and
// for batches that almost fill the table.
//
// Iteration reads the lines in an order that is unrelated to their position (core.WeylOrder). The
// home of a key is its scaled hash. So deleting or copying keys in table order would empty or fill
// one region after another.
//
// # Concurrency
//
// Package weft documents which calls run concurrently. On a GPU, lookups run concurrently with
// changes, including growth. Growth makes a new table, and the old table is freed after its last
// reader. Clear and a rehash in place block lookups.
//
// A lookup of Go slices, or an iteration, sees every change by a call that has returned, and every
// On change submitted before it. It does not wait for other work. An On lookup sees the changes
// submitted to its stream before it, the changes that an event of the caller orders before it, and
// the changes that the host has waited for. During a batch with ordered duplicates, a lookup may
// find the value of a duplicate that loses in the end.
//
// Within a launch, operations are concurrent and lock-free on GPUs with compute capability 9.0. One
// 64- or 128-bit compare-and-swap publishes a pair there. Older GPUs have no 128-bit
// compare-and-swap. There, the writer of a 16-byte slot marks it pending during one store, and
// other threads wait for that store. Operations on one key are linearizable; slot.cuh and linear.cu
// contain the proofs next to the code.
//
// # Duplicates within a batch
//
// On a GPU, the order that package weft guarantees costs another pass over the operations that
// found their key present or, for deletes, absent. Batches of new, distinct keys need no such pass.
// Options.Unordered removes the guarantee.
//
// # Caveats
//
//   - A rehash needs memory for both tables at once. Without that memory the table fills up to
//     MaxLoad, and then calls return device.ErrMemory; no pair is lost.
//   - The hash is fast and seeded, but not cryptographic. With the random default seed, an attacker
//     who wants to prepare colliding keys must observe which keys are slow.
//   - Paths end after 4096 lines, so any table may reject keys that were made to collide. A full
//     fixed table rejects a key at the first empty slot of its path, after 17 to 33 lines on
//     average. For that purpose one slot in 16 or 32 stays empty (Options.MaxLoad). On a GPU,
//     batches take those slots, too, and then reject a key after 4096 lines.
//   - A table has at most 2^30 lines, which are 128 GiB.
package linear
