package device

import (
	"errors"

	"github.com/weftgo/weft/internal/op"
)

// Opening a device fails with one of these errors. The wrapping error says what to do.
var (
	// ErrNoDriver is returned if the driver library is not installed.
	ErrNoDriver = errors.New("no GPU driver")
	// ErrDriver is returned if the driver library is installed but does not work.
	ErrDriver = errors.New("GPU driver failed")
	// ErrDriverTooOld is returned if the driver lacks a function that weft needs.
	ErrDriverTooOld = errors.New("GPU driver too old")
	// ErrNoDevice is returned if the driver works but the device does not exist.
	ErrNoDevice = errors.New("no such device")
	// ErrUnsupported is returned if the device is too old for the kernels that ship with weft, or
	// lacks the requested function.
	ErrUnsupported = errors.New("device does not support this")
)

// Using a device fails with one of these errors.
var (
	// ErrClosed is returned if the device, stream, event or range has been closed, or the image
	// unloaded. It is the same error as weft.ErrClosed.
	ErrClosed = op.ErrClosed
	// ErrMemory is returned if the device has too little free memory.
	ErrMemory = errors.New("out of device memory")
	// ErrLost is returned if an earlier failure (illegal address, hardware fault) made the device
	// unusable for this process. The wrapped error is the first cause.
	ErrLost = errors.New("device lost")
	// ErrNoKernels is returned by a device that runs Go code only.
	ErrNoKernels = errors.New("device does not run kernels")
	// ErrKernel is returned if an image cannot be loaded or lacks the kernel.
	ErrKernel = errors.New("kernel does not load")
	// ErrInvalid is returned if an argument is invalid. The wrapping error says which.
	ErrInvalid = errors.New("invalid argument")
)
