package cuda

import (
	"runtime"
	"sync"
	"unsafe"
)

const (
	// maxArgs is the argument count of cuLaunchKernel, the longest.
	maxArgs = 11
	// maxParams is the size of a kernel's parameters that every GPU takes.
	maxParams = 4096
)

// frame is what one driver call needs on the heap, pooled so that a call
// allocates nothing: its arguments, and the memory that they point to. Go does
// not move heap memory, so an address taken as a number stays good while the
// frame is in use.
type frame struct {
	drv  *driver
	args [maxArgs]uintptr

	// What the driver writes. ptr receives addresses of host memory: being
	// typed as a pointer, it needs no conversion from a number.
	out [2]uint64
	ptr unsafe.Pointer

	// What the driver reads: a kernel's parameters, or a name.
	params [maxParams / 8]uint64
	size   uintptr    // of the parameters
	extra  [5]uintptr // both, as cuLaunchKernel wants them

	held any // keeps larger things reachable, and on the heap, for one call
}

var frames = sync.Pool{New: func() any {
	fr := new(frame)
	fr.extra = [...]uintptr{
		launchParamBufferPointer, uintptr(unsafe.Pointer(&fr.params)),
		launchParamBufferSize, uintptr(unsafe.Pointer(&fr.size)),
		launchParamEnd,
	}
	return fr
}}

// How cuLaunchKernel is told that parameters are a block of memory: as many as
// the kernel takes, laid out like the fields of a struct. Drivers refuse a size
// that is larger, with padding at the end (CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES).
const (
	launchParamEnd           = 0 // CU_LAUNCH_PARAM_END
	launchParamBufferPointer = 1 // CU_LAUNCH_PARAM_BUFFER_POINTER
	launchParamBufferSize    = 2 // CU_LAUNCH_PARAM_BUFFER_SIZE
)

// frame takes a frame from the pool; put returns it.
func (drv *driver) frame() *frame {
	fr := frames.Get().(*frame)
	fr.drv = drv
	return fr
}

func (fr *frame) put() {
	fr.drv, fr.ptr, fr.held = nil, nil, nil
	frames.Put(fr)
}

// code calls a driver function and returns its result code.
func (fr *frame) code(sym symbol, args ...uintptr) Code {
	n := copy(fr.args[:], args)
	r := fr.drv.invoke(fr.drv.addr[sym], fr.args[:n])
	runtime.KeepAlive(fr)
	return Code(int32(r))
}

// call calls a driver function and makes an error of its result code.
func (fr *frame) call(sym symbol, args ...uintptr) error {
	if c := fr.code(sym, args...); c != success {
		return fr.newError(sym, c)
	}
	return nil
}

// reached calls cuStreamQuery or cuEventQuery, whose code for "not yet" is
// not an error.
func (fr *frame) reached(sym symbol, handle uintptr) (bool, error) {
	switch c := fr.code(sym, handle); c {
	case success:
		return true, nil
	case notReady:
		return false, nil
	default:
		return false, fr.newError(sym, c)
	}
}

// result is the address of out[i], cleared, for the driver to write to.
func (fr *frame) result(i int) uintptr {
	fr.out[i] = 0
	return uintptr(unsafe.Pointer(&fr.out[i]))
}

// resultPtr is the address of ptr, cleared.
func (fr *frame) resultPtr() uintptr {
	fr.ptr = nil
	return uintptr(unsafe.Pointer(&fr.ptr))
}

// bytes is the room for parameters as bytes.
func (fr *frame) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&fr.params)), maxParams)
}

// cString puts a name that is shorter than maxParams where the driver can
// read it, and returns the address.
func (fr *frame) cString(name string) uintptr {
	n := copy(fr.bytes(), name)
	fr.bytes()[n] = 0
	return uintptr(unsafe.Pointer(&fr.params))
}

// int32 is what the driver wrote to out[i] as a C int.
func (fr *frame) int32(i int) int { return int(*(*int32)(unsafe.Pointer(&fr.out[i]))) }

// float32 is what the driver wrote to out[i] as a C float.
func (fr *frame) float32(i int) float32 { return *(*float32)(unsafe.Pointer(&fr.out[i])) }

// string is the C string that ptr points to.
func (fr *frame) string() string {
	if fr.ptr == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(fr.ptr, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(fr.ptr), n))
}
