// Package horton is a Horton table: a [Map] and a [Set] that take batches of keys, on
// every core of a CPU or on a GPU.
//
// It is the table of Breslow, Zhang, Greathouse, Jayasena and Tullsen ("Horton Tables: Fast
// Hash Tables for In-Memory Data-Intensive Computing", 2016), with buckets of 1 to 16
// slots. Most keys are in the one bucket that a hash function gives them. Where a bucket
// overflows, its last slot tells of keys that had to go elsewhere: three bits each say
// which of seven functions gives their bucket. So a lookup reads one bucket of memory most
// of the time, whether the key is there or not, and two at worst. Beyond the article, the
// table takes batches of any operations, on both devices, grows, takes another seed where
// keys crowd, and lets lookups run beside changes.
//
// # When to choose it
//
// At loads of 0.7 to 0.95, for tables that are looked up more than they are changed, and
// most of all where many keys are absent: at a load of 0.95 a lookup reads 1.17 buckets of
// a key that is there, and 1.06 of one that is not, where package cuckoo reads about 1.4
// and 2 with balanced buckets. Insertions at such loads move keys. At low loads, package
// linear does without: its insertions move nothing.
//
// Slots: eight, of which a table bears a load of 0.95. Sixteen bear a little more; fewer
// bear less, since arrays of entries take slots: see [Options].
//
// # Layout
//
// The table is an array of buckets of slots. A slot is one word: 8 bytes for 32-bit keys
// with 32-bit values, 16 bytes for pairs with a 64-bit part, the bare key in sets. A bucket
// of type A has keys in all slots; one of type B has remap entries in the last: 21, or 42
// in 16 bytes, 10 in 4. A key that is not in its primary bucket, one of type B, is in the
// secondary bucket that the entry of its tag gives; all keys of one bucket and tag share
// the entry, and the secondary bucket. That has eight slots at least: small buckets make it
// up together, so that keys which share it have places.
//
// Keys are stored as their hash, which is a bijection, and one bit of it, which tells
// arrays from keys, is told by the number of the bucket instead. So every key is legal,
// in every slot. The few keys whose hash looks like a sentinel have slots in a line of
// their own.
//
// # Changes
//
// A new key goes to its primary bucket if that has a free slot. If not (section 5.3): a
// secondary key there goes to another of its buckets; or else the bucket is promoted to
// type B, for which one of its keys becomes secondary; then the new key itself becomes
// secondary, in the least full of its seven buckets (on a GPU, where it takes a search, in
// the first with a free slot); or another one of its primary bucket in its place. Secondary
// keys displace only each other, by a breadth-first search; but before a key is left
// without a place, a primary key is displaced, too.
//
// A deleted key leaves its slot dead, for any key to take. What it leaves behind is
// reclaimed (section 5.4): entries of no key are cleared, keys come back to primary
// buckets, and buckets that need no entries are of type A again. [Reclaim] says when.
// After ten turnovers at a load of 0.9 a lookup of an absent key reads 1.05 buckets with
// Lazy, 1.04 with Eager and 1.14 with Never; 1.04 in a new table (TestChurn).
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
// # Concurrency
//
// Package weft says what runs beside what. On a GPU, lookups run beside changes, moves of
// keys and growth included: locks.cuh says how a lookup notices that a key has moved past it. Clear holds lookups back.
//
// GPUs older than compute capability 9.0 have no compare-and-swap of 128 bits: there, a slot of
// 16 bytes is pending for the time of one store, and a lookup or a change that meets it waits
// for that store.
//
// An iteration reads one bucket after the other, so no key may move meanwhile: in a table
// that is iterated over nothing is reclaimed until later, and one that has to move keys
// makes a new table, as for growth.
//
// On a CPU the cores work on primary buckets side by side; operations that find theirs
// full, or need a secondary one, are put off and run behind that by one core: of 2^21 slots
// one insertion in a hundred up to a load of 0.5, 12 from there to 0.7, 27 to 0.8, 50 from
// 0.85 to 0.9 and 68 to 0.95; of other changes 6 at a load of 0.7 and 14 at 0.9. So more
// cores help large batches of insertions up to a load of 0.8, and other changes at any.
//
// # Caveats
//
//   - A rehash needs memory for both tables at once. If there is none, the table goes on
//     filling up to MaxLoad, then calls return device.ErrMemory; nothing is lost.
//   - A fixed table takes Capacity keys: it gets more slots than MaxLoad asks for where
//     that is more than its buckets bear. A search for room on a CPU ends after 4,096
//     keys were tried, and after 64 searches in vain the others of a batch wait for
//     another seed. Beyond Capacity no key is moved: a key is refused after it has found no
//     free slot in its primary bucket and its seven secondary ones.
//   - Sets of 32-bit keys have ten entries in an array, which more keys share: lookups of
//     absent keys read 1.1 buckets at a load of 0.94.
//   - The hash is fast and seeded, not cryptographic. With the random default seed nobody
//     can prepare colliding keys without seeing which keys are slow.
//   - There is no Ref for kernels of users.
//   - Up to 2^32 slots per table.
package horton
