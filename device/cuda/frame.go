package cuda

import (
	"runtime"
	"sync"
	"unsafe"
)

const (
	// maxArgs is the largest number of arguments of a driver function, which cuLaunchKernel has.
	maxArgs = 11
	// maxParams is the number of bytes of kernel parameters that every GPU accepts.
	maxParams = 4096
)

// frame holds the heap memory of one driver call: its arguments and the memory that they point to.
// Frames are pooled, so that a call allocates nothing. Go does not move heap memory, so an address
// stored as a number stays valid while the frame is in use.
type frame struct {
	drv  *driver
	args [maxArgs]uintptr

	// The driver writes out and ptr. ptr receives addresses of host memory. It has a pointer type,
	// so that no number is converted to a pointer.
	out [2]uint64
	ptr unsafe.Pointer

	// params holds a kernel's parameters, or a name. The driver reads it.
	params [maxParams / 8]uint64
	size   uintptr    // bytes in params
	extra  [5]uintptr // addresses of params and size, in the form that cuLaunchKernel reads

	held any // keeps larger values on the heap and reachable for one call
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

// These constants mark the fields of frame.extra. cuLaunchKernel then reads the parameters from one
// block of memory that is laid out as a struct. Drivers refuse a size that includes padding at the
// end (CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES).
const (
	launchParamEnd           = 0 // CU_LAUNCH_PARAM_END
	launchParamBufferPointer = 1 // CU_LAUNCH_PARAM_BUFFER_POINTER
	launchParamBufferSize    = 2 // CU_LAUNCH_PARAM_BUFFER_SIZE
)

// frame returns a frame from the pool. Callers return it with put.
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

// call calls a driver function and converts its result code to an error.
func (fr *frame) call(sym symbol, args ...uintptr) error {
	if c := fr.code(sym, args...); c != success {
		return fr.newError(sym, c)
	}
	return nil
}

// query calls cuStreamQuery or cuEventQuery, and reports whether the work is done.
func (fr *frame) query(sym symbol, handle uintptr) (bool, error) {
	switch c := fr.code(sym, handle); c {
	case success:
		return true, nil
	case notReady:
		return false, nil
	default:
		return false, fr.newError(sym, c)
	}
}

// result clears out[i] and returns its address, to which the driver writes.
func (fr *frame) result(i int) uintptr {
	fr.out[i] = 0
	return uintptr(unsafe.Pointer(&fr.out[i]))
}

// resultPtr clears ptr and returns its address.
func (fr *frame) resultPtr() uintptr {
	fr.ptr = nil
	return uintptr(unsafe.Pointer(&fr.ptr))
}

// bytes returns params as bytes.
func (fr *frame) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&fr.params)), maxParams)
}

// cString stores a C string in params and returns its address. name must be shorter than maxParams.
func (fr *frame) cString(name string) uintptr {
	n := copy(fr.bytes(), name)
	fr.bytes()[n] = 0
	return uintptr(unsafe.Pointer(&fr.params))
}

// int32 returns the C int that the driver wrote to out[i].
func (fr *frame) int32(i int) int { return int(*(*int32)(unsafe.Pointer(&fr.out[i]))) }

// float32 returns the C float that the driver wrote to out[i].
func (fr *frame) float32(i int) float32 { return *(*float32)(unsafe.Pointer(&fr.out[i])) }

// string returns the C string that ptr points to.
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
