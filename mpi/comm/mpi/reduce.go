package mpi

import (
	"runtime"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/clib"
	"github.com/weftgo/weft/mpi/comm/internal/vote"
)

func (r *rank) gatherWords(from, to uintptr, n int) {
	j := r.job
	j.must(fnAllgather, from, uintptr(n), j.uint64s, to, uintptr(n), j.uint64s, r.handle)
}

func gather[T uint64 | float64](r *rank, send, recv []T) {
	if 8*len(recv) <= maxBytes {
		r.gatherWords(clib.Address(send), clib.Address(recv), len(send))
		runtime.KeepAlive(send)
		return
	}
	r.exchangePieces(8*len(send), func(peer int) (to, from []byte) {
		return device.Bytes(send), device.Bytes(recv[peer*len(send):][:len(send)])
	})
}

// maxGathered bounds the values that each rank gathers and combines by itself. Such a reduction
// needs one call of MPI instead of two.
const maxGathered = 4096

// reduce combines values in the order of ranks. It does not use MPI_Allreduce, which may return
// different bits of floats on different ranks. Also, MPICH 4.0.2 compares MPI_UINT64_T as signed
// numbers.
func reduce[T uint64 | float64](r *rank, op comm.Op, values []T) {
	if r.size*len(values) > maxGathered {
		reduceShares(r, op, values)
		return
	}
	all := make([]T, r.size*len(values))
	gather(r, values, all)
	combine(op, values, all)
}

// reduceShares combines a share of the values on each rank, and then gathers the shares.
func reduceShares[T uint64 | float64](r *rank, op comm.Op, values []T) {
	_, each := vote.Share(len(values), 0, r.size)
	sendBytes, recvBytes := make([]int64, r.size), make([]int64, r.size)
	for peer := range r.size {
		lo, hi := vote.Share(len(values), peer, r.size)
		sendBytes[peer] = int64(8 * (hi - lo))
	}
	for peer := range r.size {
		recvBytes[peer] = sendBytes[r.rank]
	}
	all := make([]T, r.size*each)
	r.exchange(8*len(all), 8*each, device.Bytes(values), sendBytes, device.Bytes(all), recvBytes)
	share, n := make([]T, each), int(sendBytes[r.rank]/8)
	combine(op, share[:n], all[:r.size*n])
	gather(r, share, all)
	copy(values, all)
}

// combine combines consecutive arrays of len(to) values, in their order, and stores the result in
// the slice to.
func combine[T uint64 | float64](op comm.Op, to, arrays []T) {
	n := copy(to, arrays)
	for at := n; at < len(arrays); at += n {
		vote.Combine(op, to, arrays[at:at+n])
	}
}
