// Package horton implements a Horton table: a hash table that usually reads one bucket per lookup.
// Its [Map] and [Set] take batches of keys, on every core of a CPU or on a GPU.
//
// It is the table of Breslow, Zhang, Greathouse, Jayasena and Tullsen ("Horton Tables: Fast Hash
// Tables for In-Memory Data-Intensive Computing", 2016), with buckets of 1 to 16 slots. Most keys
// are in their primary bucket, which one hash function gives. If a bucket overflows, its last slot
// becomes an array of remap entries for the keys that had to go elsewhere. Each entry has three
// bits that select one of seven functions, and the function gives the secondary bucket. So a lookup
// usually reads one bucket, whether the key is present or not, and two at worst. Beyond the paper,
// the table takes batches of any operations on both devices, grows, changes its seed if too many
// keys share buckets, and runs lookups concurrently with changes.
//
// # When to choose it
//
// Choose it for loads of 0.7 to 0.95 in tables that are looked up more than changed, and above all
// if many keys are absent. At a load of 0.95 a lookup reads 1.17 buckets for a present key and 1.06
// for an absent one. Package cuckoo reads about 1.4 and 2 with balanced buckets. Insertions at such
// loads move keys. At low loads choose package linear: its insertions move nothing.
//
// Buckets of eight slots can be filled to a load of 0.95, and buckets of sixteen to a little more.
// With fewer slots the maximum load is lower, since arrays of entries take slots: see [Options].
//
// # Layout
//
// The table is an array of buckets, which are arrays of slots. A slot is one word: 8 bytes for
// 32-bit keys with 32-bit values, 16 bytes for pairs with a 64-bit part, just the key in sets. A
// bucket of type A has keys in all slots. A bucket of type B has remap entries in the last slot:
// 21, or 42 in 16 bytes, or 10 in 4 bytes. If a key is not in its primary bucket, that bucket is of
// type B, and the key's tag selects an entry in it. The entry gives the secondary bucket of the
// key. All keys of one bucket and tag share the entry and the secondary bucket. A secondary bucket
// has at least eight slots, so that keys which share it have places. If buckets are small, several
// form a secondary bucket.
//
// Keys are stored as their hash, which is a bijection. One bit of the hash is replaced by the type
// bit, which distinguishes arrays from keys. The number of the bucket implies the replaced bit. So
// every key is legal in every slot. A few keys have a hash that looks like a sentinel. They have
// slots in an extra line.
//
// # Changes
//
// A new key goes to its primary bucket if that has a free slot. If not (section 5.3), a secondary
// key in that bucket moves to another of its buckets. If none can move, the bucket is promoted to
// type B, for which one of its keys becomes secondary. Then the new key becomes secondary, or
// another key of its primary bucket in its place. The secondary key goes to the least full of its
// seven buckets. On a GPU, the kernel that searches for slots takes the first bucket with a free
// slot instead. Secondary keys displace only each other, by a breadth-first search. Before a key is
// refused, however, a primary key is displaced too.
//
// A deleted key leaves its slot dead (a tombstone), and any key may take it. The table also
// reclaims space after deletes (section 5.4). It clears unused entries, returns keys to primary
// buckets, and turns buckets that need no entries into type A. [Reclaim] selects when. After ten
// turnovers at a load of 0.9 a lookup of an absent key reads 1.05 buckets with Lazy, 1.04 with
// Eager and 1.14 with Never. It reads 1.04 in a new table (TestChurn).
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
// # Concurrency
//
// Package weft documents which calls run concurrently. On a GPU, lookups run concurrently with
// changes, including moves of keys and growth. locks.cuh explains how a lookup detects that a key
// has moved past it. Clear makes lookups wait.
//
// GPUs older than compute capability 9.0 have no compare-and-swap of 128 bits. There, a slot of 16
// bytes is pending for the time of one store, and a lookup or a change that meets it waits for that
// store.
//
// An iteration reads one bucket after the other, so no key may move meanwhile. During an iteration,
// the table postpones reclaiming. If it has to move keys, it makes a new table, as for growth.
//
// On a CPU the cores work on primary buckets in parallel. Operations that find their primary bucket
// full, or need a secondary one, are deferred, and one core runs them afterwards. In 2^21 slots,
// one insertion in a hundred is deferred up to a load of 0.5, 12 from 0.5 to 0.7, and 27 from 0.7
// to 0.8. From 0.85 to 0.9, 50 in a hundred are deferred, and 68 from 0.9 to 0.95. Of other
// changes, 6 in a hundred are deferred at a load of 0.7, and 14 at 0.9. So more cores help large
// batches of insertions up to a load of 0.8, and other changes at any load.
//
// # Caveats
//
//   - A rehash needs memory for both tables at once. Without it, the table fills up to MaxLoad.
//     Then calls return device.ErrMemory, and no keys are lost.
//   - A fixed table takes Capacity keys. It gets more slots than MaxLoad requires if MaxLoad is
//     above the load that its buckets reach. A search for a slot on a CPU ends after 4,096 keys,
//     and after 64 failed searches the rest of a batch waits for another seed. Beyond Capacity no
//     key is moved: a key is refused if its primary bucket and its seven secondary ones have no
//     free slot.
//   - Sets of 32-bit keys have ten entries in an array, which more keys share: lookups of absent
//     keys read 1.1 buckets at a load of 0.94.
//   - The hash is fast and seeded, not cryptographic. With the random default seed, an attacker
//     must observe which keys are slow to prepare colliding keys.
//   - Users' kernels cannot access the table: it has no Ref.
//   - A table has at most 2^32 slots.
package horton
