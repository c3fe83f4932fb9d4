// Package ordered implements an ordered map for batches. A [Map] keeps its keys in the order of
// their type, with ranges, counts, ranks and snapshots, on a GPU or on all cores of a CPU.
//
// It builds what the last chapter of Awad's thesis ("Fully Concurrent GPU Data Structures", 2022)
// proposes: leaves of one cache line under an immutable index. It combines the operations of a
// batch before it touches a leaf, as Eirene does (Zhang and others, PPoPP 2023). So it needs no
// latches, no reader sees half of a change, and a batch has one outcome.
//
// # When to choose it
//
// Choose it where keys are queried by their order (ranges of time, neighbors, the pairs after a
// cursor, quantiles), or where a consistent view is held for long while changes go on. For lookups
// alone, the hash tables of package linear take a quarter of the time.
//
// Batches pay from a few hundred operations on. A change of one key costs its leaf, and a pass over
// the counts of the index, a byte for 50 pairs. If its leaf must be split, the change copies the
// whole index, half a byte per pair. That is a millisecond for 10^7 pairs, once for a dozen keys
// that are inserted one by one. On a GPU each batch writes an index, and takes about two dozen
// launches.
// # Layout
//
// A leaf has 32 slots. It stores the keys first and then the values, so a search that misses reads
// no values:
//
//	keys and values of 32 bits   128 + 128 bytes
//	a 64-bit part                128 + 256, 256 + 128 or 256 + 256 bytes
//
// Signed keys are stored as unsigned numbers of the same order. All 32 slots of the keys are in
// use: those after the last pair repeat its key. So a search for the first key that is not smaller
// needs no length, takes five comparisons without a branch, and every key is legal. A leaf stores
// neither its neighbors nor its bounds.
//
// The index has arrays that are searched, and no pointers. The lowest level has a separator for
// each leaf, in order. Above it are every 16th separator, every 256th, and so on, until 16 or fewer
// are left. Sixteen make a node, and the nodes of a level are adjacent, so the number of a node
// gives the numbers of its children. Beside the lowest level lie three arrays: the location of each
// leaf (4 bytes), its number of pairs (one byte), and the number of pairs before each sixteenth
// leaf (8 bytes). With the last two, Rank, Select and Count read one leaf for each end of a range
// of any size. 10^8 keys of 32 bits have 3.8 million leaves at the default fill, and an index of 37
// MB. On a GPU each block of a launch reads the separators of one level, 8 KB at most, and lookups
// begin below it.
//
// # Changes
//
// A batch is sorted by key, with the operations on a key in their order, and cut into chunks of
// neighboring leaves. A core takes a chunk and visits the leaves that have operations. It runs the
// operations on each key in order, which gives one change per key, and writes the remaining pairs
// back to the same leaf, or to as many as they need. Fewer than eight pairs are merged with those
// of the next leaf or the previous one, if they fit. If all leaves stay, only their sizes change in
// the index. Otherwise a new index is made of the chunks' leaves and the leaves between them.
// Merges and splits depend only on the sixteen leaves of a node of the index. So leaves and index
// have the same bytes on any number of cores. They have the same bytes on a GPU if a piece has the
// same operations and no leaf has more than 2^14 of them.
//
// On a GPU a change writes new leaves in place of those that change, and a new index, and leaves
// the old ones as they are. A thread resolves the operations of each key. Warps plan and write
// leaves, one leaf per lane. When free leaves run short, one pass over the indexes finds the leaves
// that no version has. A batch is merged whole, up to 2^24 operations at a time, or 2^28 into an
// empty map. Each operation takes about fifty bytes while the batch runs.
//
// Mixed batches keep the order of their operations: each returns what it would return if they ran
// one after the other. [weft.OpUpdate] is among them.
//
// A bulk load of an empty map works the same without reading leaves. Keys that ascend are written
// to leaves directly. A bulk load can be canceled at any time. Other changes run in pieces, each of
// which is done as a whole. A call with a context that may end has pieces of 2^18 operations. Other
// calls have larger pieces, with more operations per leaf.
//
// All memory that a piece may need is allocated before a leaf is touched. If that fails, the piece
// has not happened, and the call returns [device.ErrMemory] with the number of operations done
// before. Deletes may need memory too, while a snapshot is held.
//
// # Snapshots
//
// A snapshot is the index at its time, so taking it is free. From then on, changes write to new
// leaves in place of those that the newest snapshot has, and make a new index. A snapshot costs a
// copy of each leaf that has changed since, and an index. Each leaf has the time of its first
// write, by a clock that each snapshot advances. Each snapshot lists the leaves that nothing later
// has. When it is closed, leaves that the previous snapshot has too pass to that one. All others
// are free at once, for the next batch.
//
// On a GPU leaves never change, so a snapshot is a retained index, and costs the leaves that have
// been replaced.
//
// Each iteration runs over a snapshot of its own.
//
// # Concurrency
//
// Package weft documents which calls run concurrently. On a CPU, changes exclude lookups, including
// those in snapshots. A lookup waits for one piece of a batch and no more. On a GPU lookups run
// alongside changes, and find all of a piece or nothing. A batch on the device is submitted without
// a wait unless memory for its leaves may be short. Then the host waits until the device has
// planned this batch, or the one before, and reads the number of leaves that it takes. The device
// writes them after that.
//
// # Upkeep
//
// The memory of leaves consists of blocks, each as large as all before it. Leaves never move. On a
// GPU, batches have as many free leaves as the present has, at most, or as one batch takes. From
// about 30,000 leaves on, memory grows by what is needed beside the leaves of snapshots, so a
// snapshot costs its leaves and its index. When deletes leave an eighth of the leaves in use, and
// on a CPU no snapshot is held, all pairs move to new memory as in a bulk load. Compact does that
// at any time, and makes leaves as full as Fill says. Random insertions leave them two thirds full.
//
// # Caveats
//
//   - Kernels of users read a map or a snapshot ([Map.View], [Map.ViewAt]). They do not change it.
//   - On a GPU memory holds the leaves that a batch touches twice, so it is up to three times that
//     of the leaves in use.
//   - Many snapshots of a large map, with few changes between them, cost an index each.
//   - Up to 2^30 leaves.
package ordered
