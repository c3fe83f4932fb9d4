// Package sim is a GPU that interprets PTX: it runs the kernels that ship, in
// go test, on a machine without a GPU, under schedules that a seed determines,
// and turns what a kernel must not do into an error that says where.
//
//	dev, err := sim.Open(sim.Schedule(42))
//
// It is a [device.Device] like any other; engines can't tell it from
// device/cuda. It is slow: some million warp instructions a second, and far
// fewer in weak memory where many threads release and acquire, since each
// passes on what it has seen of all others. device/auto opens
// it by name in programs that import this package, and never picks it by
// itself.
//
// # What is modelled
//
// The PTX that clang-19 emits for the kernels of this module, for sm_80 and
// sm_90: the rows of the table in opcodes.go. A form that is not there does not
// load. What each computes is compared with an H200, bit for bit.
//
// Threads: 32 lanes per warp, each with a program counter. Lanes converge only
// where PTX obliges them to: a .sync instruction waits for the lanes of its
// membermask, a barrier for the block. Under [Fast], lanes also run together
// whenever they can, one warp after another; under [Random] and [PCT] any
// lane, warp or block that is resident may make the next access to memory.
// More blocks become resident while none of those that are finishes: up to
// as many as an H200 holds, they may wait for each other.
//
// Streams: queues. Submitting enqueues; work is done where the host waits: in
// CopyOut, and in Sync of a stream, an event or the device. There the scheduler
// takes one small step after another of any stream that can go on, until what
// is waited for is done; a context that ends stops that between two steps, and
// the work stays queued. Under Fast it is done in the order of submission.
// Under Random and PCT launches of different streams are resident together and
// interleave access by access, and copies and fills go on in pieces between
// them. Record and Wait are edges: a Wait is for the last Record of its event
// that was submitted before it, so events never wait for each other. Where one
// goroutine submits, the seed decides everything.
//
// Memory: under Fast it is sequentially consistent. Under Random and PCT it
// is weak: a load returns any value that the memory model lets the thread
// see. Stores and read-modify-write operations take effect at once; a thread's
// view says which older values it may still read; releases, acquires, fences
// and barriers pass views on, at the scopes block, GPU and system. Accesses
// that are not morally strong, being weak or of scopes that don't include each
// other, promise nothing about the order in which values are seen, and atomics
// among them may lose updates. .b128 accesses are single accesses, vectors are
// several. The litmus tests of litmus_test.go say what can be seen.
//
// It spans launches: a work comes after those before it in its stream, after
// those that an event orders before it, and after those that the host had
// waited for when it was submitted; and what a thread has acquired from one of
// another launch, the works behind its own have seen, too. Nothing else orders
// two works. Copies and fills are weak accesses. The host is one thread, however
// many goroutines it has.
//
// Mapped memory holds the host's own bytes. The host may write there when it
// has waited for all works that use it, and the works that it submits then see
// that; what it does while one runs is not modelled. Ranges grow in steps of
// 256 bytes, so that small structures grow often.
//
// # What is a fault
//
// Accesses out of bounds, misaligned, to memory freed or never written; a .sync
// instruction whose membermask lacks the executing lane or can't be met; a
// shuffle from a lane that does not take part; a barrier that lanes of a warp
// reach at different places, or that threads of the block have exited without
// (which GPUs since Volta tolerate); an atomic on local memory; division by
// zero; trap; a launch that runs longer than its budget, with another launch
// named that it may wait for; and threads that wait for each other for ever. In
// weak memory also a load through the read-only
// path of what the launch writes, or one beside it; a load of what was written
// but need not be seen yet; and with [Options.Races] a data race, also between
// launches, or a launch and a copy.
//
// Of the host, whatever the schedule: to free, unmap or unload what works may
// use that it has not waited for, to close an event that queued work may need,
// and to change or give up host memory that an asynchronous copy may use. The
// target of such a copy holds a pattern until the copy is made.
//
// A [Fault] names kernel, line, instruction, block, warp and lane; that of a
// race, both accesses; that of the host, the work. Whoever waits gets it, and
// the device is lost then, as a real one would be.
//
// # What is not modelled
//
// Time: the clock counts warp instructions. Caches: their operators
// are hints without effect. In weak memory, the stores of a thread
// that take effect in another order than the program's, and loads that return
// values stored later in the order of execution (the litmus tests LB, S and
// 2+2W); more than the last four values of a location; races of accesses that
// are both strong but differ in size, which PTX leaves undefined. Registers
// that were never written: they hold what another block left. Order between
// goroutines of the host that their program does not give: what one has waited
// for counts for all. A kernel that waits for work that is submitted later. The
// order in which stores reach memory that survives: a
// [Domain] hears of them in the order in which they take effect, and at each
// fence and release which of them come before it.
// Approximate floating-point arithmetic, and that ptxas may fuse a
// multiplication and an addition that name no rounding. Textures, clusters,
// async copies, calls, dynamic shared memory, barriers that lanes of a warp
// reach one by one. Which architecture and which version of PTX an instruction
// needs: ptxas checks it.
//
// A shfl, vote, match or redux exchanges values between lanes that meet at
// the same instruction; PTX's text would let lanes meet at two copies of it,
// but hardware does not. Lanes may meet in different bar.warp.sync.
//
// The interpreter proves the PTX, not the machine code that the driver makes
// of it.
//
// # Looking inside
//
// [Options.Trace], or the environment's WEFT_SIM_TRACE, writes one line per
// warp instruction. [Options.Watch] is told of every access to global memory,
// [Options.Requests] of the sectors and lines that warps request of it, and
// [Options.Domain] of stores to the memory that it holds, and of fences and
// releases, to decide what a crash leaves of them.
package sim
