// Package cuda implements an NVIDIA GPU as a device. It calls the driver's own library,
// libcuda.so.1, which it opens at run time. Building and running need neither cgo nor the CUDA
// toolkit. The GPU must have compute capability 8.0 (Ampere) or newer.
//
// # Failures
//
// [Open] reports a missing, broken or old driver with an error that says what to do:
// [device.ErrNoDriver], [device.ErrDriver], [device.ErrDriverTooOld], [device.ErrNoDevice] or
// [device.ErrUnsupported]. A driver call that fails returns an [*Error], which holds the driver
// function and the result code. errors.Is matches it with the sentinel errors of package device.
//
// Some result codes (an illegal address in a kernel, an uncorrectable memory error) leave the GPU
// context unusable for the rest of the process. The device is then lost: every later call returns
// [device.ErrLost] with the first cause, and only Close still has an effect. Work is asynchronous,
// so that the failure appears in a later call than the one that caused it, often in Sync or
// CopyOut. From then on Open also fails, until the process ends.
//
// # Threads and contexts
//
// The driver's current context belongs to a thread, and goroutines move between threads. Every call
// therefore locks its thread, sets the GPU's primary context, calls the driver, and unlocks. This
// costs 0.1 us. No thread or goroutine of this package outlives a call. The primary context is
// shared with other CUDA code of the process.
//
// # Copies
//
// A GPU copies at full speed only from and to page-locked host memory. CopyIn and CopyOut copy
// other memory through a ring of page-locked slots, at most 16 MiB, which each stream allocates on
// first use. Several goroutines move the bytes between Go memory and the ring while the GPU copies
// other slots. Memory of AllocHost, Register or Map, of any device of this package, is copied
// without the ring.
//
// # Mapped host memory
//
// The GPU accesses mapped host memory over the bus. The speed depends on the size of the region in
// which concurrent accesses lie. On an H200, random accesses of 128 bytes move 51 GB/s within 256
// MiB, 14 within 1 GiB and 5 within 8 GiB (2026-11-22). Mapping takes 40 us per MiB, and four to
// nine times as long for memory never touched before.
//
// # Ranges
//
// A range maps memory in pieces, each twice as large as the one before, from 2 MiB to 1 GiB. 16 GiB
// consist of 25 pieces. A range can grow while kernels run. Random reads are as fast as in memory
// of Alloc.
//
// # Waiting
//
// A wait polls the driver for about a millisecond. After that it sleeps between polls. Each sleep
// lasts a sixteenth of the time waited so far, at least 20 us and at most 1 ms. The end of short
// work is therefore noticed at once, and a long wait takes little CPU time. The end of a context is
// noticed within about a millisecond. A launched kernel cannot be stopped.
//
// # Caveats
//
//   - Copies, fills and launches are not checked against allocated memory. An invalid address makes
//     the device unusable. Package devicetest finds such addresses in tests.
//   - Close of the device frees its ranges and its AllocHost memory; later uses of them crash.
//   - Memory of the caller can be mapped or registered on one GPU at a time. Memory of AllocHost
//     can be mapped on every GPU.
//   - A program that imports this package is linked with the system's libc, even without cgo. A
//     program that imports device/cpu alone is static.
//   - For tests, WEFT_PTX=80 in the environment loads the kernels for compute capability 8.0 on
//     newer GPUs too.
package cuda
