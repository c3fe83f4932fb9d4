// Package cuda is an NVIDIA GPU as a device. It talks to the driver's own
// library, libcuda.so.1, opened at run time: neither cgo nor the CUDA toolkit
// is needed, to build or to run. Compute capability 8.0 (Ampere) and newer.
//
// # Failures
//
// A missing, broken or old driver is an error of [Open] that says what to do:
// [device.ErrNoDriver], [device.ErrDriver], [device.ErrDriverTooOld],
// [device.ErrNoDevice] or [device.ErrUnsupported]. A driver call that fails
// gives an [*Error] with the call and the code, which errors.Is matches with
// the sentinels of package device.
//
// Some codes (an illegal address in a kernel, an uncorrectable memory error)
// leave the GPU context unusable for the rest of the process. The device is
// then lost: every later call returns [device.ErrLost] together with the first
// cause, and only Close still does something. As work is asynchronous, such a
// failure shows up in a later call than the one that caused it, often in Sync
// or CopyOut. Open fails from then on, too, until the process ends.
//
// # Threads and contexts
//
// The driver's current context belongs to a thread, and goroutines move
// between threads. So every call here locks its thread, sets the GPU's primary
// context, calls, and unlocks: 0.1 us. No thread or goroutine of this package
// outlives a call. The primary context is shared with other CUDA code of the
// process, if there is any.
//
// # Copies
//
// A GPU copies at full speed only from and to page-locked host memory.
// CopyIn and CopyOut of other memory go through a ring of page-locked slots
// that each stream makes when it first needs them (at most 16 MiB): several
// goroutines move the bytes between Go memory and the ring while the GPU
// copies other slots. Memory of AllocHost, Register or Map, of any device of
// this package, is copied without the ring.
//
// # Mapped host memory
//
// The GPU reads and writes what Map gives it over the bus. What counts is how
// large a region the accesses of one moment lie in: random ones of 128 bytes
// move 51 GB/s within 256 MiB, 14 within 1 GiB and 5 within 8 GiB (an H200,
// 2026-11-22). Mapping costs 40 us per MiB, and four to nine times that for
// memory never touched before.
//
// # Ranges
//
// A range maps memory in pieces that double from 2 MiB to 1 GiB: 25 of them
// make 16 GiB. Growing goes on beside running kernels; random reads are as
// fast as in memory of Alloc.
//
// # Waiting
//
// A wait asks the driver over and over for about 50 us, then sleeps between
// questions, a sixteenth of the time waited so far and at most 1 ms. So short
// work is noticed at once, long work costs little, and a context that ends is
// noticed within a millisecond. Nothing stops a kernel that has been launched.
//
// # Caveats
//
//   - Copies, fills and launches are not checked against what is allocated; a
//     wild address loses the device. Package devicetest checks in tests.
//   - Memory of AllocHost and ranges are freed with the device at the latest;
//     using them after that is a crash.
//   - Memory of the caller can be mapped or registered on one GPU at a time,
//     but memory of AllocHost mapped on each.
//   - A program that imports this package is linked with the system's libc,
//     even without cgo; one that uses device/cpu alone is static.
//   - WEFT_PTX=80 in the environment loads the kernels for compute capability
//     8.0 on newer GPUs too, for testing.
package cuda
