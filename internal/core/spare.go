package core

import (
	"errors"
	"slices"
	"sync"

	"github.com/weftgo/weft/device"
)

// Sized is a piece of memory with a capacity.
type Sized interface {
	Memory() device.Buffer
	Capacity() int
}

// Spare keeps the memory of replaced generations, because new generations often need a similar
// capacity. Its methods may be called concurrently, because memory is released wherever the last
// lease on a generation ends.
type Spare[T Sized] struct {
	Dev     device.Device
	MaxKept int // maximum number of kept pieces; the oldest is freed first
	// WaitIdle waits until no submitted work uses released memory. It is called before that memory
	// is freed. If WaitIdle is nil, no work uses released memory. A piece that is acquired again
	// needs no wait, because new work runs after earlier work.
	WaitIdle func() error

	mu        sync.Mutex
	kept      []T
	allocated int // total bytes allocated and not freed
	closed    bool
}

// Has reports whether Acquire with the same arguments would find a piece.
func (s *Spare[T]) Has(minCap, maxCap int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(minCap, maxCap) >= 0
}

// Acquire removes and returns the smallest kept piece with a capacity from minCap to maxCap.
func (s *Spare[T]) Acquire(minCap, maxCap int) (x T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.find(minCap, maxCap)
	if at < 0 {
		return x, false
	}
	x = s.kept[at]
	s.kept = slices.Delete(s.kept, at, at+1)
	return x, true
}

func (s *Spare[T]) find(minCap, maxCap int) int {
	at := -1
	for i, x := range s.kept {
		if capacity := x.Capacity(); capacity >= minCap && capacity <= maxCap && (at < 0 || capacity < s.kept[at].Capacity()) {
			at = i
		}
	}
	return at
}

// Alloc allocates new memory with undefined content. It returns the errors of the device unchanged.
func (s *Spare[T]) Alloc(bytes int) (device.Buffer, error) {
	buf, err := s.Dev.Alloc(bytes)
	if err == nil {
		s.mu.Lock()
		s.allocated += buf.Size
		s.mu.Unlock()
	}
	return buf, err
}

// Release adds pieces to the kept pieces. It then frees the oldest pieces beyond MaxKept, or all
// pieces after Close.
func (s *Spare[T]) Release(x ...T) error {
	s.mu.Lock()
	s.kept = append(s.kept, x...)
	excess := max(0, len(s.kept)-s.MaxKept)
	if s.closed {
		excess = len(s.kept)
	}
	freed := slices.Clone(s.kept[:excess])
	s.kept = slices.Delete(s.kept, 0, excess)
	s.mu.Unlock()
	return s.freeAll(freed)
}

// Trim frees all kept pieces.
func (s *Spare[T]) Trim() error { return s.TrimTo(0) }

// TrimTo frees the oldest pieces until at most n are kept.
func (s *Spare[T]) TrimTo(n int) error {
	s.mu.Lock()
	excess := max(0, len(s.kept)-n)
	freed := slices.Clone(s.kept[:excess])
	s.kept = slices.Delete(s.kept, 0, excess)
	s.mu.Unlock()
	return s.freeAll(freed)
}

// Close frees all kept pieces. Pieces released later are freed at once. No submitted work may use
// released memory when Close is called.
func (s *Spare[T]) Close() error {
	s.mu.Lock()
	s.closed, s.WaitIdle = true, nil
	s.mu.Unlock()
	return s.Trim()
}

// freeAll frees pieces once no submitted work uses them. If that wait fails, it keeps the pieces.
func (s *Spare[T]) freeAll(freed []T) (err error) {
	s.mu.Lock()
	idle := s.WaitIdle
	s.mu.Unlock()
	if len(freed) > 0 && idle != nil {
		if err := idle(); err != nil {
			s.mu.Lock()
			s.kept = append(freed, s.kept...)
			s.mu.Unlock()
			return err
		}
	}
	for _, x := range freed {
		err = errors.Join(err, s.Free(x))
	}
	return err
}

// Free frees a piece that no work uses.
func (s *Spare[T]) Free(x T) error {
	s.mu.Lock()
	s.allocated -= x.Memory().Size
	s.mu.Unlock()
	return s.Dev.Free(x.Memory())
}

// Bytes returns the size of the kept pieces, and the size of all memory allocated and not freed.
func (s *Spare[T]) Bytes() (kept, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.kept {
		kept += x.Memory().Size
	}
	return kept, s.allocated
}
