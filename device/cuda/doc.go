// Package cuda implements an NVIDIA GPU as a device. It calls the driver's own library,
// libcuda.so.1, which it opens at run time. Neither cgo nor the CUDA toolkit is needed, to build or
// to run. It supports compute capability 8.0 (Ampere) and newer.
//
// # Failures
//
// [Open] reports a missing, broken or old driver with an error that says what to do:
// [device.ErrNoDriver], [device.ErrDriver], [device.ErrDriverTooOld], [device.ErrNoDevice] or
// [device.ErrUnsupported]. A driver call that fails returns an [*Error] with the call and the code.
// errors.Is matches it with the sentinels of package device.
//
// Some codes (an illegal address in a kernel, an uncorrectable memory error) leave the GPU context
// unusable for the rest of the process. The device is then lost: every later call returns
// [device.ErrLost] with the first cause, and only Close still has an effect. Since work is
// asynchronous, such a failure appears in a later call than its cause, often in Sync or CopyOut.
// Open also fails from then on, until the process ends.
//
// # Threads and contexts
//
// The driver's current context belongs to a thread, and goroutines move between threads. Every call
// here therefore locks its thread, sets the GPU's primary context, calls, and unlocks: 0.1 us. No
// thread or goroutine of this package outlives a call. The primary context is shared with other
// CUDA code of the process.
//
// # Copies
//
// A GPU copies at full speed only from and to page-locked host memory. CopyIn and CopyOut of other
// memory go through a ring of page-locked slots, at most 16 MiB, which each stream allocates on
// first use. Several goroutines move the bytes between Go memory and the ring while the GPU copies
// other slots. Memory of AllocHost, Register or Map, of any device of this package, is copied
// without the ring.
//
// # Mapped host memory
//
// The GPU accesses memory of Map over the bus. The speed depends on the size of the region that
// concurrent accesses touch. Random accesses of 128 bytes move 51 GB/s within 256 MiB, 14 within 1
// GiB and 5 within 8 GiB (an H200, 2026-11-22). Mapping costs 40 us per MiB, and four to nine times
// that for memory never touched before.
//
// # Ranges
//
// A range maps memory in pieces that double from 2 MiB to 1 GiB: 25 of them make 16 GiB. A range
// can grow while kernels run. Random reads are as fast as in memory of Alloc.
//
// # Waiting
//
// A wait polls the driver for about a millisecond. After that it sleeps between polls: a sixteenth
// of the time waited so far, at least 20 us and at most 1 ms. Short work is therefore noticed at
// once, long work costs little, and the end of a context is noticed within about a millisecond. A
// launched kernel cannot be stopped.
//
// # Caveats
//
//   - Copies, fills and launches are not checked against allocated memory; a wild address loses the
//     device. Package devicetest checks them in tests.
//   - Memory of AllocHost and ranges are freed with the device at the latest; using them after that
//     crashes.
//   - Memory of the caller can be mapped or registered on one GPU at a time. Memory of AllocHost
//     can be mapped on each.
//   - A program that imports this package is linked with the system's libc, even without cgo. One
//     that uses device/cpu alone is static.
//   - WEFT_PTX=80 in the environment loads the kernels for compute capability 8.0 on newer GPUs
//     too, for testing.
package cuda
