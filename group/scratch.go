package group

import "sync"

// scratch is memory that calls use one after the other.
type scratch struct {
	blocks sync.Pool // of *block

	codes, restCodes  []uint64
	rows, restRows    []uint32
	dealtCodes        []uint64
	dealtRows, counts []uint32
	seen              []uint64 // bits of rows of a piece that brought a group
	before            []uint32 // how many are set before each word
}

func (s *scratch) block() *block {
	if b, ok := s.blocks.Get().(*block); ok {
		return b
	}
	return new(block)
}

// sized is a slice of n elements of memory that is kept.
func sized[T any](kept *[]T, n int) []T {
	if cap(*kept) < n {
		*kept = make([]T, n)
	}
	return (*kept)[:n]
}

// places are n counts of 0.
func (s *scratch) places(n int) []uint32 {
	p := sized(&s.counts, n)
	clear(p)
	return p
}

func (s *scratch) dealt(n int) (codes []uint64, rows []uint32) {
	return sized(&s.dealtCodes, n), sized(&s.dealtRows, n)
}
