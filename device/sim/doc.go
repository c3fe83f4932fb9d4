// Package sim implements a GPU that interprets PTX. It runs the kernels that ship, in go test, on a
// machine without a GPU, under schedules that a seed determines. It turns a kernel's misuse into an
// error that names the place.
//
//	dev, err := sim.Open(sim.Schedule(42))
//
// It is a [device.Device] like any other; engines cannot distinguish it from device/cuda. It is
// slow: some million warp instructions a second. It is far slower in weak memory if many threads
// release and acquire, since each passes on what it has seen of all others. device/auto opens it by
// name in programs that import this package, and never picks it by default.
//
// # What is modelled
//
// The PTX that clang-19 emits for the kernels of this module, for sm_80 and sm_90: the rows of the
// table in opcodes.go. A form that the table lacks does not load. The results of each row are
// compared with an H200, bit for bit.
//
// Threads: 32 lanes per warp, each with a program counter. Lanes converge only where PTX requires
// it: a .sync instruction waits for the lanes of its membermask, a barrier for the block. Under
// [Fast], lanes also run together whenever they can, one warp after another. Under [Random] and
// [PCT] any lane, warp or block that is resident may make the next access to memory. While no
// resident block finishes, more blocks become resident, up to the number that an H200 holds. They
// may wait for each other.
//
// Streams: queues. Submitting enqueues work; it runs while the host waits: in CopyOut, in Sync of a
// stream, an event or the device, and in submissions to full queues. There the scheduler takes one
// small step after another, of any stream that can proceed, until the awaited work is done. A
// context that ends stops that between two steps, and the work stays queued. Under Fast work runs
// in the order of submission. Under Random and PCT launches of different streams are resident
// together and interleave access by access. Copies and fills proceed in pieces between them. Record
// and Wait are edges: a Wait refers to the last Record of its event that was submitted before it,
// so events never wait for each other. If one goroutine submits, the seed determines everything.
//
// Memory: under Fast it is sequentially consistent. Under Random and PCT it is weak: a load returns
// any value that the memory model lets the thread see. Stores and read-modify-write operations take
// effect at once. A thread's view limits which older values it may still read; releases, acquires,
// fences and barriers pass views on, at the scopes block, GPU and system. Some accesses are not
// morally strong: weak ones, and those with scopes that do not include each other. They promise
// nothing about the order in which values are seen, and atomics among them may lose updates. A
// .b128 access is a single access, a vector is several. The litmus tests of litmus_test.go list
// what can be seen.
//
// The model spans launches. A work comes after those before it in its stream and after those that
// an event orders before it. It also comes after those that the host had waited for at its
// submission. If a thread acquires from one of another launch, the works after its own have seen
// the same. Nothing else orders two works. Copies and fills are weak accesses. The host is one
// thread, however many goroutines it has.
//
// Mapped memory holds the host's own bytes. The host may write there once it has waited for all
// works that use it, and works submitted later see the writes. Writes while a work runs are not
// modelled. Ranges grow in steps of 256 bytes, so that small structures grow often.
//
// # What is a fault
//
// Faults of kernels are:
//
//   - accesses out of bounds, misaligned, or to memory freed or never written;
//   - a .sync instruction with a membermask that lacks the executing lane or cannot be met;
//   - a shuffle from a lane that does not take part;
//   - a barrier that lanes of a warp reach at different places, or that threads of the block have
//     skipped by exiting (which GPUs since Volta tolerate);
//   - an atomic on local memory, division by zero, and trap;
//   - a launch that exceeds its budget (the fault names another launch that it may wait for), and
//     threads that wait for each other forever;
//   - in weak memory, a load through the read-only path of bytes that the launch or a concurrent
//     one writes;
//   - in weak memory, a load of bytes that were written but need not be visible yet;
//   - with [Options.Races], a data race, also between launches, or between a launch and a copy.
//
// Faults of the host, whatever the schedule, are to free, unmap or unload what works may still use
// before waiting for them; to close an event that queued work may need; and to change or release
// host memory that an asynchronous copy may use. The target of such a copy holds a pattern until
// the copy is made.
//
// A [Fault] names kernel, line, instruction, block, warp and lane; for a race, both accesses; for a
// fault of the host, the work. The waiting call returns it, and the device is then lost, as a real
// one would be.
//
// # What is not modelled
//
//   - Time: the clock counts warp instructions. Caches: their operators are hints without effect.
//   - In weak memory: stores of a thread that take effect out of program order, and loads that
//     return values stored later in the order of execution (the litmus tests LB, S and 2+2W). More
//     than the last four values of a location. Races of accesses that are both strong but differ in
//     size, which PTX leaves undefined.
//   - Registers that were never written: they hold values of another block.
//   - Order between goroutines of the host that their program does not establish: work that one has
//     waited for counts as known to all.
//   - A kernel that waits for work that is submitted later.
//   - The order in which stores reach memory that survives: a [Domain] receives them in the order
//     in which they take effect, and at each fence and release the stores that come before it.
//   - Approximate floating-point arithmetic, and that ptxas may fuse a multiplication and an
//     addition that name no rounding.
//   - Textures, clusters, async copies, calls, dynamic shared memory, barriers that lanes of a warp
//     reach one by one.
//   - The architecture and the version of PTX that an instruction needs: ptxas checks them.
//
// A shfl, vote, match or redux exchanges values between lanes that meet at the same instruction.
// PTX's text would let lanes meet at two copies of it, but hardware does not. Lanes may meet in
// different bar.warp.sync.
//
// The interpreter tests the PTX, not the machine code that the driver compiles from it.
//
// # Looking inside
//
// [Options.Trace], or the environment's WEFT_SIM_TRACE, writes one line per warp instruction.
// [Options.Watch] receives every access to global memory, and [Options.Requests] the sectors and
// lines that warps request of it. [Options.Domain] receives stores to the memory that it holds, and
// fences and releases, to decide what a crash leaves of the stores.
package sim
