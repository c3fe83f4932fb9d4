package core

import (
	"errors"
	"slices"
	"sync"

	"github.com/weftgo/weft/device"
)

// Sized is memory with a capacity.
type Sized interface {
	Memory() device.Buffer
	Capacity() int
}

// Spare keeps the memory of replaced generations for new ones, which often need about as much. The
// end of any last lease releases memory, so its methods may be called concurrently.
type Spare[T Sized] struct {
	Dev     device.Device
	MaxKept int // maximum number kept; the oldest is freed first
	// WaitIdle waits until no submitted work uses the released memory, before that is freed. nil
	// means no work does. Memory that is acquired again is used after such work.
	WaitIdle func() error

	mu        sync.Mutex
	kept      []T
	allocated int // bytes of all memory that has been allocated and not been freed
	closed    bool
}

// Has reports whether Acquire would find memory.
func (s *Spare[T]) Has(minCap, maxCap int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(minCap, maxCap) >= 0
}

// Acquire removes and returns the smallest memory with a capacity from minCap to maxCap.
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

// Alloc returns new memory with undefined content. Its errors are those of the device.
func (s *Spare[T]) Alloc(bytes int) (device.Buffer, error) {
	buf, err := s.Dev.Alloc(bytes)
	if err == nil {
		s.mu.Lock()
		s.allocated += buf.Size
		s.mu.Unlock()
	}
	return buf, err
}

// Release returns memory to the pool. It frees the oldest beyond MaxKept, and everything after
// Close.
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

// Trim frees everything kept.
func (s *Spare[T]) Trim() error { return s.TrimTo(0) }

// TrimTo frees the oldest memory until n pieces are left.
func (s *Spare[T]) TrimTo(n int) error {
	s.mu.Lock()
	excess := max(0, len(s.kept)-n)
	freed := slices.Clone(s.kept[:excess])
	s.kept = slices.Delete(s.kept, 0, excess)
	s.mu.Unlock()
	return s.freeAll(freed)
}

// Close frees everything kept, and keeps nothing from now on. No work is pending.
func (s *Spare[T]) Close() error {
	s.mu.Lock()
	s.closed, s.WaitIdle = true, nil
	s.mu.Unlock()
	return s.Trim()
}

// freeAll frees memory after all submitted work. It keeps the memory if that wait fails.
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

// Free frees memory that is not in use.
func (s *Spare[T]) Free(x T) error {
	s.mu.Lock()
	s.allocated -= x.Memory().Size
	s.mu.Unlock()
	return s.Dev.Free(x.Memory())
}

// Bytes returns the size of what is kept, and of all memory allocated and not freed.
func (s *Spare[T]) Bytes() (kept, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.kept {
		kept += x.Memory().Size
	}
	return kept, s.allocated
}
