package nccl

import (
	"fmt"
	"os"
	"runtime"

	"github.com/weftgo/weft/mpi/comm/internal/clib"
	"github.com/weftgo/weft/mpi/comm/internal/gpu"
)

// libraryVariable is the environment variable that names the NCCL library to open.
const libraryVariable = "WEFT_NCCL_LIBRARY"

// The NCCL functions that are called.
const (
	fnUniqueID = iota
	fnInitRank
	fnDestroy
	fnAbort
	fnGroupStart
	fnGroupEnd
	fnSend
	fnRecv
	fnAsyncError
	fnErrorString
	nFunctions
)

var functionNames = [nFunctions]string{
	"ncclGetUniqueId", "ncclCommInitRank", "ncclCommDestroy", "ncclCommAbort", "ncclGroupStart", "ncclGroupEnd",
	"ncclSend", "ncclRecv", "ncclCommGetAsyncError", "ncclGetErrorString",
}

// Constants of NCCL.
const (
	idWords    = 128 / 8 // ncclUniqueId
	typeUint8  = 1       // ncclUint8
	inProgress = 7       // ncclInProgress
)

// library is the opened NCCL library.
type library struct{ functions [nFunctions]uintptr }

// openLibrary opens the named library. Without a name it uses libraryVariable, and then the
// system's default.
func openLibrary(name string) (*library, error) {
	if name == "" {
		name = os.Getenv(libraryVariable)
	}
	if name == "" {
		name = "libnccl.so.2"
	}
	l := new(library)
	if err := gpu.Resolve(name, functionNames[:], l.functions[:]); err != nil {
		return nil, fmt.Errorf("nccl: NCCL does not open, install it or name its library in %s: %w", libraryVariable, err)
	}
	return l, nil
}

// call calls an NCCL function and returns an error if it fails.
func (l *library) call(fn int, args ...uintptr) error {
	return l.failure(fn, int32(clib.Call(l.functions[fn], args...)))
}

// failure returns an error for a result of an NCCL function, or nil if the result is success.
func (l *library) failure(fn int, result int32) error {
	if result == 0 {
		return nil
	}
	text := clib.String(clib.Call(l.functions[fnErrorString], uintptr(result)))
	return fmt.Errorf("nccl: %s: %s (%d); set NCCL_DEBUG=WARN in the environment for details",
		functionNames[fn], text, result)
}

func (l *library) uniqueID(id []uint64) error {
	err := l.call(fnUniqueID, clib.Address(id))
	runtime.KeepAlive(id)
	return err
}

// initRank joins a group of size ranks, and stores the handle of this rank. NCCL takes the 128
// bytes of the id by value. On x86-64 they are passed on the stack, after six arguments in
// registers. On arm64 the address of a copy is passed.
func (l *library) initRank(handle *uintptr, id []uint64, size, rank int) error {
	args := []uintptr{clib.Pointer(handle), uintptr(size)}
	if runtime.GOARCH == "amd64" {
		args = append(args, uintptr(rank), 0, 0, 0)
		for _, word := range id {
			args = append(args, uintptr(word))
		}
	} else {
		args = append(args, clib.Address(id), uintptr(rank))
	}
	err := l.call(fnInitRank, args...)
	runtime.KeepAlive(id)
	return err
}

func (t *transport) asyncError() error {
	state := new(int32)
	if err := t.call(fnAsyncError, t.handle, clib.Pointer(state)); err != nil {
		return err
	}
	if *state == inProgress {
		return nil
	}
	return t.failure(fnAsyncError, *state)
}
