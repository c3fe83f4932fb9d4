package vote

import "github.com/weftgo/weft/mpi/comm"

// Combine replaces each value of to by its combination with the value of from at the same place.
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

// Share returns the range of the values that a rank combines for all.
func Share(n, rank, size int) (lo, hi int) {
	each := (n + size - 1) / size
	return min(rank*each, n), min((rank+1)*each, n)
}

// Starts returns the offsets of parts that lie one after another.
func Starts(bytes []int64) []int64 {
	at := make([]int64, len(bytes))
	for i, n := range bytes[:len(bytes)-1] {
		at[i+1] = at[i] + n
	}
	return at
}
