package core

import (
	"errors"
	"slices"
	"sync"

	"github.com/weftgo/weft/device"
)

// Roomy is memory with a capacity.
type Roomy interface {
	Memory() device.Buffer
	Room() int
}

// Spare keeps the memory of replaced generations for new ones, which often need about as much. The
// end of any last lease gives memory back, so its methods may be called concurrently.
type Spare[T Roomy] struct {
	Dev  device.Device
	Most int // maximum number kept; the oldest is freed first
	// Idle waits until no submitted work uses the memory given back, before that is freed. nil
	// means no work does. Memory that is taken again is used after such work.
	Idle func() error

	mu     sync.Mutex
	kept   []T
	taken  int // bytes of all memory that has been allocated and not been freed
	closed bool
}

// Has reports whether Take would find memory.
func (s *Spare[T]) Has(least, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(least, most) >= 0
}

// Take removes and returns the smallest memory with a capacity from least to most.
func (s *Spare[T]) Take(least, most int) (x T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.find(least, most)
	if at < 0 {
		return x, false
	}
	x = s.kept[at]
	s.kept = slices.Delete(s.kept, at, at+1)
	return x, true
}

func (s *Spare[T]) find(least, most int) int {
	at := -1
	for i, x := range s.kept {
		if room := x.Room(); room >= least && room <= most && (at < 0 || room < s.kept[at].Room()) {
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
		s.taken += buf.Size
		s.mu.Unlock()
	}
	return buf, err
}

// Keep takes memory back. It frees the oldest beyond Most, and everything after Close.
func (s *Spare[T]) Keep(x ...T) error {
	s.mu.Lock()
	s.kept = append(s.kept, x...)
	over := max(0, len(s.kept)-s.Most)
	if s.closed {
		over = len(s.kept)
	}
	freed := slices.Clone(s.kept[:over])
	s.kept = slices.Delete(s.kept, 0, over)
	s.mu.Unlock()
	return s.free(freed)
}

// Trim frees everything kept.
func (s *Spare[T]) Trim() error { return s.TrimTo(0) }

// TrimTo frees the oldest memory until most pieces are left.
func (s *Spare[T]) TrimTo(most int) error {
	s.mu.Lock()
	over := max(0, len(s.kept)-most)
	freed := slices.Clone(s.kept[:over])
	s.kept = slices.Delete(s.kept, 0, over)
	s.mu.Unlock()
	return s.free(freed)
}

// Close frees everything kept, and keeps nothing from now on. No work is pending.
func (s *Spare[T]) Close() error {
	s.mu.Lock()
	s.closed, s.Idle = true, nil
	s.mu.Unlock()
	return s.Trim()
}

// free frees memory after all submitted work. It keeps the memory if that wait fails.
func (s *Spare[T]) free(freed []T) (err error) {
	s.mu.Lock()
	idle := s.Idle
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
		err = errors.Join(err, s.Drop(x))
	}
	return err
}

// Drop frees memory that is not in use.
func (s *Spare[T]) Drop(x T) error {
	s.mu.Lock()
	s.taken -= x.Memory().Size
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
	return kept, s.taken
}
