package mpi

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm/internal/clib"
)

// libraryVariable is the environment variable that names the library to open.
const libraryVariable = "WEFT_MPI_LIBRARY"

// The libraries to try. The system's loader searches for names without a folder.
const (
	mpi5Library    = "libmpi_abi.so.0"
	openMPILibrary = "libmpi.so.40"
	mpichLibrary   = "libmpich.so.12"
	intelLibrary   = "libmpi.so.12"
)

// candidates returns the libraries to try, in order. Libraries that match the launcher come first,
// because other libraries cannot find the ranks that it has started.
func candidates(getenv func(string) string) []string {
	switch {
	case getenv("OMPI_COMM_WORLD_SIZE") != "":
		return []string{openMPILibrary, mpi5Library}
	case getenv("PMI_SIZE") != "":
		return []string{mpi5Library, mpichLibrary, intelLibrary, openMPILibrary}
	}
	return []string{mpi5Library, openMPILibrary, mpichLibrary, intelLibrary}
}

// The MPI functions that are called.
const (
	fnInitThread = iota
	fnFinalize
	fnAbort
	fnRank
	fnSize
	fnSplit
	fnFree
	fnSetErrhandler
	fnErrorString
	fnVersion
	fnAllgather
	fnAlltoallv
	fnSendrecv
	nFunctions
)

var functionNames = [nFunctions]string{
	"MPI_Init_thread", "MPI_Finalize", "MPI_Abort", "MPI_Comm_rank", "MPI_Comm_size", "MPI_Comm_split",
	"MPI_Comm_free", "MPI_Comm_set_errhandler", "MPI_Error_string", "MPI_Get_library_version",
	"MPI_Allgather", "MPI_Alltoallv", "MPI_Sendrecv",
}

type library struct {
	abi
	path      string
	functions [nFunctions]uintptr
}

// maxText bounds the text that a library returns. It is MPI_MAX_LIBRARY_VERSION_STRING of MPICH.
const maxText = 8192

// openLibrary opens the named library, or the first candidate that is installed.
func openLibrary(name string) (*library, error) {
	names := candidates(os.Getenv)
	if name == "" {
		name = os.Getenv(libraryVariable)
	}
	if name != "" {
		names = []string{name}
	}
	var missing []error
	for _, name := range names {
		var lookup func(string) uintptr
		var err error
		// A library may change signal handlers when it is loaded. Plugins of Open MPI need its
		// symbols to be global.
		clib.KeepSignals(func() { lookup, err = clib.Open(name, true) })
		if err != nil {
			missing = append(missing, err)
			continue
		}
		l, err := newLibrary(name, lookup)
		if err != nil {
			return nil, fmt.Errorf("mpi: %s is not usable: %w; name another library in %s", name, err, libraryVariable)
		}
		return l, nil
	}
	return nil, fmt.Errorf("mpi: no MPI library opens, install Open MPI or MPICH or name its library in %s: %w",
		libraryVariable, errors.Join(missing...))
}

// newLibrary looks up the functions and the handles of a library.
func newLibrary(name string, lookup func(name string) uintptr) (*library, error) {
	l := &library{path: name}
	for i, fn := range functionNames {
		if l.functions[i] = lookup(fn); l.functions[i] == 0 {
			return nil, fmt.Errorf("it has no function %s: %w", fn, device.ErrUnsupported)
		}
	}
	version, code := l.text(func(text, length uintptr) int32 { return l.call(fnVersion, text, length) })
	if code != 0 {
		return nil, fmt.Errorf("%s fails with %d", functionNames[fnVersion], code)
	}
	version, _, _ = strings.Cut(version, "\n")
	var err error
	l.abi, err = abiOf(name, version, lookup)
	return l, err
}

// call calls an MPI function and returns its error code.
func (l *library) call(fn int, args ...uintptr) int32 {
	return int32(clib.Call(l.functions[fn], args...))
}

// text returns the string that an MPI function writes, and its error code. f calls the function.
func (l *library) text(f func(text, length uintptr) int32) (string, int32) {
	buffer, length := make([]byte, maxText), new(int32)
	code := f(clib.Address(buffer), clib.Pointer(length))
	if code != 0 {
		return "", code
	}
	return strings.TrimRight(string(buffer[:*length]), "\x00"), 0
}

// failure returns an error for an error code of an MPI function.
func (l *library) failure(fn int, code int32) error {
	text, failed := l.text(func(text, length uintptr) int32 {
		return l.call(fnErrorString, uintptr(code), text, length)
	})
	if failed != 0 {
		text = fmt.Sprintf("error %d", code)
	}
	return fmt.Errorf("mpi: %s: %s", functionNames[fn], text)
}
