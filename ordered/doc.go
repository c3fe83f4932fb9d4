// Package ordered is an ordered map for batches: a [Map] whose keys are in the order of their
// type, with ranges, counts, ranks and snapshots, on a GPU or on every core of a CPU.
//
// It builds what the last chapter of Awad's thesis ("Fully Concurrent GPU Data Structures", 2022)
// proposes, leaves of one cache line under an index that does not change, and combines the
// operations of a batch before it touches a leaf, as Eirene does (Zhang and others, PPoPP 2023).
// So there are no latches, no reader meets half of a change, and a batch has one outcome.
//
// # When to choose it
//
// Where keys are asked for by their order: ranges of time, neighbors, the pairs behind a cursor,
// quantiles; or where a consistent view is to be held for long while changes go on. Where keys are
// only looked up, the hash tables of package linear take a quarter of the time.
//
// Batches pay from a few hundred operations on. A change of one key costs what its leaf costs,
// and a pass over the counts of the index, a byte for 50 pairs; if its leaf has to be split, it
// copies the whole index, half a byte for each pair: a millisecond for 10^7 of them, once for a
// dozen keys that are inserted one by one. On a GPU each batch writes an index, and takes some two
// dozen launches.
//
// # Layout
//
// A leaf has 32 slots, first the keys and then the values, so a search that misses reads no
// values:
//
//	keys and values of 32 bits   128 + 128 bytes
//	a 64-bit part                128 + 256, 256 + 128 or 256 + 256 bytes
//
// Signed keys are stored as unsigned numbers of the same order. All 32 slots of the keys are
// in use: behind the last pair its key is repeated. So a search for the first key that is not
// smaller needs no length, takes five comparisons without a branch, and every key is legal.
// A leaf knows neither its neighbors nor its bounds.
//
// The index has arrays that are searched, and no pointers: a separator for each leaf, in order;
// on top of them every 16th separator, every 256th, and so on, until 16 or fewer are left. Sixteen
// make a node, and the nodes of a level lie side by side, so the number of a node leads to that of
// its children. Beside the lowest level there are three arrays: where each leaf lies (4 bytes),
// how many pairs it has (one byte), and how many pairs come before each sixteenth leaf (8 bytes).
// The last two answer Rank, Select and Count with one leaf read for each end, whatever lies between.
// 10^8 keys of 32 bits have 3.8 million leaves at the default fill, and an index of 37 MB.
// On a GPU each block of a launch reads the separators of one level, 8 KB at most, and lookups begin below it.
//
// # Changes
//
// A batch is sorted by key, operations on a key in their order, and cut into chunks of
// neighboring leaves. A core takes a chunk. It goes over the leaves that have operations, runs
// those on a key in their order, which yields one change of the key, and writes the pairs that are left back: to the same
// leaf, or to as many as they need. Fewer than eight pairs are united with those of the next leaf, or
// of the one before, if there is room. Where leaves stay what they are, only their sizes change in the
// index; else the chunks' leaves and those between them make a new one. What is united and split depends on
// the sixteen leaves of a node of the index and on nothing else, so leaves and index have the same bytes on any
// number of cores and on a GPU, where a piece has the same operations and no leaf more than 2^14 of them.
//
// On a GPU a change writes new leaves in place of those that become others, and a new index, and leaves
// what there was as it is: keys are settled by a thread each, leaves planned and written by warps, of which each lane has one. Leaves
// that no version has are found out when there are too few free ones, in one pass over the indexes.
// A batch is merged whole, up to 2^24 operations at a time, or 2^28 into an empty map, each of which takes some
// fifty bytes while it runs.
//
// Mixed batches keep the order of their operations: what each returns is what it would return alone,
// one after the other. [weft.OpUpdate] is among them.
//
// A bulk load of an empty map is the same without leaves to read. Keys that ascend are written
// to leaves at once. It can be cancelled at any time. Other
// changes run in pieces, of which each is done as a whole; a call whose context may end has pieces
// of 2^18 operations, others larger ones, which have more operations for each leaf.
//
// All memory that a piece may need is taken before a leaf is touched: if there is none, the
// piece has not happened, and the call returns [device.ErrMemory] and how many operations were done
// before. Deletes may need memory, too, while a snapshot is held.
//
// # Snapshots
//
// A snapshot is the index at its time, so it is free to take. From then on a change writes to
// leaves of its own in place of those that the newest snapshot has, and makes a new index. What
// a snapshot costs is one copy of each leaf that has changed since, and an index. Each leaf knows
// when it was written first, by a clock that each snapshot advances; each snapshot has a list of the
// leaves that it has and nobody later. When it is closed, those that the snapshot before it
// has, too, go to that one, and all others are free at once, for the next batch.
//
// On a GPU leaves never change, so a snapshot is an index that is kept, and costs the leaves that
// have been replaced.
//
// An iteration is one over a snapshot of its own.
//
// # Concurrency
//
// Package weft says what runs beside what. On a CPU, changes exclude lookups, also those in snapshots, which
// wait for a piece of a batch and not for more. On a GPU lookups run beside changes, and find all of a
// piece or nothing; a batch on the device is submitted, and waited for only where memory for its leaves may be short: until the device
// has planned it, or the one before, and knows how many leaves it takes, which is before it writes them.
//
// # Upkeep
//
// The memory of leaves is blocks, each as large as all before it; leaves never move. On a GPU there are as many leaves for batches as
// the present has, at most, or as one batch takes; from some 30,000 leaves on, memory grows by what is needed beside those that
// snapshots have, so these cost the leaves that they have and their index. When deletes
// leave an eighth of them in use, and on a CPU no snapshot is held, all pairs move to new memory, written as by
// a bulk load. Compact does that at any time, and makes leaves as full as Fill says: random insertions
// leave them two thirds full.
//
// # Caveats
//
//   - Kernels of users read a map or a snapshot ([Map.View], [Map.ViewAt]); they do not change it.
//   - On a GPU there is memory for the leaves that a batch touches twice, so up to three times that of the leaves in use.
//   - Many snapshots of a large map, with few changes between them, cost an index each.
//   - Up to 2^30 leaves.
package ordered
