// Package device defines the interface between data structures and the machine that they run on:
// typed memory, ordered queues of work, kernels and errors. It is small on purpose. A structure
// picks its engine from the device once, in its constructor, and reads nothing else about it:
//
//   - device/cpu runs on every core of the host; its memory is host memory.
//   - device/cuda runs on an NVIDIA GPU through the driver API.
//   - device/sim interprets the kernels in Go, for tests. A seed controls its scheduler.
//   - device/auto opens the best device present and reports why it skipped the others.
//
// # Memory
//
// Memory comes in four forms. [Device.Alloc], and [Make] for typed slices, allocates a block of
// fixed size, which suits most uses. [Device.Reserve] returns a [Range], which grows in place
// without a copy: for large structures of unknown size. [Device.Map] lets the device work on host
// memory: for data larger than the device's memory, or data that outlives the process in a file.
// [Wrap] makes a typed slice of any of these, or of memory that another library allocated on the
// same device. It checks such memory as far as the device can ([Prober]).
//
// # Ownership
//
// The allocator frees. A [Slice], a [Range], a [Stream], an [Event] or a [Device] is released by
// its Close or Free method only; finalizers are not used. All methods are safe for concurrent use
// unless their documentation says otherwise.
package device

import "context"

// Ptr is an address in a device's memory. It is a number, not a Go pointer:
// the host must not follow it.
type Ptr uint64

// Kind names the implementation of a [Device].
type Kind string

// The kinds of device.
const (
	CPU  Kind = "cpu"
	CUDA Kind = "cuda"
	Sim  Kind = "sim"
)

// Properties describe a device; they do not change while it is open.
type Properties struct {
	Kind  Kind   // implementation
	Name  string // marketing name, e.g. "NVIDIA H200"
	Index int    // ordinal among devices of its kind

	// Units is the number of cores of a CPU or multiprocessors of a GPU.
	Units int
	// Arch is 10*major + minor of a GPU's compute capability (90 for an
	// H200); 0 on a CPU.
	Arch int
	// L2 is the size of the last cache shared by all units, in bytes; 0 if
	// unknown.
	L2 int
	// Driver is the version of the driver as it names itself ("13.0").
	Driver string
}

// Memory is a reading of a device's memory, in bytes.
type Memory struct {
	Free, Total uint64
}

// Device is a machine that holds memory and runs work on it.
//
// Errors wrap the sentinels of this package. After [ErrLost] every call on
// the device fails with an error that wraps the first cause.
type Device interface {
	Properties() Properties

	// Memory reads free and total memory. It returns ErrClosed after Close.
	Memory() (Memory, error)

	// Alloc returns size bytes of device memory, at least 256-byte aligned, with undefined
	// contents. size must be positive. ErrMemory if too little memory is free.
	Alloc(size int) (Buffer, error)
	// Free releases a buffer. Work that uses it must have completed.
	Free(b Buffer) error

	// AllocHost returns size bytes of host memory that the device copies from and to without
	// staging (page-locked on a GPU), at least 256-byte aligned.
	AllocHost(size int) ([]byte, error)
	// FreeHost releases a slice that AllocHost returned; b must be that whole slice. ErrInvalid
	// while a part of it is mapped.
	FreeHost(b []byte) error
	// Register page-locks host memory of the caller. Until the returned function undoes it, that
	// memory copies at the speed of AllocHost memory. The caller keeps b alive and in place until
	// then (runtime.Pinner for Go memory). ErrInvalid if a part of b is registered or mapped.
	Register(b []byte) (unregister func() error, err error)
	// Pinned reports whether all of b is memory of AllocHost, Register or Map.
	Pinned(b []byte) bool

	// Map gives the device access to host memory: kernels and copies reach it at b.Ptr. Device and
	// host see each other's writes, the host after it has waited for the work.
	//
	// host is memory of AllocHost or of the caller, for example a file of tmpfs mapped shared. It
	// must be writable, begin at a multiple of [MapAlign] bytes, and be a multiple of [MapUnit]
	// bytes long. Until unmap it must stay alive and in place, and it is page-locked. Work that
	// uses b must have completed before unmap, which is idempotent. b.Host is host on a [Host]
	// device, nil elsewhere.
	//
	// ErrInvalid for memory of another shape, or if a part of it is registered or mapped on this
	// device already. ErrUnsupported, with the reason, if the system does not let the device use
	// that memory. For GPUs it refuses files of ext4, xfs and btrfs, which device/cpu and
	// device/sim accept.
	Map(host []byte) (b Buffer, unmap func() error, err error)

	// Reserve reserves addresses for size bytes, without memory; a range maps memory as it grows.
	// size must be positive. ErrMemory if too few addresses are free. ErrUnsupported if the device
	// or the host's system cannot reserve addresses, as on macOS and Windows.
	Reserve(size int) (Range, error)

	// Load makes the kernels of an image available. The same *Image is loaded once and stays loaded
	// until Unload or Close. A GPU's driver compiles a kernel at its first launch, so that launch
	// may take long and returns the compiler's errors. ErrNoKernels on a device that runs Go code
	// only.
	Load(img *Image) (Module, error)
	// Unload removes an image from the device, for all its users. Looking up and launching its
	// kernels returns ErrClosed from then on. Launches of them must have completed. A later Load
	// loads the image anew. Unload of an image that is not loaded does nothing.
	Unload(img *Image) error

	// NewStream opens a queue of work.
	NewStream() (*Stream, error)
	// NewEvent makes a marker that orders and times streams.
	NewEvent() (*Event, error)

	// Sync waits for all work of all streams.
	Sync(ctx context.Context) error

	// Close frees what the device itself holds. Streams, buffers, ranges and events must have been
	// closed before. Idempotent.
	Close() error
}

// Host is a device with memory that the host addresses and with work that is Go code. Its buffers
// have Host set.
type Host interface {
	Device
	// Parallel cuts [0,n) into ranges of grain, the last one shorter, and calls body for each on
	// all cores. It returns when all calls have returned. A panic in body is raised in the caller.
	// Nested and concurrent calls are fine.
	Parallel(n, grain int, body func(lo, hi int))
}

// Buffer is a block of device memory.
type Buffer struct {
	Ptr  Ptr
	Size int
	// Host holds the same bytes on a [Host] device. It is nil on a GPU, also for mapped host
	// memory.
	Host []byte
}
