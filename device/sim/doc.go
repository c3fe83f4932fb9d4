// Package sim implements a GPU that interprets PTX. In go test, on a machine without a GPU, it runs
// the kernels that ship with weft, under schedules that a seed determines. If a kernel does
// something invalid, it returns an error that names the instruction.
//
//	dev, err := sim.Open(sim.Schedule(42))
//
// Structures use it as any other [device.Device]. It executes some million warp instructions a
// second. In weak memory it is far slower if many threads release and acquire, since each thread
// passes on what it has seen of all others. device/auto opens it by name, in programs that import
// this package, and never picks it by default.
//
// # What is modelled
//
// Instructions: the PTX that clang-19 emits for the kernels of this module, for sm_80 and sm_90.
// The table in opcodes.go lists the forms. An image that uses another form does not load. Tests
// compare the results of each row with an H200, bit for bit.
//
// Threads: 32 lanes per warp, each with a program counter. Lanes converge only where PTX requires
// it: a .sync instruction waits for the lanes of its membermask, a barrier waits for the block.
// Under [Fast], lanes also run together whenever they can, and warps run one after another. Under
// [Random] and [PCT] any resident lane, warp or block may make the next access to memory. If no
// resident block finishes for a while, more blocks become resident, because the resident ones may
// wait for them. The limit is the number of blocks that an H200 holds.
//
// Streams: queues of works (launches, copies, fills, records and waits). A submitted work is
// queued. Works run while the host waits: in CopyOut, in Sync of a stream, an event or the device,
// and in submissions to full queues. Then the scheduler takes one small step after another, of any
// stream that can proceed, until the awaited work is done. If the context ends, the scheduler stops
// between two steps, and the work stays queued. Under Fast, works run in the order of submission.
// Under Random and PCT, launches of different streams are resident together and interleave access
// by access. Copies and fills proceed in pieces between these accesses. A Wait refers to the last
// Record of its event that was submitted before it, so events never wait for each other. If one
// goroutine submits all works, the seed determines everything.
//
// Memory: sequentially consistent under Fast, weak under Random and PCT. In weak memory a load
// returns any value that the memory model lets the thread see. Stores and read-modify-write
// operations take effect at once. A thread's view limits which older values the thread may still
// read. Releases, acquires, fences and barriers pass views on, at the scopes block, GPU and system.
// Two accesses are not morally strong if one is weak or if their scopes do not include each other.
// Such accesses promise nothing about the order in which values are seen, and atomics among them
// may lose updates. A .b128 access is one access; a vector access is several. The tests in
// litmus_test.go list the possible outcomes.
//
// Order of works: a work is ordered after the works before it in its stream, after works that an
// event orders before it, and after works that the host had waited for when it was submitted. If a
// thread acquires from a thread of another launch, later works of its stream have seen the same.
// Nothing else orders two works. Copies and fills are weak accesses. All goroutines of the host
// count as one thread.
//
// Mapped memory: the bytes of the host itself. The host may write them after it has waited for all
// works that use them. Works submitted later see these writes. Writes while a work runs are not
// modelled.
//
// Ranges: memory that grows in steps of 256 bytes, so that even small structures grow often.
//
// # What is a fault
//
// Faults of kernels are:
//
//   - accesses out of bounds, misaligned, or to memory freed or never written;
//   - a .sync instruction if its membermask lacks the executing lane, or if lanes of the mask can
//     never arrive;
//   - a shuffle from a lane that does not take part;
//   - a barrier that lanes of a warp reach at different instructions, or that threads of the block
//     have skipped by exiting (which GPUs since Volta tolerate);
//   - an atomic on local memory, division by zero, and trap;
//   - a launch that exceeds its budget (the fault names another launch that it may wait for), and
//     threads that wait for each other forever;
//   - in weak memory, a load through the read-only path from bytes that the launch or a concurrent
//     one writes;
//   - in weak memory, a load of bytes that were written but need not be visible yet;
//   - with [Options.Races], a data race, even between launches, or between a launch and a copy.
//
// The following are faults of the host, whatever the schedule: to free, unmap or unload something
// before waiting for the works that may use it; to close an event that queued work may need; and to
// change or release host memory that an asynchronous copy may use. The target of such a copy holds
// a pattern until the copy is made.
//
// A [Fault] of a kernel names kernel, line, instruction, block, warp and lane; for a race it names
// both accesses. A fault of the host names the work. The waiting call returns the fault. The device
// is then lost, as a GPU would be.
//
// # What is not modelled
//
//   - Time: the clock counts warp instructions. Caches: cache operators are hints without effect.
//   - In weak memory: stores of a thread that take effect out of program order, and loads that
//     return values stored later in the order of execution (the litmus tests LB, S and 2+2W). More
//     than the last four values of a location. Races of strong accesses that differ in size, which
//     PTX leaves undefined.
//   - Registers that were never written: they hold values of another block.
//   - Missing order between goroutines of the host: work that one goroutine has waited for counts
//     as waited for by all.
//   - A kernel that waits for work submitted later.
//   - The order in which stores reach memory that survives a crash. A [Domain] receives stores in
//     the order in which they take effect. At each fence and release it receives the set of stores
//     that come before.
//   - Approximate floating-point arithmetic. Fusion by ptxas of a multiplication and an addition
//     that name no rounding.
//   - Textures, clusters, async copies, calls, dynamic shared memory, barriers that lanes of a warp
//     reach one by one.
//   - The architecture and the PTX version that an instruction needs: ptxas checks them.
//
// A shfl, vote, match or redux exchanges values between lanes that meet at the same instruction. By
// the text of PTX, lanes could also meet at two copies of it, but hardware does not support this.
// Lanes may meet in different bar.warp.sync instructions.
//
// The interpreter tests the PTX, not the machine code that the driver compiles from it.
//
// # Looking inside
//
// [Options.Trace], or WEFT_SIM_TRACE in the environment, writes one line per warp instruction.
// [Options.Watch] receives every access to global memory. [Options.Requests] receives the sectors
// and lines of global memory that warps request. [Options.Domain] receives stores, fences and
// releases, and decides which stores survive a crash.
package sim
