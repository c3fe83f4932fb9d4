// Package epoch implements epoch-based reclamation for structures with kernels that unlink nodes of
// lists and trees while other kernels read the nodes. It frees a node once no block can be reading
// the node. The package is the host side of weft/epoch.cuh.
//
// # When to use it
//
// Use it if one launch retires nodes that the same launch, or a concurrent one, may reuse: btree
// with versions retires old content of leaves. A structure does not need it if it frees nodes only
// between launches, as slab does, and btree without versions. Nor does a structure that frees whole
// versions, as ordered does. Package stack is the smallest structure that needs it, for tests.
//
// # How it works
//
// The epoch is a number. When a block begins a group of operations, it announces the epoch that it
// reads. A node that the block retires in the group goes into the block's bag for that epoch. When
// all blocks that are in a group have announced the current epoch, the epoch advances by one. If a
// block was in a group when a link to a node was removed, it has announced the epoch of that time
// or a neighboring one. So when the epoch has advanced three times since the retiring block
// announced it, no block can be reading the node. Then the node is freed.
//
// This is DEBRA (Brown, "Reclaiming memory for lock-free data structures: there has to be a better
// way", PODC 2015), in which each process reads a few announcements per operation. As in Awad's
// thesis ("Fully Concurrent GPU Data Structures", 2022, section 4.4.4) the processes are blocks. A
// block keeps three bags in its shared memory, and reads one announcement per thread at a time. The
// differences are:
//
//   - No node is lost at the end of a kernel. A block that leaves writes its bags to device memory
//     for the next block that takes its slot of the announcements, in this launch or another one.
//     That block continues with the bags, or [Reclaimer.Collect] frees them. The published code
//     loses them.
//   - A block may keep nodes that become free, and take them without synchronization. Nodes that
//     are retired and taken at one rate never leave the block. With free lists shared by all
//     threads, a tree made only ten million changes per second, since each step of such a list
//     waits for the previous step.
//   - Bags have no limit. Nodes that do not fit in shared memory (128 nodes in the thesis) are
//     linked by one word per node outside the structure's memory, 4 bytes a node. A node is retired
//     once, so its link is always available, and retiring allocates nothing. A bag in device memory
//     consists of 32 such lists, which 32 threads walk.
//   - An announcement counts only after the block has read the epoch a second time. Otherwise a
//     block that stalls between reading the epoch and announcing it would retire nodes in an epoch
//     that all others have left.
//   - Slots of announcements belong to running blocks of any launch. Kernels of several streams
//     share a Reclaimer.
//
// If no block stays in a group, the retired memory that is not free belongs to at most three
// epochs. So keep the work of a kernel between two calls of begin short. The number of calls is not
// limited.
//
// # Pins
//
// A [Pin] keeps all nodes retired before it ends, so that the host, or a snapshot in user code, can
// still read them. A pin does not stop the epoch. Nodes retired before the pin begins are freed,
// and so are nodes retired after the last pin has ended. Each pin has separate stacks for nodes
// that are retired while it is the newest pin. When a pin ends, its nodes go to the next older pin,
// or are freed if no older pin exists.
//
// # Slots of streams
//
// epoch_enter announces an epoch for a thread beyond the end of its launch, until another thread
// calls epoch_leave. Between the two calls at most two epochs end. So no node that is retired now
// is freed, and a stream can keep nodes from one launch to the next.
//
// # Leases
//
// A lease of the core keeps a generation of memory, regardless of nodes. A call that reads by
// kernels needs no pin, since its blocks announce themselves. A snapshot outlives a launch and
// reads nodes that changes would retire. Its engine makes a pin in [core.Versioner]'s Pin and ends
// the pin in Unpin. Both run under the writer lock. Unpin runs when streams no longer use the
// snapshot. Pins need no other order.
//
// # Order of memory
//
// A block releases its announcement and then executes a fence.sc. A block that looks for other
// blocks in an epoch has executed such a fence since it read that epoch. So if one block reads a
// link and another block removes it, at least one of them sees the other. The words for the end of
// a group, for the next epoch and for a stack's nodes are released and acquired. So all reads of a
// node happen before the writes that reuse it. Package stack is a structure with schedules and
// mutants. Each mutant omits one of these orders, and the tests detect it.
//
// # Cost
//
// A group costs three barriers, and a read of the announcements, one word per thread. If the epoch
// has changed since the previous group, the group also costs a fence. [Counters] cost one atomic
// operation per block and epoch.
package epoch
