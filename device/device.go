// Package device is what a structure asks of a machine: typed memory, ordered
// queues of work, kernels and errors. It is small on purpose. A structure
// picks its engine from the device once, in its constructor, and asks nothing
// else about it:
//
//   - device/cpu runs on every core of the host; its memory is host memory.
//   - device/cuda runs on an NVIDIA GPU through the driver API.
//   - device/sim interprets the kernels in Go, under a scheduler that a seed
//     controls; it is for tests.
//   - device/auto opens the best device there is and says why not the others.
//
// # Memory
//
// Memory comes in four ways. [Device.Alloc], and [Make] for typed slices,
// gives a block of fixed size and is the right one for most. [Device.Reserve]
// gives a [Range], which grows without moving and without a copy: for large
// structures of unknown size. [Device.Map] lets the device work on memory of
// the host: for what is larger than the device's memory, or outlives the
// process in a file. [Wrap] makes a typed slice of any of these, or of
// memory that another library on the same device has allocated, which it
// checks as far as the device can tell ([Prober]).
//
// # Ownership
//
// Whoever allocates frees: a [Slice], a [Range], a [Stream], an [Event] or a
// [Device] is released by its Close or Free method and by nothing else; there
// are no finalizers. All methods are safe for concurrent use unless they say
// otherwise.
package device

import "context"

// Ptr is an address in a device's memory. It is a number, not a Go pointer:
// the host must not follow it.
type Ptr uint64

// Kind names the implementation behind a [Device].
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

	// Memory reads free and total memory. ErrClosed after Close.
	Memory() (Memory, error)

	// Alloc returns size bytes of device memory, at least 256-byte aligned,
	// contents undefined. size must be positive. ErrMemory when there is not
	// enough.
	Alloc(size int) (Buffer, error)
	// Free returns a buffer. Work that uses it must have completed.
	Free(b Buffer) error

	// AllocHost returns size bytes of host memory that the device copies from
	// and to without staging (page-locked on a GPU), at least 256-byte
	// aligned.
	AllocHost(size int) ([]byte, error)
	// FreeHost returns what AllocHost gave, exactly as given. ErrInvalid while
	// a part of it is mapped.
	FreeHost(b []byte) error
	// Register page-locks host memory of the caller, which then copies at the
	// speed of AllocHost memory until the returned function undoes it. The
	// caller keeps b alive and in place (runtime.Pinner for Go memory) until
	// then. ErrInvalid for memory of which a part is registered or mapped.
	Register(b []byte) (unregister func() error, err error)
	// Pinned tells whether all of b is memory of AllocHost, Register or Map.
	Pinned(b []byte) bool

	// Map gives the device access to host memory: kernels and copies reach it
	// at b.Ptr, and device and host see what the other writes, the host after
	// it has waited for the work. host is memory of AllocHost or of the
	// caller, a file of tmpfs mapped shared for example. It must be writable,
	// begin at a multiple of [MapAlign] bytes and be a multiple of [MapUnit]
	// bytes long, and stay alive and in place until unmap. Until then it is
	// page-locked, too. Work that uses b must have completed before unmap,
	// which is idempotent. b.Host is host on a [Host] device, nil elsewhere.
	//
	// ErrInvalid for memory of another shape, or of which a part is registered
	// or mapped on this device already. ErrUnsupported, with the reason, if
	// the system does not let the device use that memory: it refuses GPUs the
	// files of ext4, xfs and btrfs, which device/cpu and device/sim accept.
	Map(host []byte) (b Buffer, unmap func() error, err error)

	// Reserve sets aside addresses for size bytes, without memory; a range
	// maps memory as it grows. size must be positive. ErrMemory when there are
	// not enough addresses. ErrUnsupported where the device or the system of
	// the host has no such thing, as on macOS and Windows.
	Reserve(size int) (Range, error)

	// Load makes the kernels of an image available. The same *Image is loaded
	// once and stays loaded until Unload or Close. A GPU's driver compiles a
	// kernel when it is first launched, so that launch may take long, and returns
	// what the compiler says. ErrNoKernels on a device that runs Go code only.
	Load(img *Image) (Module, error)
	// Unload takes an image off the device, for all who loaded it: looking for
	// its kernels and launching them is ErrClosed from then on. Launches of
	// them must have completed. A later Load loads the image anew. Unloading
	// what is not loaded does nothing.
	Unload(img *Image) error

	// NewStream opens a queue of work.
	NewStream() (*Stream, error)
	// NewEvent makes a marker for ordering and timing streams.
	NewEvent() (*Event, error)

	// Sync waits until all work of all streams is done.
	Sync(ctx context.Context) error

	// Close frees what the device itself holds. Streams, buffers, ranges and
	// events must have been closed before. Idempotent.
	Close() error
}

// Host is a device whose memory the host addresses and whose work is Go code:
// its buffers have Host set, and Parallel is its way to use all cores.
type Host interface {
	Device
	// Parallel cuts [0,n) into ranges of grain, the last one shorter, and
	// calls body for each, on all cores; it returns when all are done. A panic
	// in body is raised in the caller. Nested and concurrent calls are fine.
	Parallel(n, grain int, body func(lo, hi int))
}

// Buffer is a block of device memory.
type Buffer struct {
	Ptr  Ptr
	Size int
	// Host holds the same bytes on a [Host] device; it is nil on a GPU, for
	// mapped host memory, too.
	Host []byte
}
