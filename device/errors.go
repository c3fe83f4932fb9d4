package device

import (
	"errors"

	"github.com/weftgo/weft/internal/op"
)

// Opening a device fails with one of these errors. The wrapping error says what to do about it.
var (
	// ErrNoDriver: the driver library is not installed.
	ErrNoDriver = errors.New("no GPU driver")
	// ErrDriver: the driver library is installed but does not work.
	ErrDriver = errors.New("GPU driver failed")
	// ErrDriverTooOld: the driver lacks a function that weft needs.
	ErrDriverTooOld = errors.New("GPU driver too old")
	// ErrNoDevice: the driver works but the device does not exist.
	ErrNoDevice = errors.New("no such device")
	// ErrUnsupported: the device is too old for the kernels that ship, or lacks the requested
	// function.
	ErrUnsupported = errors.New("device does not support this")
)

// Using a device fails with one of these errors.
var (
	// ErrClosed: the device, stream, event or range has been closed, or the
	// image unloaded. It is the same error as weft.ErrClosed.
	ErrClosed = op.ErrClosed
	// ErrMemory: the device has too little free memory.
	ErrMemory = errors.New("out of device memory")
	// ErrLost: an earlier failure (illegal address, hardware fault) left the
	// device unusable for this process. The wrapped error is the first cause.
	ErrLost = errors.New("device lost")
	// ErrNoKernels: the device runs Go code only.
	ErrNoKernels = errors.New("device runs no kernels")
	// ErrKernel: an image does not load or has no such kernel.
	ErrKernel = errors.New("kernel does not load")
	// ErrInvalid: an argument is invalid; the wrapping error says which.
	ErrInvalid = errors.New("invalid argument")
)
