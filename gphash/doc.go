// Package gphash is a persistent hash index, after "GPHash: An Efficient Hash Index for GPU with
// Byte-Granularity Persistent Memory" (Chen et al.). The index lives in a file that is mapped into
// memory and changed in place, word by word. However the process ends, the index can be opened
// again with all acknowledged changes.
//
// The package has three types. [Index] maps byte strings of one length to byte strings of another.
// [Strings] maps byte strings of any length. [Map] is a [weft.Map] of integers. All three work on
// batches, on all cores of the host or on a GPU that maps the file. The GPU may cache buckets in
// its memory, or mirror all slots and cache values of one length. A mixed batch (Apply) runs
// lookups, inserts, updates, upserts and deletes in its order: OpGet, OpPutNew, OpUpdate, OpPut and
// OpDelete.
//
// # When to choose it
//
// Choose it for state that takes long to rebuild and must survive a crash or a restart of the
// program. The index is available as soon as its file is mapped and scanned, without replaying a
// log. If the state need not survive a crash, `linear` is faster and offers Save and Load. On a
// disk, data that must survive a power failure belongs in a map of package durable. On persistent
// memory gphash orders its writes itself.
//
// # Structure (section 3.1)
//
// Level i has 2^i buckets of 8 slots. Keys lie in the top two levels. Each key has two hash
// locations per level. An insertion takes the emptiest of these four buckets, and a lookup reads
// all of them. At loads of .9 and more, all four may be full. Then a key in one of them moves to a
// free slot elsewhere, up to a load of .95. A bucket holds the control words of its slots, then
// their tags, then the keys. With 8-byte keys, which are their own tags, it takes 128 bytes. Longer
// keys are compared if their 64-bit hashes agree. Keys are hashed by SipHash with a seed of the
// pool. Values lie elsewhere in the pool, each with a checksum.
//
// If keys or values have a variable length, a slot holds only the hash of the key. Key and value
// lie elsewhere together, as a record. A lookup reads all records with the hash of its key, usually
// one. The sizes of records form classes, each at most an eighth larger than the one below. Each
// class has separate memory, allocated 64 KiB at a time except for large records. When one class
// runs out of memory, records of other classes are compacted. [Strings.Compact] does so at once.
//
// The second hash location of a key shares its first bits with the first location. So a level
// consists of up to 128 regions of at least 8,192 buckets, and a key stays in its region, with its
// value. Each core works on separate regions, without conflicts.
//
// # GPUs
//
// A GPU works on the file in place, over the bus. Its own memory only records which values are in
// use. A warp reads all candidate slots of a key at once. Batches are sorted by hash first, so that
// concurrent operations touch a small part of the pool. Sorting also makes operations on one key
// adjacent: a warp resolves them in their order, and the slot of the key changes once. In a large
// batch a warp has up to 32 operations and publishes their changes together. Lookups run alongside
// changes and resizes. A lookup that detects a concurrent change, by two clocks, searches again,
// slot by slot in order.
//
// For [Strings] the host copies the long data, since batches and pool are in its memory. Before the
// GPU runs a batch, the host writes the records that the batch may store, at most two per key.
// Afterwards it frees the records without a reference. The GPU hashes and sorts keys, compares them
// with the keys of records, and changes slots. The host copies the values that lookups find.
// Lookups wait for a running change, as on a CPU, and the host inspects the pool when it is opened.
// Batches on the device and caches of values require values of one length.
//
// The CPU can open a pool as soon as a GPU has closed it, and a GPU after the CPU.
// [OpenOptions.ReadOnly] requires the CPU.
//
// A GPU's driver takes long to map a large pool. With OpenOptions.HostFirst the CPU recovers the
// pool and works on it meanwhile, so Open returns as fast as on a CPU. [Index.WaitMapped] waits for
// the GPU.
//
// If a GPU is lost, no acknowledged change is lost. Calls in flight return [device.ErrLost], and
// each of their operations is either done or not. The pool is then inspected as at opening, and the
// same process continues on the CPU. The first change after the one that met the loss succeeds;
// lookups may return the error until then. After that, three kinds of calls still return the error:
// calls with streams of the GPU, one Sync after batches on these streams, and Close. Close frees
// the pool, but not the memory of the GPU.
//
// # What a crash leaves (section 3.2.3)
//
// While a slot holds a key, only its control word changes: the state, the version and the place of
// the value. An insertion takes a slot, writes the value, the tag and the key, and then the control
// word that publishes them. An update writes the new value or record and then the control word. A
// delete writes only the control word. So each operation is done or not, even if a crash interrupts
// the batch. An operation is durable when the call returns. Memory of deleted and replaced values
// is reused from the next batch on.
//
// A value that a lookup has read survives a crash if the batch that wrote it had returned when the
// lookup began. On a CPU lookups wait for changes, so they read only such values. On a GPU a lookup
// alongside a change may read a published value that is not durable yet; the call that wrote the
// value has not returned either. Atomic batches are an exception: they are durable before lookups
// see any part of them.
//
// With Options.AtomicBatch a batch is done as a whole or not at all, however the process ends, and
// is durable when the call returns. First the batch reserves slots and memory, and writes its
// values or records. Then it writes the new state of each slot to a redo log in the pool, which a
// checksum publishes. Then the slots change, on all cores or by a GPU, and the log is emptied.
// Opening a pool applies a batch that is still in the log and counts it in [Report]. A batch that
// had not been published has no effect.
//
// The log holds one batch and, with Options.AtomicTail, further ones that a GPU has yet to apply to
// the slots. Recovery reads no more of the log than these batches. A call with more operations is
// split into several atomic batches, in its order. A batch without capacity for all its inserts
// does nothing and returns [weft.ErrFull]; slots and values that it frees itself become available
// to the next batch. Clear is atomic, too, and so are the inserts of Map.GetOrPut. Map.Assign may
// take two batches if a call contains a new key more than once. A pool with a batch in the log
// cannot be opened for reading only.
//
// A GPU runs an atomic batch on a mirror of the slots. Lookups see no part of the batch before it
// is durable, and all of it afterwards, slot by slot. Values go to the pool in the order of their
// keys' hashes, and log records and buckets are written sequentially. Each key writes a value, 32
// bytes and a bucket. Lookups read only the value from the pool.
//
// Opening a pool scans all slots. The scan frees slots of unpublished insertions, tombstones, and
// second copies of keys that were moving. It also computes which memory is free, since the pool
// does not store that. A GPU reads control words and tags once, sequentially, and inspects them in
// its own memory. The host inspects the pool as well if the GPU finds damage or the pool has
// records. [Report] has the duration of each step. The scan checks tags and places against the
// keys. With OpenOptions.Verify it checks values against their checksums. A pool with other damage
// is refused with a description of the damage, or repaired with OpenOptions.Repair.
//
// The paper keeps two words per slot and frees slots at once. There, a lookup can return the value
// of another key, and a delete can miss an update. See layout.go.
//
// # Growth
//
// When a key finds no slot, a level is added on top, and the keys of the lowest level move up. In
// mode [Stop] they move all at once, as in the paper. In mode [Beside] each batch that inserts
// moves some of them. No keys move during an iteration. Opening a pool completes a resize that a
// crash interrupted. In mode Beside the next level is also zeroed in pieces before it is needed, if
// enough memory for values is left. A batch drains half a bucket and zeroes eight slots for each of
// its operations. It does more in two cases only: it brings more keys than the index has slots, or
// a key finds no slot while a level is drained.
//
// Pools keep their size: a full pool returns [weft.ErrFull] and keeps its contents. An index that
// would have to grow below half of its load returns [ErrSkewed] instead. If a GPU lacks memory for
// its part of a level, the batch returns device.ErrMemory; nothing is lost, and the next batch
// tries again.
//
// # Pools
//
// A file in a file system in memory (/dev/shm, hugetlbfs) outlives the process. A file on a disk is
// mapped the same way. It reaches the disk when the system writes it or when the pool is closed,
// but in no order that helps after a power failure. With [PMem] as Options.Durability every store
// is written back from the CPU's caches before it counts as durable. A pool on a character device
// of persistent memory (/dev/dax0.0) takes the whole device and survives power failures. For other
// memory the operator asserts that it is persistent (Options.AssertPMem).
//
// Close stores the number of keys and sums over slots and checksums, and Open compares the pool
// with them. A pool that was open when the machine stopped returns [ErrPowerLost], unless its
// memory is persistent. Only one process may open a pool for writing, or several for reading only.
// The format is described in package internal/pool. A pool keeps its options; Save and Load copy
// pairs to a pool with other options.
//
// # Caveats
//
// On a CPU, and for Strings on a GPU too, lookups wait for a running change. Without
// Options.AtomicBatch neither Clear nor a batch is atomic. Truncating the file of an open pool
// kills the process that has it open. If another program writes to the file, lookups may return
// values of other keys until Check or the next Open reports [weft.ErrCorrupt]. Such writes cannot
// make a process or a GPU access memory outside the pool: a slot that refers outside the pool
// counts as a slot without a key.
package gphash
