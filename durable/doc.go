// Package durable makes any map, set, multimap, ordered map, graph or table of ids survive power
// failures, on any file system of a Unix system.
//
// [Open] returns the ordinary structure with the ordinary methods. Each change is also appended to
// a log. With [EveryBatch], a change returns after it and all changes before it are on the disk.
// [Interval] and [OS] return earlier and say what a power failure may take. Whatever the policy,
// the end of the process takes nothing.
//
// # What a change leaves
//
// The log records effects: the state of each key after the change. After a failure, Open loads the
// last checkpoint and replays the log. A change is there as a whole or not at all, and no later
// change is there without it. Changes that had returned are there, as far as the policy promises.
// Assign never assigns an id of a change on the disk again, even if its key was deleted; after
// Clear it starts again at 0. Load logs each part of its stream as a change of its own. On a GPU,
// opening a store may change the order in which a multimap has the pairs of one key.
//
// Lookups may return changes that are not on the disk yet. Sync waits for these. Batches in device
// memory are logged when they are submitted, which waits for them and copies their keys to the
// host; they are on the disk when Sync returns. Kernels of users cannot change a durable structure.
//
// # Backups
//
// [Backup] copies a store that may be open. [Read] and [Inspect] read a store without changing it.
//
// # Checkpoints
//
// When the log reaches Options.LogLimit, a checkpoint replaces it. Changes continue meanwhile,
// except those of multimaps, of graphs of package slab, and of structures of fixed size, which
// wait. Lookups never wait longer than for a part of the structure.
//
// # Failures
//
// A full disk refuses a change before anything happens, and the next change tries again. One kind
// of change may find the disk full only after it has run, which counts as a failed write: a batch
// in the memory of a GPU that removes one of very many pairs of a key from a multimap. If writing
// or syncing fails, the store returns [ErrFailed] from then on: the disk may lack changes that the
// table has. Open after that reads what the disk has, and writes again what may not be on it. A
// change that returned an error may be there or not after that.
//
// Damage is never read as data. Open returns [weft.ErrCorrupt] with the file and the position if
// anything is damaged that was on the disk. One case cannot be distinguished from a power failure:
// damage to the last changes before a crash, if no later frame says that they were on the disk. A
// store that was closed has no such frames.
//
// # Files
//
// MANIFEST names the checkpoint and the first segment of the log. A checkpoint is a stream of Save.
// frame.go describes the segments. LOCK keeps a second process out.
package durable
