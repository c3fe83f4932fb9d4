// Package horton implements a Horton table. Its [Map] and [Set] take batches of keys, on every core
// of a CPU or on a GPU.
//
// It is the table of Breslow, Zhang, Greathouse, Jayasena and Tullsen ("Horton Tables: Fast Hash
// Tables for In-Memory Data-Intensive Computing", 2016), with buckets of 1 to 16 slots. Most keys
// are in their primary bucket, given by one hash function. If a bucket overflows, its last slot
// holds remap entries for the keys that had to go elsewhere. Each entry has three bits that name
// one of seven functions, which gives their bucket. So a lookup usually reads one bucket, whether
// the key is present or not, and two at worst. Beyond the paper, the table takes batches of any
// operations on both devices, grows, changes its seed where keys crowd, and runs lookups
// concurrently with changes.
//
// # When to choose it
//
// Choose it for loads of 0.7 to 0.95 in tables that are looked up more than changed, and above all
// if many keys are absent. At a load of 0.95 a lookup reads 1.17 buckets for a present key and 1.06
// for an absent one. Package cuckoo reads about 1.4 and 2 with balanced buckets. Insertions at such
// loads move keys. At low loads choose package linear: its insertions move nothing.
//
// Buckets of eight slots bear a load of 0.95. Sixteen bear a little more. Fewer bear less, since
// arrays of entries take slots: see [Options].
//
// # Layout
//
// The table is an array of buckets of slots. A slot is one word: 8 bytes for 32-bit keys with
// 32-bit values, 16 bytes for pairs with a 64-bit part, the bare key in sets. A bucket of type A
// has keys in all slots. One of type B has remap entries in the last: 21, or 42 in 16 bytes, 10 in
// 4. A key outside its primary bucket, which is then of type B, is in the secondary bucket that the
// entry of its tag gives. All keys of one bucket and tag share the entry and the secondary bucket.
// A secondary bucket has at least eight slots: several small buckets form one, so that keys which
// share it have places.
//
// Keys are stored as their hash, which is a bijection. One bit of the hash is replaced by the type
// bit, which distinguishes arrays from keys; the number of the bucket implies the replaced bit. So
// every key is legal in every slot. The few keys with a hash that looks like a sentinel have slots
// in an extra line.
//
// # Changes
//
// A new key goes to its primary bucket if that has a free slot. If not (section 5.3), a secondary
// key in that bucket goes to another of its buckets. Failing that, the bucket is promoted to type
// B, for which one of its keys becomes secondary. Then the new key becomes secondary, in the least
// full of its seven buckets (on a GPU, if that takes a search, in the first with a free slot), or
// another key of its primary bucket does in its place. Secondary keys displace only each other, by
// a breadth-first search. But before a key is left without a place, a primary key is displaced,
// too.
//
// A deleted key leaves its slot dead (a tombstone), and any key may take it. What else it leaves is
// reclaimed (section 5.4): unused entries are cleared, keys return to primary buckets, and buckets
// that need no entries return to type A. [Reclaim] selects when. After ten turnovers at a load of
// 0.9 a lookup of an absent key reads 1.05 buckets with Lazy, 1.04 with Eager and 1.14 with Never;
// it reads 1.04 in a new table (TestChurn).
//
// # Upkeep
//
// A table grows when MaxLoad of its slots have keys, to at least twice its size. A table that has
// become almost empty shrinks. Operations that find no slot below that load mean that keys crowd.
// The table is then rehashed with another seed, and also doubled if it is as full as such buckets
// bear. Keys that were made to collide under one seed are ordinary keys under the next. A table of
// fixed size does the same as long as it holds fewer keys than its Capacity. Beyond that, and when
// no seed helps, calls return [weft.ErrFull].
//
// # Concurrency
//
// Package weft documents what runs concurrently with what. On a GPU, lookups run concurrently with
// changes, moves of keys and growth included; locks.cuh explains how a lookup detects that a key
// has moved past it. Clear holds lookups back.
//
// GPUs older than compute capability 9.0 have no compare-and-swap of 128 bits. There, a slot of 16
// bytes is pending for the time of one store, and a lookup or a change that meets it waits for that
// store.
//
// An iteration reads one bucket after the other, so no key may move meanwhile. A table that is
// iterated over postpones reclaiming; if it has to move keys, it makes a new table, as for growth.
//
// On a CPU the cores work on primary buckets in parallel. Operations that find theirs full, or need
// a secondary one, are deferred, and one core runs them afterwards. In 2^21 slots, these are one
// insertion in a hundred up to a load of 0.5, 12 from there to 0.7, 27 to 0.8, 50 from 0.85 to 0.9
// and 68 to 0.95. Of other changes, 6 in a hundred are deferred at a load of 0.7 and 14 at 0.9. So
// more cores help large batches of insertions up to a load of 0.8, and other changes at any.
//
// # Caveats
//
//   - A rehash needs memory for both tables at once. Without it, the table fills up to MaxLoad,
//     then calls return device.ErrMemory; nothing is lost.
//   - A fixed table takes Capacity keys: it gets more slots than MaxLoad requires where MaxLoad is
//     more than its buckets bear. A search for a slot on a CPU ends after 4,096 keys, and after 64
//     failed searches the rest of a batch waits for another seed. Beyond Capacity no key is moved:
//     a key is refused if its primary bucket and its seven secondary ones have no free slot.
//   - Sets of 32-bit keys have ten entries in an array, which more keys share: lookups of absent
//     keys read 1.1 buckets at a load of 0.94.
//   - The hash is fast and seeded, not cryptographic. With the random default seed, an attacker
//     must observe which keys are slow to prepare colliding keys.
//   - Users' kernels cannot access the table: it has no Ref.
//   - A table has at most 2^32 slots.
package horton
