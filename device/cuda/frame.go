package cuda

import (
	"runtime"
	"sync"
	"unsafe"
)

const (
	// maxArgs is the argument count of cuLaunchKernel, the longest.
	maxArgs = 11
	// maxParams is the size of kernel parameters that every GPU accepts.
	maxParams = 4096
)

// frame holds the heap memory of one driver call: its arguments and the memory that they point to.
// It is pooled, so that a call allocates nothing. Go does not move heap memory, so an address
// stored as a number stays valid while the frame is in use.
type frame struct {
	drv  *driver
	args [maxArgs]uintptr

	// The driver writes these. ptr receives addresses of host memory: it is typed as a pointer, so
	// it needs no conversion from a number.
	out [2]uint64
	ptr unsafe.Pointer

	// params is read by the driver: a kernel's parameters, or a name.
	params [maxParams / 8]uint64
	size   uintptr    // of the parameters
	extra  [5]uintptr // params and size, in the form of cuLaunchKernel

	held any // keeps larger values reachable, and on the heap, for one call
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

// These pass the parameters to cuLaunchKernel as one block of memory with the layout of a struct.
// Drivers refuse a larger size, with padding at the end (CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES).
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

// call calls a driver function and converts its result code to an error.
func (fr *frame) call(sym symbol, args ...uintptr) error {
	if c := fr.code(sym, args...); c != success {
		return fr.newError(sym, c)
	}
	return nil
}

// query calls cuStreamQuery or cuEventQuery. Their code for "not yet" is not an error.
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

// result clears out[i] and returns its address for the driver to write to.
func (fr *frame) result(i int) uintptr {
	fr.out[i] = 0
	return uintptr(unsafe.Pointer(&fr.out[i]))
}

// resultPtr clears ptr and returns its address.
func (fr *frame) resultPtr() uintptr {
	fr.ptr = nil
	return uintptr(unsafe.Pointer(&fr.ptr))
}

// bytes returns the memory for parameters as bytes.
func (fr *frame) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&fr.params)), maxParams)
}

// cString stores a name shorter than maxParams where the driver can read it, and returns the
// address.
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
