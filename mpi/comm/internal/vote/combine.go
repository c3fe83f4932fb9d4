package vote

import "github.com/weftgo/weft/mpi/comm"

// Combine replaces to[i] by its combination with from[i], for each i.
func Combine[T uint64 | float64](op comm.Op, to, from []T) {
	switch op {
	case comm.Sum:
		for i, v := range from {
			to[i] += v
		}
	case comm.Min:
		for i, v := range from {
			to[i] = min(to[i], v)
		}
	case comm.Max:
		for i, v := range from {
			to[i] = max(to[i], v)
		}
	}
}

// Share returns the range of indexes, out of n, that a rank combines for all ranks.
func Share(n, rank, size int) (lo, hi int) {
	each := (n + size - 1) / size
	return min(rank*each, n), min((rank+1)*each, n)
}

// Starts returns the offsets of contiguous parts with the given lengths.
func Starts(bytes []int64) []int64 {
	at := make([]int64, len(bytes))
	for i, n := range bytes[:len(bytes)-1] {
		at[i+1] = at[i] + n
	}
	return at
}
