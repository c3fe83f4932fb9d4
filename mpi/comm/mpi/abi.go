package mpi

import (
	"fmt"
	"path"
	"strings"
)

// abi holds the handles and constants of an MPI binary interface, as arguments of C functions.
type abi struct {
	name           string
	world          uintptr // MPI_COMM_WORLD
	bytes, uint64s uintptr // MPI_BYTE, MPI_UINT64_T
	errorsReturn   uintptr // MPI_ERRORS_RETURN
	threadMultiple uintptr // MPI_THREAD_MULTIPLE
}

// undefined is MPI_UNDEFINED, the color for ranks that get no communicator.
const undefined = -32766

// mpich has the handles of MPICH, and of libraries with its binary interface. They are C ints.
var mpich = abi{
	name:           "MPICH",
	world:          0x44000000,
	bytes:          0x4c00010d,
	uint64s:        0x4c00083e,
	errorsReturn:   0x54000001,
	threadMultiple: 3,
}

// mpi5 has the handles of the binary interface that MPI 5 defines. They are pointers with small
// values.
var mpi5 = abi{
	name:           "MPI 5 ABI",
	world:          0x101,
	bytes:          0x247,
	uint64s:        0x259,
	errorsReturn:   0x143,
	threadMultiple: 4096,
}

// openMPI returns the handles of Open MPI, which are addresses of variables of the library.
func openMPI(lookup func(name string) uintptr) (abi, error) {
	a := abi{name: "Open MPI", threadMultiple: 3}
	for _, v := range []struct {
		to   *uintptr
		name string
	}{
		{&a.world, "ompi_mpi_comm_world"},
		{&a.bytes, "ompi_mpi_byte"},
		{&a.uint64s, "ompi_mpi_uint64_t"},
		{&a.errorsReturn, "ompi_mpi_errors_return"},
	} {
		if *v.to = lookup(v.name); *v.to == 0 {
			return a, fmt.Errorf("it has no variable %s", v.name)
		}
	}
	return a, nil
}

// abiOf determines the binary interface of a library by its name and its version text.
func abiOf(library, version string, lookup func(name string) uintptr) (abi, error) {
	if strings.HasPrefix(path.Base(library), "libmpi_abi.") {
		return mpi5, nil
	}
	if strings.Contains(version, "Open MPI") {
		return openMPI(lookup)
	}
	for _, name := range []string{"MPICH", "MVAPICH", "Intel(R) MPI"} {
		if strings.Contains(version, name) {
			return mpich, nil
		}
	}
	return abi{}, fmt.Errorf("its binary interface is not that of Open MPI, MPICH or MPI 5: it says %q", version)
}
