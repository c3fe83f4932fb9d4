package cuda

import (
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
)

// Code is a result code of the driver (CUresult).
type Code int32

// These are the codes that this package distinguishes, from the driver's documentation.
const (
	success              Code = 0
	invalidValue         Code = 1
	outOfMemory          Code = 2
	noDevice             Code = 100
	invalidDevice        Code = 101
	invalidImage         Code = 200
	noBinaryForGPU       Code = 209
	eccUncorrectable     Code = 214
	invalidPTX           Code = 218
	nvlinkUncorrectable  Code = 220
	jitCompilerNotFound  Code = 221
	unsupportedPTX       Code = 222
	jitDisabled          Code = 223
	contained            Code = 227
	invalidSource        Code = 300
	operatingSystem      Code = 304
	invalidHandle        Code = 400
	notFound             Code = 500
	notReady             Code = 600
	illegalAddress       Code = 700
	launchOutOfResources Code = 701
	launchTimeout        Code = 702
	peerAccessEnabled    Code = 704
	contextIsDestroyed   Code = 709
	deviceAssert         Code = 710
	alreadyRegistered    Code = 712
	notRegistered        Code = 713
	hardwareStackError   Code = 714
	illegalInstruction   Code = 715
	misalignedAddress    Code = 716
	invalidAddressSpace  Code = 717
	invalidPC            Code = 718
	launchFailed         Code = 719
	notPermitted         Code = 800
	notSupported         Code = 801
)

// sticky reports whether the code makes the context unusable. Code 999 (unknown) is not sticky,
// since calls that can be repeated return it too.
func (c Code) sticky() bool {
	switch c {
	case eccUncorrectable, nvlinkUncorrectable, contained, illegalAddress, launchTimeout,
		contextIsDestroyed, deviceAssert, hardwareStackError, illegalInstruction,
		misalignedAddress, invalidAddressSpace, invalidPC, launchFailed:
		return true
	}
	return false
}

// sentinel returns the error of package device that corresponds to the code.
func (c Code) sentinel() error {
	if c.sticky() {
		return device.ErrLost
	}
	switch c {
	case invalidValue, invalidHandle, launchOutOfResources, alreadyRegistered, notRegistered:
		return device.ErrInvalid
	case outOfMemory:
		return device.ErrMemory
	case noDevice, invalidDevice:
		return device.ErrNoDevice
	case invalidImage, noBinaryForGPU, invalidPTX, jitCompilerNotFound, unsupportedPTX,
		jitDisabled, invalidSource, notFound:
		return device.ErrKernel
	case notSupported:
		return device.ErrUnsupported
	}
	return device.ErrDriver
}

// Error describes a driver call that failed. errors.Is matches it with the error of package device
// that corresponds to its code, such as [device.ErrMemory] or [device.ErrLost]. Other codes match
// [device.ErrDriver].
type Error struct {
	Op   string // driver function, e.g. "cuMemAlloc"
	Code Code
	Name string // the driver's name of the code, e.g. "CUDA_ERROR_OUT_OF_MEMORY"
	Text string // the driver's explanation
}

// Error returns the driver function, the code and the driver's explanation.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: error %d", e.Op, e.Code)
	if e.Name != "" {
		s = fmt.Sprintf("%s: %s (%d)", e.Op, e.Name, e.Code)
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// Is reports whether target is the error of package device that corresponds to the code.
func (e *Error) Is(target error) bool { return target == e.Code.sentinel() }

// newError returns an Error with the driver's name and explanation of code c.
func (fr *frame) newError(sym symbol, c Code) *Error {
	e := &Error{Op: sym.String(), Code: c}
	if fr.code(symGetErrorName, uintptr(c), fr.resultPtr()) == success {
		e.Name = fr.string()
	}
	if fr.code(symGetErrorString, uintptr(c), fr.resultPtr()) == success {
		e.Text = fr.string()
	}
	return e
}

// codeOf returns the result code in the chain of err, or success if the chain has none.
func codeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return success
}

// versionString formats a CUDA version in the driver's encoding: "12.4" for 12040.
func versionString(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

func invalid(format string, args ...any) error {
	return fmt.Errorf("cuda: %w: %s", device.ErrInvalid, fmt.Sprintf(format, args...))
}

// closed returns an ErrClosed error for the named object.
func closed(name string) error { return fmt.Errorf("cuda: %s %w", name, device.ErrClosed) }
