// Package sim is a GPU that interprets PTX: it runs the kernels that ship, in
// go test, on a machine without a GPU, under schedules that a seed determines,
// and turns what a kernel must not do into an error that says where.
//
//	dev, err := sim.Open(&sim.Options{Scheduler: sim.Random, Seed: 42})
//
// It is a [device.Device] like any other; engines can't tell it from
// device/cuda. It is slow: some million warp instructions a second, and far
// fewer in weak memory where many threads release and acquire, since each
// passes on what it has seen of all others. device/auto never picks it by
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
// Streams are queues of launches, copies, fills, records and waits. Nothing
// runs before the host waits for some of it, or too much is queued; then all
// streams go on. Under Fast, works run one after another in the order of
// submission. Under Random and PCT, launches of different streams are resident
// together and interleave access by access, with copies and fills between, which
// are made in pieces. A work begins with what its stream, the events it waits
// for, and the host's waits order before it, and with nothing else: accesses
// that none of these order are concurrent. A wait stands for the event's last
// record before it. streams_test.go has the litmus tests of these edges.
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
// zero; trap; a launch that runs longer than its budget; and threads that wait
// for each other for ever, of one launch or of several. Of the host: to free or
// unmap memory, to give up host memory of an asynchronous copy, or to close an
// event, before it has waited for the works that use them; and to change what an
// asynchronous copy still reads. The target of an asynchronous copy holds 0xdb
// in every byte from the submission on, until the copy is made. In weak memory
// also a load through the read-only path of what the launch has written, a load
// of what was written but need not be seen yet, and with [Options.Races] a data
// race, of two launches, too, and of a launch and a copy. A [Fault] names kernel,
// line, instruction, block, warp and lane; that of a race, both accesses. The
// device is lost afterwards, as a real one would be.
//
// # What is not modelled
//
// Time: the clock counts warp instructions. Caches and coalescing: cache
// operators are hints without effect. In weak memory, the stores of a thread
// that take effect in another order than the program's, and loads that return
// values stored later in the order of execution (the litmus tests LB, S and
// 2+2W); more than the last four values of a location; races of accesses that
// are both strong but differ in size, which PTX leaves undefined. Registers
// that were never written: they hold what another block left.
// Deadlines: where the host waits, its context is asked between two steps.
// The order in which stores reach memory that survives: a
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
// [Options.Domain] of stores to the memory that it holds, and of fences and
// releases, to decide what a crash leaves of them.
package sim
