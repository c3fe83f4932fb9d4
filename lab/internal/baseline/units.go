package baseline

import (
	"slices"
	"sync"
)

// units are equal parts of a pool that hold records or slabs. The pool does not record which units
// are free: a unit is in use if the index contains its address.
type units struct {
	first, words, n uint64 // first word; words per unit; number of units

	mu   sync.Mutex
	next uint64   // units from next on have never been used
	free []uint64 // free units below next
}

func (u *units) word(i uint64) uint64 { return u.first + i*u.words }

func (u *units) number(word uint64) uint64 { return (word - u.first) / u.words }

// alloc takes up to count free units and returns the first word of each.
func (u *units) alloc(count int) (words []uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := min(count, len(u.free))
	words = append(words, u.free[len(u.free)-n:]...)
	u.free = u.free[:len(u.free)-n]
	for ; len(words) < count && u.next < u.n; u.next++ {
		words = append(words, u.word(u.next))
	}
	return words
}

// rebuild determines the free units from those in use.
func (u *units) rebuild(used []uint64) {
	slices.Sort(used)
	u.next, u.free = 0, nil
	for _, word := range used {
		for i := u.number(word); u.next < i; u.next++ {
			u.free = append(u.free, u.word(u.next))
		}
		u.next = u.number(word) + 1
	}
}

// freeList holds free units that belong to one thread.
type freeList struct {
	free  []uint64
	stale []uint64 // other threads may read these until the batch ends
}

// refillUnits is the number of units that a thread takes at a time.
const refillUnits = 16

func (s *freeList) alloc(of *units) (word uint64, err error) {
	if len(s.free) == 0 {
		if s.free = of.alloc(refillUnits); len(s.free) == 0 {
			return 0, errNoSpace
		}
	}
	word = s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return word, nil
}

// recycle frees the units that other threads may have read during the last batch.
func (s *freeList) recycle() {
	s.free = append(s.free, s.stale...)
	s.stale = s.stale[:0]
}

// thread is the state of one thread that works on an index.
type thread struct {
	number  int
	alone   bool // no changes run concurrently
	records freeList
	slabs   freeList
}
