// Package epoch implements epoch-based reclamation for structures with kernels that unlink nodes of
// lists and trees while others read them. A node is kept until no block can be in it anymore. It is
// the host side of weft/epoch.cuh.
//
// # When to use it
//
// Use it where one launch frees nodes that the same launch, or a concurrent one, may reuse: btree
// with versions frees old content of leaves. A structure does not need it if it frees only between
// launches, as slab does and btree without versions, or whole versions, as ordered does. Package
// stack is the smallest structure that needs it, for tests.
//
// # How it works
//
// The epoch is a number. A block announces the epoch that it reads when it begins a group of
// operations. A node that it retires in the group goes to the bag of that epoch. When all blocks in
// a group have announced the epoch, it advances by one. A block that was in a group when a link to
// a node was removed has announced that epoch, or the one before or after it. So when the epoch has
// advanced three times since the retiring block announced it, no block is in the node, and it is
// freed.
//
// This is DEBRA (Brown, "Reclaiming memory for lock-free data structures: there has to be a better
// way", PODC 2015), in which each process reads a few announcements per operation. As in Awad's
// thesis ("Fully Concurrent GPU Data Structures", 2022, section 4.4.4) the processes are blocks. A
// block has fast memory of its own for three bags, and reads one announcement per thread at a time.
// The differences are:
//
//   - Nothing is lost at the end of a kernel. A block that leaves writes its bags to device memory
//     for the next block that takes its slot of the announcements, in this launch or another one.
//     That block continues where it has stopped, or [Reclaimer.Collect] frees the bags. The
//     published code loses them.
//   - A block may keep nodes that become free for itself, and take them without synchronization.
//     Nodes that are retired and taken at one rate never leave it. With free lists shared by all
//     threads, a tree did ten million changes a second, since each step of such a list waits for
//     the one before.
//   - Bags have no limit. What does not fit shared memory (128 nodes in the thesis) is linked by a
//     word per node beside the structure's memory, 4 bytes a node. A node is retired once, so its
//     link is always available, and nothing is allocated. A bag in device memory is 32 such lists,
//     which as many threads walk.
//   - An announcement counts once the epoch has been read again after it. Otherwise a block that
//     stalls between reading the epoch and announcing it would retire nodes in an epoch that all
//     others have left.
//   - Slots of announcements belong to running blocks of any launch. Kernels of several streams
//     share a Reclaimer.
//
// The retired memory that is not free belongs to three epochs, as long as no block stays in a
// group. So the work of a kernel between two begins should be short. Their number is not limited.
//
// # Pins
//
// A [Pin] keeps all nodes that are retired from now on until it ends, so that the host, or a
// snapshot in user code, may read what was there. It does not stop the epoch. Nodes retired before
// it are freed, and so are nodes retired after the last pin has ended. Each pin has stacks of its
// own for nodes that are retired while it is the newest one. When it ends, they go to the pin
// before it, or are freed if none is left.
//
// # Slots of streams
//
// epoch_enter announces an epoch for a thread beyond its launch, until another thread calls
// epoch_leave. So a stream keeps what is not free now. No more than two epochs end meanwhile, so
// nothing that is retired is freed then.
//
// # Leases
//
// A lease of the core keeps a generation of memory, regardless of nodes. A call that reads by
// kernels needs no pin, since its blocks announce themselves. A snapshot outlives a launch and
// reads nodes that changes would retire. Its engine makes a pin in [core.Versioner]'s Pin and ends
// it in Unpin. Both run under the writer lock, Unpin when streams are done with the snapshot. Pins
// need no other order.
//
// # Order of memory
//
// A block releases its announcement and then executes a fence.sc. A block that looks for others in
// an epoch has executed such a fence since it read that epoch. So of a reader and a block that has
// removed a link, one sees the other. The words for the end of a group, for the next epoch and for
// a stack's nodes are released and acquired. So what readers have read comes before what is written
// to a node when it is reused. Package stack is a structure with schedules and mutants. Each of
// these orders is left out there, and the tests find it.
//
// # Cost
//
// A group costs three barriers, a fence if its epoch differs from that of the group before, and a
// read of the announcements, one word per thread. [Counters] cost one atomic for each block and
// epoch.
package epoch
