package device

import (
	"errors"

	"github.com/weftgo/weft/internal/op"
)

// Opening a device fails with one of these; the wrapping error says what to
// do about it.
var (
	// ErrNoDriver: the driver library is not installed.
	ErrNoDriver = errors.New("no GPU driver")
	// ErrDriver: the driver library is there but does not work.
	ErrDriver = errors.New("GPU driver failed")
	// ErrDriverTooOld: the driver lacks a function that weft needs.
	ErrDriverTooOld = errors.New("GPU driver too old")
	// ErrNoDevice: the driver works but there is no such device.
	ErrNoDevice = errors.New("no such device")
	// ErrUnsupported: the device is too old for the kernels that ship, or
	// cannot do what was asked of it.
	ErrUnsupported = errors.New("device does not support this")
)

// Using a device fails with one of these.
var (
	// ErrClosed: the device, stream, event or range has been closed, or the
	// image unloaded. It is the same error as weft.ErrClosed.
	ErrClosed = op.ErrClosed
	// ErrMemory: the device has not enough free memory.
	ErrMemory = errors.New("out of device memory")
	// ErrLost: an earlier failure (illegal address, hardware fault) left the
	// device unusable for this process. The wrapped error is the first cause.
	ErrLost = errors.New("device lost")
	// ErrNoKernels: the device runs Go code only.
	ErrNoKernels = errors.New("device runs no kernels")
	// ErrKernel: an image does not load or has no such kernel.
	ErrKernel = errors.New("kernel does not load")
	// ErrInvalid: an argument makes no sense; the wrapping error says which.
	ErrInvalid = errors.New("invalid argument")
)
