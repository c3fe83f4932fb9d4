// Package sim is a GPU that interprets PTX: it runs the kernels that ship, in
// go test, on a machine without a GPU, under schedules that a seed determines,
// and turns what a kernel must not do into an error that says where.
//
//	dev, err := sim.Open(&sim.Options{Scheduler: sim.Random, Seed: 42})
//
// It is a [device.Device] like any other; engines can't tell it from
// device/cuda. It is slow: some million warp instructions a second.
// device/auto never picks it by itself.
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
//
// Memory: under Fast it is sequentially consistent. Under Random and PCT it
// is weak: a load returns any value that the memory model lets the thread
// see. Stores and read-modify-write operations take effect at once; a thread's
// view says which older values it may still read; releases, acquires, fences
// and barriers pass views on, at the scopes block, GPU and system. Weak loads
// promise nothing about the order in which they see values. .b128 accesses are
// single accesses, vectors are several.
//
// # What is a fault
//
// Accesses out of bounds, misaligned, to memory freed or never written; a load
// through the read-only path of what the launch writes; a .sync instruction
// whose membermask lacks the executing lane or can't be met; a shuffle from a
// lane that does not take part; a barrier that lanes of a warp reach at
// different places, or that threads of the block have exited without; division
// by zero; trap; a launch that runs longer than its budget; and threads that
// wait for each other for ever. A [Fault] names kernel, line, instruction,
// block, warp and lane. The device is lost afterwards, as a real one would be.
//
// # What is not modelled
//
// Time: the clock counts warp instructions. Caches and coalescing: cache
// operators are hints without effect. Loads that return values stored later
// in the order of execution (load buffering), and more than the last four
// values of a location. More than one launch at a time: streams run their work
// when it is submitted. Floating-point arithmetic, textures, clusters, async
// copies, calls, dynamic shared memory.
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
// [Options.Domain] of stores and fences, to decide what a crash leaves of
// them.
package sim
