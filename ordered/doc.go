// Package ordered implements an ordered map for batches. A [Map] stores its keys in the order of
// their type. It answers lookups, ranges, counts and ranks, and takes snapshots. It runs on a GPU
// or on all cores of a CPU.
//
// The design follows a proposal in the last chapter of Awad's thesis ("Fully Concurrent GPU Data
// Structures", 2022): leaves of one cache line under an immutable index. The operations of a batch
// are combined before a leaf is touched, as in Eirene (Zhang and others, PPoPP 2023). So the map
// needs no latches, readers never see half of a change, and the result of a batch is deterministic.
//
// # When to choose it
//
// Choose it if you query keys by their order (time ranges, neighbors, the pairs after a cursor,
// quantiles). Choose it also if you hold a consistent view for a long time while changes go on. If
// you only look up keys, the hash tables of package linear take a quarter of the time.
//
// Batches pay off from a few hundred operations on. A change of one key rewrites its leaf and
// passes over the ranks of the index, one byte per 50 pairs. If the leaf must be split, the change
// copies the whole index, half a byte per pair. The copy takes a millisecond for 10^7 pairs. If
// keys are inserted one by one, every twelfth or so causes it. On a GPU each batch writes a new
// index and takes about two dozen launches.
//
// # Layout
//
// A leaf has 32 slots. It stores the keys first and then the values, so a search that misses reads
// no values:
//
//	keys and values of 32 bits   128 + 128 bytes
//	a 64-bit part                128 + 256, 256 + 128 or 256 + 256 bytes
//
// Signed keys are stored as unsigned numbers of the same order. The slots after the last pair
// repeat its key. So a search needs no length and takes five comparisons without a branch, and
// every key value is legal. A leaf stores neither its neighbors nor its bounds.
//
// The index consists of arrays and has no pointers. The lowest level has one separator per leaf, in
// order. The levels above it have every 16th separator, every 256th, and so on, until 16 or fewer
// are left. Sixteen adjacent separators make a node. The nodes of a level are adjacent, so the
// number of a node gives the numbers of its children. Three more arrays hold the location of each
// leaf (4 bytes), its number of pairs (one byte), and the number of pairs before each sixteenth
// leaf (8 bytes). With the last two arrays, Rank, Select and Count read at most one leaf for each
// end of a range, however large the range is. 10^8 keys of 32 bits have 3.8 million leaves at the
// default fill, and an index of 37 MB. On a GPU each block of a launch reads the separators of one
// level once, at most 8 KB, and its lookups begin below that level.
//
// # Changes
//
// A batch is sorted by key and cut into chunks of neighboring leaves. Operations on the same key
// keep their order. One core processes a chunk. It visits the leaves that have operations and runs
// the operations on each key, which gives one change per key. It writes the resulting pairs back to
// the same leaf, or to as many leaves as they need. If fewer than eight pairs remain in a leaf,
// they are merged with the pairs of the next leaf or the previous one, if they fit. If all leaves
// stay, only their sizes change in the index. Otherwise a new index is built from the leaves of the
// chunks and the leaves between chunks. Merges and splits depend only on the sixteen leaves of one
// index node. So leaves and index have the same bytes on any number of cores. A GPU writes the same
// bytes too, if the pieces have the same operations and no leaf has more than 2^14 of them.
//
// On a GPU a change writes new leaves in place of those that change, and a new index. The old
// leaves and the old index stay as they are. A thread resolves the operations on each key. Warps
// plan and write leaves, one leaf per lane. When free leaves run short, one pass over the indexes
// finds the leaves that no version uses. A batch is merged whole, up to 2^24 operations at a time,
// or 2^28 into an empty map. Each operation takes about fifty bytes while the batch runs.
//
// Mixed batches, which may contain [weft.OpUpdate], keep the order of their operations. Each
// operation returns the same result as if they ran one after the other.
//
// A bulk load of an empty map works the same way without reading leaves. Ascending keys are written
// to leaves directly. A bulk load can be canceled at any time. Other changes run in pieces, and
// each piece runs as a whole or not at all. A piece has 2^18 operations if the context may end.
// Otherwise pieces are larger and have more operations per leaf.
//
// All memory that a piece may need is allocated before a leaf is touched. If that fails, the piece
// changes nothing, and the call returns [device.ErrMemory] with the number of operations done
// before. Deletes may also need memory while a snapshot is held.
//
// # Snapshots
//
// A snapshot keeps the index that is current when the snapshot is taken, so taking one is free.
// From then on, changes replace leaves of the newest snapshot by new leaves instead of overwriting
// them, and write a new index. So a snapshot costs an index and a copy of each leaf that has
// changed since. A clock advances at each snapshot, and each leaf has the time of its first write.
// Each snapshot lists the leaves that no later snapshot has and that are no longer in use. When the
// snapshot is closed, the leaves that the previous snapshot also has are added to that snapshot's
// list. All others are free at once, for the next batch.
//
// On a GPU leaves never change, so a snapshot is a retained index, and costs the leaves that have
// been replaced.
//
// Each iteration runs over a snapshot of its own.
//
// # Concurrency
//
// Package weft documents which calls run concurrently. On a CPU, changes exclude lookups, including
// those in snapshots. A lookup waits for at most one piece of a batch. On a GPU lookups run
// alongside changes, and find all of a piece or nothing. A batch on the device is submitted without
// a wait unless memory for its leaves may be short. If it may be short, the host waits until the
// device has planned this batch or the one before. It reads the number of leaves that the batch
// takes, and the device writes the leaves after that.
//
// # Upkeep
//
// The memory of leaves consists of blocks, each as large as all before it. Leaves never move. On a
// GPU, the leaves kept free for batches are at most as many as the leaves in use, or as one batch
// takes. From about 30,000 leaves on, memory grows by the number of leaves needed, so a snapshot
// costs only its leaves and its index. When deletes leave an eighth of the leaves in use, all pairs
// move to new memory as in a bulk load. On a CPU this waits until no snapshot is held. Compact does
// the same at any time, and makes leaves as full as Fill says. Random insertions leave them two
// thirds full.
//
// # Caveats
//
//   - Kernels of users read a map or a snapshot ([Map.View], [Map.ViewAt]). They do not change it.
//   - On a GPU, a leaf that a batch touches is in memory twice, before and after the change. So
//     memory is up to three times the size of the leaves in use.
//   - Many snapshots of a large map, with few changes between them, cost an index each.
//   - A map has at most 2^30 leaves.
package ordered
