// Package device defines the interface between data structures and the machine that runs them:
// typed memory, streams of work, kernels and errors. A structure picks its engine by the device
// once, in its constructor. Four packages open devices:
//
//   - device/cpu runs Go code on all cores of the host. Its memory is host memory.
//   - device/cuda runs kernels on an NVIDIA GPU through the driver API.
//   - device/sim interprets the kernels in Go, for tests. A seed controls its scheduler.
//   - device/auto opens the best device present and reports why it skipped the others.
//
// # Memory
//
// [Device.Alloc] allocates a block of fixed size, which suits most uses; [Make] allocates a typed
// slice. [Device.Reserve] returns a [Range], which grows in place without a copy. It suits large
// structures of unknown size. [Device.Map] lets the device access host memory. It suits data larger
// than the device's memory, and data in a file that outlives the process. [Wrap] makes a typed
// slice of any of these, or of memory that another library allocated on the same device. Wrap
// checks such memory as far as the device can (see [Prober]).
//
// # Ownership
//
// The caller that allocates also frees. Only a Close or Free method releases a [Slice], a [Range],
// a [Stream], an [Event] or a [Device]; finalizers are not used. All methods are safe for
// concurrent use unless their documentation says otherwise.
package device

import "context"

// Ptr is an address in a device's memory. It is a number, not a Go pointer: hosts must not
// dereference it.
type Ptr uint64

// Kind names the implementation of a [Device].
type Kind string

// The kinds of device.
const (
	CPU  Kind = "cpu"
	CUDA Kind = "cuda"
	Sim  Kind = "sim"
)

// Properties describe a device. They do not change while it is open.
type Properties struct {
	Kind  Kind   // implementation
	Name  string // marketing name, e.g. "NVIDIA H200"
	Index int    // ordinal among devices of its kind

	// Units is the number of workers of a CPU device, or of multiprocessors of a GPU.
	Units int
	// Arch is 10*major + minor of a GPU's compute capability (90 for an
	// H200); 0 on a CPU.
	Arch int
	// L2 is the size in bytes of the last cache that all units share; 0 if unknown.
	L2 int
	// Driver is the driver's version in the driver's own notation ("13.0").
	Driver string
}

// Memory holds the free and the total memory of a device, in bytes.
type Memory struct {
	Free, Total uint64
}

// Device is a machine that holds memory and runs work on it.
//
// Its errors wrap the sentinel errors of this package. After [ErrLost] every call on the device
// fails with an error that wraps the first cause.
type Device interface {
	Properties() Properties

	// Memory reads the device's free and total memory. It returns ErrClosed after Close.
	Memory() (Memory, error)

	// Alloc returns size bytes of device memory at a multiple of 256, with undefined contents. size
	// must be positive. Alloc returns ErrMemory if too little memory is free.
	Alloc(size int) (Buffer, error)
	// Free releases a buffer. All work that uses the buffer must have completed.
	Free(b Buffer) error

	// AllocHost returns size bytes of host memory at an address that is a multiple of 256. A GPU
	// copies to and from this page-locked memory without an intermediate buffer.
	AllocHost(size int) ([]byte, error)
	// FreeHost releases a slice that AllocHost returned. b must be that whole slice. FreeHost
	// returns ErrInvalid while a part of b is mapped.
	FreeHost(b []byte) error
	// Register page-locks host memory of the caller, so that copies of it are as fast as copies of
	// AllocHost memory. Until the caller calls unregister, it must keep b alive and in place, Go
	// memory by runtime.Pinner. Register returns ErrInvalid if a part of b is already registered or
	// mapped.
	Register(b []byte) (unregister func() error, err error)
	// Pinned reports whether all of b was allocated by AllocHost, registered or mapped.
	Pinned(b []byte) bool

	// Map lets kernels and copies access host memory at b.Ptr. The device sees the host's writes.
	// The host sees the device's writes after it has waited for the work.
	//
	// host is memory of AllocHost or of the caller, for example a tmpfs file mapped shared. It must
	// be writable, begin at a multiple of [MapAlign] bytes, and have a length that is a multiple of
	// [MapUnit]. Map page-locks host, which must stay alive and in place until unmap. Work that
	// uses b must have completed before unmap. A second unmap does nothing. On a [Host] device
	// b.Host is host, elsewhere it is nil.
	//
	// Map returns ErrInvalid if host has the wrong alignment or length, or if a part of it is
	// already registered or mapped on this device. It returns ErrUnsupported, with the reason, if
	// the system denies the device access to that memory. For GPUs the system denies files of ext4,
	// xfs and btrfs, which device/cpu and device/sim accept.
	Map(host []byte) (b Buffer, unmap func() error, err error)

	// Reserve reserves size bytes of addresses. The range maps memory there as it grows. size must
	// be positive. Reserve returns ErrMemory if too few addresses are free, and ErrUnsupported if
	// the device or the host's system cannot reserve addresses (macOS, Windows).
	Reserve(size int) (Range, error)

	// Load makes the kernels of an image available. A second Load of the same *Image returns the
	// loaded image, which stays loaded until Unload or Close. A GPU's driver compiles a kernel at
	// its first launch. That launch may therefore take long, and it returns the compiler's errors.
	// Load returns ErrNoKernels on a device that runs Go code only.
	Load(img *Image) (Module, error)
	// Unload removes an image from the device, for all users of the image. Launches of its kernels
	// must have completed before. From then on, lookups and launches of the kernels return
	// ErrClosed. A later Load loads the image anew. Unload does nothing if the image is not loaded.
	Unload(img *Image) error

	// NewStream opens an empty stream of work.
	NewStream() (*Stream, error)
	// NewEvent makes an event, which orders and times the work of streams.
	NewEvent() (*Event, error)

	// Sync waits for all work of all streams. If ctx ends first, Sync returns the context's error.
	Sync(ctx context.Context) error

	// Close releases the device. Streams, buffers, ranges and events must be closed or freed
	// before. A second Close does nothing.
	Close() error
}

// Host is a device that runs Go code on memory that the host can address; its buffers have Host
// set.
type Host interface {
	Device
	// Parallel calls body for consecutive ranges of [0,n) on all cores. Each range has grain
	// elements, except that the last one may have fewer. Parallel returns when all calls have
	// returned. A panic in body reaches the caller. Nested and concurrent calls are allowed.
	Parallel(n, grain int, body func(lo, hi int))
}

// Buffer is a block of device memory.
type Buffer struct {
	Ptr  Ptr
	Size int
	// Host holds the same bytes on a [Host] device. On a GPU it is always nil.
	Host []byte
}
