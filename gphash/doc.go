// Package gphash is a persistent hash index, after "GPHash: An Efficient Hash Index for
// GPU with Byte-Granularity Persistent Memory" (Chen et al.): an index in a file that is
// mapped into memory, changed in place, word by word, so that whatever ends the process
// leaves an index that opens again with all that has been acknowledged.
//
// It comes as [Index], from byte strings of one length to byte strings of another, as
// [Strings], of byte strings of any length, and as [Map], which is a [weft.Map] of integers.
// All work on batches, on all cores of the host or on a GPU that maps the file, which may keep a cache of
// buckets in its memory, or a mirror of all slots and, of values of one length, a cache.
// A mixed batch (Apply) has lookups, inserts, updates, upserts and deletes: OpGet, OpPutNew, OpUpdate, OpPut
// and OpDelete, in its order.
//
// # When to choose it
//
// State that takes long to rebuild and must survive a crash or a restart of the program:
// it is there again as fast as its file is mapped and looked through, with no log to
// replay. While it does not have to, `linear` is faster, and Save and Load keep it. What
// must survive a power failure belongs into a database, or onto persistent memory, for
// which the order of writes is made.
//
// # Structure (section 3.1)
//
// Level i has 2^i buckets of 8 slots. Keys lie in the top two levels, at two hash
// locations of each: of these four buckets an insertion takes the emptiest, and a lookup
// reads all. Where all are full, which begins at a load of .9, a key of one of them makes
// way that has a free slot elsewhere, up to a load of .95. A bucket has the control words of its slots first, then their tags, then the keys: 128
// bytes for 8-byte keys, which are their own tags; longer ones are compared where their
// 64-bit hash agrees. Keys are hashed by SipHash with a seed of the pool. Values lie
// elsewhere, each with a checksum.
//
// Where keys or values have a variable length, a slot has the hash of the key only, and
// key and value lie elsewhere together, as a record. A lookup reads the records of keys
// with its hash, of which there is one. Sizes of records go up by an eighth at most, and each
// has memory of its own, 64 KiB at a time for all but large ones; when there is none left for
// one size, records of others move together. [Strings.Compact] has them do so at once.
//
// The second hash location shares its first bits with the first: a level is cut into up
// to 128 regions of at least 8,192 buckets, and a key stays in its region, with its value. Cores work on regions of their own and never meet.
//
// # GPUs
//
// A GPU works on the file in place, over the bus; its own memory has only which values
// are in use. A warp reads all slots that a key may be in at once. Batches are sorted by
// hash first, so that what is under way at a time touches a small part of the pool; then
// operations on a key lie side by side, a warp settles them in their order, and the key's
// slot changes once; of a large batch a warp has up to 32 operations, and publishes what they change together. Lookups run beside changes and beside a resize: one that finds, by two
// clocks, that a change ran meanwhile looks again, slot by slot in order.
//
// Of [Strings] the host copies what is long, since batches and pool are memory of its own: it writes records for
// what a change may store, two for a key at most, before the GPU settles the batch, and frees those that no
// slot names then. The GPU hashes and sorts keys, compares them with those of records, and changes slots. What
// is found is copied by the host. Lookups wait for the change that runs, as on a CPU, and opening a pool
// is the host's work. Batches on the device, and caches of values, are for values of one length.
//
// A pool that a GPU
// has open can be opened on the CPU as soon as it is closed, and the other way round.
// [OpenOptions.ReadOnly] is for the CPU.
//
// To map a large pool takes a GPU's driver long. With OpenOptions.HostFirst the CPU recovers the pool and works on
// it meanwhile, so that Open returns as fast as on a CPU; [Index.Mapped] waits for the GPU.
//
// A GPU that is lost takes nothing with it that was acknowledged. Calls in flight return
// [device.ErrLost], of their operations each is there or not; the pool is looked through as when
// it is opened, and goes on in the same process, on the CPU: the call behind a change that met the loss
// works, lookups may return the error until that is done. So do, from then on, calls with streams of
// the GPU, a Sync behind batches on them, once, and Close, which frees the pool but not the memory
// of the GPU.
//
// # What a crash leaves (section 3.2.3)
//
// Of a slot only the control word changes: state, version, and where the value is. An
// insertion takes a slot, writes the value, the tag and the key, and then the word that
// publishes them; an update writes the new value, or record, and then the word; a delete writes
// the word. So every operation is there or not. An operation is durable when the call returns;
// of a batch that was cut short each operation for itself is there or not. What has been
// deleted or replaced is used again from the next batch on.
//
// What a lookup has read is there behind a crash if the batch that wrote it had returned when the lookup began. On a
// CPU lookups wait for changes, so they read nothing else. On a GPU, one beside a change may read what an operation
// under way has published and not made durable yet, as that operation's own caller does not know yet that it is there;
// beside atomic batches it does not: those are durable before lookups see any of them.
//
// With Options.AtomicBatch a batch is there as a whole or not at all, whatever ends the
// process, and durable when the call returns, too. When slots and memory for all of it have been
// reserved, and its values, or records, are there, what it makes of each slot is written to a redo log in the pool
// and published by a checksum; then the slots change, on all cores or by a GPU, and the log
// is emptied. Opening a pool applies a batch that is still in the log, and
// [Report] says so; half of one that had not been published is nowhere. The log has room for one batch
// and, with Options.AtomicTail, for others whose slots a GPU has yet to write: that is all that
// recovery reads of it. A call with more operations is several batches, in its order,
// of which each is atomic. A batch without room for all that it inserts does nothing, and
// returns [weft.ErrFull]; slots and values that it frees itself are free for the next. Clear is atomic,
// too; Map.GetOrPut is in what it inserts, and Map.Assign may take two batches where a call brings a
// new key more than once. A pool with a batch in the log cannot be opened for reading only.
//
// A GPU settles an atomic batch beside a mirror of the slots, where lookups see none of it before it is
// durable, and then all of it, slot by slot. Values go to the pool in the order of their
// keys' hashes, records and buckets in rows: per key a value and 32 bytes, and a bucket. Lookups read the value only.
//
// Opening a pool looks at all slots: it frees what an insertion had taken and not
// published, tombs, and slots that a key was about to leave, and finds out which memory is free, which
// is nowhere stored. A GPU reads control words and tags once, in rows, and looks at them in its own
// memory; where it finds damage the host looks, too, and for all of records. [Report] says how long each part took.
// Tags and places are verified against the keys; with OpenOptions.Verify, values against their
// checksums. A pool that something else has damaged is refused, with the place, or
// repaired, with a [Report].
//
// The paper keeps two words per slot, and frees slots at once; a lookup then can return
// the value of another key, and a delete miss an update. See layout.go.
//
// # Growth
//
// When a key finds no slot, a level is added on top, and the keys of the lowest move up:
// all at once ([Stop], as in the paper), or some with each batch that inserts ([Beside]); none while somebody iterates. A crash on
// the way is made up for by whoever opens the pool. With Beside the next level is zeroed in pieces, too, before it is
// needed, if memory for values is left: for each of its operations a batch drains half a bucket and zeroes eight slots,
// and no more, unless it brings more keys than the index has slots, or a key finds none while a level is drained. Pools keep their size: one whose
// memory is used up returns [weft.ErrFull], and has what it had. An index that would
// have to grow below half of its load does not: [ErrSkewed]. A GPU without memory for what it
// has of a level returns device.ErrMemory; nothing is lost, and the next batch tries again.
//
// # Pools
//
// A file in a file system in memory (/dev/shm, hugetlbfs) outlives the process; one on a
// disk is mapped just the same, and reaches the disk when the system writes it there,
// or when the pool is closed, but in no order that a power failure could respect. Where
// Options.Durability asks for [PMem], every store is written back out of the caches of the
// CPU before it counts: a pool on a character device of persistent memory (/dev/dax0.0) has
// all of it and outlives power failures; of other memory the operator asserts that it does
// (Options.AssertPMem). Close stores how many keys there are and sums over slots and checksums, with
// which Open compares the pool. One that was open when the machine stopped is [ErrPowerLost], unless
// its memory is persistent. A pool is open once at a time, or for reading only, beside other
// readers. The format is that of package internal/pool. A pool keeps its options:
// Save and Load carry the pairs of one into another.
//
// # Caveats
//
// On a CPU, and of Strings on a GPU, too, lookups wait for the change that runs. Clear and a batch are not
// atomic without Options.AtomicBatch. Whoever
// shortens the file of an open pool kills the process that has it. Whoever writes it meanwhile may have
// keys read values of others, until Check or the next Open says so ([weft.ErrCorrupt]); but no
// process and no GPU is led out of the pool by that: a slot whose value would lie there has no key, for
// all operations.
package gphash
