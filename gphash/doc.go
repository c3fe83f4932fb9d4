// Package gphash is a persistent hash index, after "GPHash: An Efficient Hash Index for GPU with
// Byte-Granularity Persistent Memory" (Chen et al.). The index lives in a file that is mapped into
// memory and changed in place, word by word. However the process ends, the index opens again with
// everything that has been acknowledged.
//
// The package has three types. [Index] maps byte strings of one length to byte strings of another.
// [Strings] maps byte strings of any length. [Map] is a [weft.Map] of integers. All work on
// batches, on all cores of the host or on a GPU that maps the file. The GPU may cache buckets in
// its memory, or mirror all slots and cache values of one length. A mixed batch (Apply) runs
// lookups, inserts, updates, upserts and deletes in its order: OpGet, OpPutNew, OpUpdate, OpPut and
// OpDelete.
//
// # When to choose it
//
// Choose it for state that takes long to rebuild and must survive a crash or a restart of the
// program. The index is available as soon as its file is mapped and scanned, with no log to replay.
// If state need not survive a crash, `linear` is faster, with Save and Load to keep it. Data that
// must survive a power failure belongs in a database, or on persistent memory, for which the order
// of writes is designed.
//
// # Structure (section 3.1)
//
// Level i has 2^i buckets of 8 slots. Keys lie in the top two levels, at two hash locations in
// each. An insertion takes the emptiest of these four buckets, and a lookup reads all of them.
// Beginning at a load of .9 all four may be full. Then a key in one of them moves to a free slot
// elsewhere, up to a load of .95. A bucket holds the control words of its slots, then their tags,
// then the keys. It takes 128 bytes for 8-byte keys, which are their own tags. Longer keys are
// compared where their 64-bit hash agrees. Keys are hashed by SipHash with a seed of the pool.
// Values lie elsewhere, each with a checksum.
//
// If keys or values have a variable length, a slot holds only the hash of the key. Key and value
// lie elsewhere together, as a record. A lookup reads the records of keys with its hash, usually
// one. Sizes of records go up in steps of an eighth at most. Each size has memory of its own,
// allocated 64 KiB at a time for all but large ones. When one size runs out of memory, records of
// other sizes are compacted. [Strings.Compact] does so at once.
//
// The second hash location shares its first bits with the first. So a level consists of up to 128
// regions of at least 8,192 buckets, and a key stays in its region, with its value. Each core works
// on regions of its own, without conflicts.
//
// # GPUs
//
// A GPU works on the file in place, over the bus. Its own memory holds only which values are in
// use. A warp reads all candidate slots of a key at once. Batches are sorted by hash first, so that
// concurrent operations touch a small part of the pool. Sorting also makes operations on one key
// adjacent: a warp resolves them in their order, and the slot of the key changes once. In a large
// batch a warp has up to 32 operations and publishes their changes together. Lookups run alongside
// changes and resizes. A lookup that detects a concurrent change, by two clocks, repeats its search
// slot by slot in order.
//
// For [Strings] the host copies the long data, since batches and pool are in its memory. Before the
// GPU runs a batch, the host writes records for what a change may store, two per key at most.
// Afterwards it frees those that no slot refers to. The GPU hashes and sorts keys, compares them
// with those of records, and changes slots. The host copies what lookups find. Lookups wait for a
// running change, as on a CPU, and the host opens the pool. Batches on the device and caches of
// values require values of one length.
//
// The CPU can open a pool as soon as a GPU has closed it, and the other way round.
// [OpenOptions.ReadOnly] requires the CPU.
//
// A GPU's driver takes long to map a large pool. With OpenOptions.HostFirst the CPU recovers the
// pool and works on it meanwhile, so Open returns as fast as on a CPU. [Index.WaitMapped] waits for
// the GPU.
//
// A lost GPU loses nothing that was acknowledged. Calls in flight return [device.ErrLost], and each
// of their operations is either done or not. The pool is then inspected as when it is opened, and
// the same process goes on with the CPU. The next call after a change that met the loss works;
// lookups may return the error until then. From then on, three kinds of calls return the error:
// calls with streams of the GPU, a Sync after batches on them, once, and Close. Close frees the
// pool, but not the memory of the GPU.
//
// # What a crash leaves (section 3.2.3)
//
// Only the control word of a slot changes: state, version and the place of the value. An insertion
// takes a slot, writes the value, the tag and the key, and then the word that publishes them. An
// update writes the new value, or record, and then the word. A delete writes the word. So every
// operation is done or not. An operation is durable when the call returns. If a batch is cut short,
// each of its operations is done or not. Deleted and replaced memory is reused from the next batch
// on.
//
// A value that a lookup has read survives a crash if the batch that wrote it had returned when the
// lookup began. On a CPU lookups wait for changes, so they read nothing else. On a GPU a lookup
// alongside a change may read a value that is published but not durable yet; the call that wrote it
// has not returned either. Atomic batches are an exception: they are durable before lookups see any
// part of them.
//
// With Options.AtomicBatch a batch is done as a whole or not at all, however the process ends, and
// durable when the call returns. First the batch reserves slots and memory, and writes its values
// or records. Then it writes the new state of each slot to a redo log in the pool, which a checksum
// publishes. Then the slots change, on all cores or by a GPU, and the log is emptied. Opening a
// pool applies a batch that is still in the log, and [Report] says so. A batch that had not been
// published has no effect. The log holds one batch and, with Options.AtomicTail, further ones that
// a GPU has yet to apply to the slots. Recovery reads no more of it than that. A call with more
// operations is split into several atomic batches, in its order. A batch without capacity for all
// its inserts does nothing and returns [weft.ErrFull]; slots and values that it frees itself become
// available to the next. Clear is atomic, too, and so are the inserts of Map.GetOrPut. Map.Assign
// may take two batches if a call contains a new key more than once. A pool with a batch in the log
// cannot be opened for reading only.
//
// A GPU runs an atomic batch on a mirror of the slots. Lookups see none of it before it is durable,
// and all of it afterwards, slot by slot. Values go to the pool in the order of their keys' hashes,
// records and buckets in rows: per key a value, 32 bytes and a bucket. Lookups read only the value.
//
// Opening a pool scans all slots. It frees slots of unpublished insertions, tombstones, and second
// copies of keys that were moving. It also computes which memory is free, which is not stored
// anywhere. A GPU reads control words and tags once, in rows, and inspects them in its own memory.
// The host inspects the pool as well if the GPU finds damage, and in any case if the pool has
// records. [Report] has the time of each part. Tags and places are verified against the keys; with
// OpenOptions.Verify, values are verified against their checksums. A pool damaged by something else
// is refused, with the place of the damage, or repaired, with a [Report].
//
// The paper keeps two words per slot and frees slots at once. A lookup then can return the value of
// another key, and a delete can miss an update. See layout.go.
//
// # Growth
//
// When a key finds no slot, a level is added on top, and the keys of the lowest level move up. They
// move all at once ([Stop], as in the paper), or some with each batch that inserts ([Beside]), but
// none during an iteration. Opening a pool completes what a crash interrupts. With Beside the next
// level is also zeroed in pieces before it is needed, if enough memory for values is left. A batch
// drains half a bucket and zeroes eight slots for each of its operations. It does more in two cases
// only. The batch brings more keys than the index has slots, or a key finds no slot while a level
// is drained. Pools keep their size: a full pool returns [weft.ErrFull] and keeps its contents. An
// index that would have to grow below half of its load returns [ErrSkewed] instead. A GPU without
// memory for its part of a level returns device.ErrMemory; nothing is lost, and the next batch
// tries again.
//
// # Pools
//
// A file in a file system in memory (/dev/shm, hugetlbfs) outlives the process. A file on a disk is
// mapped the same way. It reaches the disk when the system writes it or when the pool is closed,
// but in no order that helps after a power failure. With [PMem] as Options.Durability every store
// is written back out of the caches of the CPU before it counts. A pool on a character device of
// persistent memory (/dev/dax0.0) takes all of it and survives power failures. For other memory the
// operator asserts that it does (Options.AssertPMem). Close stores the number of keys and sums over
// slots and checksums, and Open compares the pool with them. A pool that was open when the machine
// stopped returns [ErrPowerLost], unless its memory is persistent. A pool is open once at a time,
// or for reading only by several readers. The format is that of package internal/pool. A pool keeps
// its options; Save and Load copy pairs to a pool with other ones.
//
// # Caveats
//
// On a CPU, and for Strings on a GPU too, lookups wait for a running change. Without
// Options.AtomicBatch neither Clear nor a batch is atomic. Truncating the file of an open pool
// kills the process that has it open. If another program writes to the file, keys may return values
// of other keys until Check or the next Open reports [weft.ErrCorrupt]. Such writes cannot lead a
// process or a GPU out of the pool: a slot with a value outside of it holds no key, for all
// operations.
package gphash
