// Jobs and maps over several processes, apart from the library: it opens MPI and NCCL at run time
// where a program asks for them.
module github.com/weftgo/weft/mpi

go 1.26.0

require github.com/weftgo/weft v0.0.0

require (
	github.com/ebitengine/purego v0.11.3 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
