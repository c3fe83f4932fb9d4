// Package epoch is epoch-based reclamation for structures whose kernels take nodes out of lists and
// trees while others read them: a node is kept until nobody can be in it any more. It is the host's side
// of weft/epoch.cuh.
//
// # When to use it
//
// Where one launch frees nodes that the same launch, or another beside it, may use again: btree with versions frees
// what leaves were. A structure that frees between launches only, as slab does and btree without versions, or whole
// versions, as ordered does, needs nothing of this. Package stack is the smallest such structure, for tests.
//
// # How it works
//
// There is an epoch, a number. A block announces the epoch that it sees when it begins a group of
// operations, and a node that it retires in the group goes to the bag of that epoch. When all blocks that
// are in a group have announced the epoch, it is advanced by one. A block that was in a group when a
// link to a node was taken away has announced that epoch, or the one before or behind it, so when the epoch has
// been advanced three times since the retiring block announced it, nobody is in the node: it is freed.
//
// That is DEBRA (Brown, "Reclaiming memory for lock-free data structures: there has to be a better way", PODC 2015), in
// which each process looks at a few announcements per operation. As in Awad's thesis ("Fully Concurrent GPU Data
// Structures", 2022, section 4.4.4) the processes are blocks, since they have fast memory of their own for
// three bags, and look at as many announcements at once as they have threads. What is different here:
//
//   - Nothing is lost at the end of a kernel. A block that leaves puts its bags into device memory, for the next block
//     that takes its slot of the announcements, in this launch or another one, which goes on where it has stopped; or
//     [Reclaimer.Collect] frees them. In the published code they are lost.
//   - A block may keep nodes that become free for itself, and take them without asking others: nodes that are
//     retired and taken at one rate never leave it. Free nodes in lists that all threads share made
//     ten million changes a second of a tree, for each step of such a list waits for the one before.
//   - Bags have no limit. What does not fit shared memory (128 nodes in the thesis) is linked by a word that each node
//     has beside the structure's memory, 4 bytes a node; as a node is retired once, there is always room, and
//     nothing is allocated. A bag in device memory is 32 such lists, which as many threads walk.
//   - An announcement counts when the epoch has been read again behind it. Without that, a block that waits between
//     reading the epoch and announcing it retires nodes in an epoch that all others have left behind.
//   - Slots of announcements belong to blocks that are under way, of whatever launch. Kernels of several streams share
//     a Reclaimer.
//
// Memory that is retired and not free is that of three epochs, as long as no block stays in a group: what a
// kernel does between begin and begin should be short, and of any length together.
//
// # Pins
//
// A [Pin] keeps all nodes that are retired from now on until it ends, so that the host, or a
// snapshot that user code holds, may read what was there. It does not stop the epoch: what had been
// retired before is freed, and so is what is retired when the last pin has ended. Each pin has stacks of its own for what
// is retired while it is the newest one; when it ends, these go to the pin before it, or are freed if there is none.
//
// # Slots of streams
//
// epoch_enter announces an epoch for a thread beyond its launch, until another one says epoch_leave: so a stream keeps
// what is not free now. No more than two epochs end meanwhile, so nothing that is retired is freed then.
//
// # Leases
//
// A lease of the core keeps a generation of memory; it knows nothing of nodes. A call that reads by kernels needs no
// pin: its blocks announce themselves. What outlives a launch, and reads nodes that changes would retire, is a
// snapshot: its engine makes a pin in [core.Versioner]'s Pin and ends it in Unpin, which come in the writer's turn,
// and when streams are done with the snapshot. That is all the order that pins need.
//
// # Order of memory
//
// A block releases its announcement and then has a fence of sc; who looks for others in an epoch has had such a fence since
// it saw that epoch. So of a reader and of who took a link away, one sees the other. The words that tell of
// the end of a group, of the next epoch and of a stack's nodes are released and acquired, so that what
// readers have read comes before what is written to a node when it is used again. Package stack is a structure with
// its schedules and mutants: each of these orders is left out there, and found.
//
// # Cost
//
// A group costs three barriers, a fence if it is in another epoch than the one before, and a read of the
// announcements, a word a thread. [Counters] cost an atomic for each block and epoch.
package epoch
