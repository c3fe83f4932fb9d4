package baseline

import (
	"slices"
	"sync"
)

// units are pieces of equal size of a pool, for records or slabs. Which of them are free is
// written nowhere: what the index names is in use, all else is free.
type units struct {
	first, words, n uint64 // the word where they begin; words of each; how many

	mu   sync.Mutex
	next uint64   // those from here on have never been used
	free []uint64 // of the others
}

func (u *units) word(i uint64) uint64 { return u.first + i*u.words }

// number is that of the unit that begins at a word.
func (u *units) number(word uint64) uint64 { return (word - u.first) / u.words }

// take hands out some units, by the word at which they begin, or none.
func (u *units) take(some int) (words []uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := min(some, len(u.free))
	words = append(words, u.free[len(u.free)-n:]...)
	u.free = u.free[:len(u.free)-n]
	for ; len(words) < some && u.next < u.n; u.next++ {
		words = append(words, u.word(u.next))
	}
	return words
}

// rebuild finds out what is free from what is in use.
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

// stock is what a thread has of some units.
type stock struct {
	free  []uint64
	stale []uint64 // somebody may still read them, until the batch has ended
}

// stockUp is how many units a thread takes at a time.
const stockUp = 16

func (s *stock) take(of *units) (word uint64, err error) {
	if len(s.free) == 0 {
		if s.free = of.take(stockUp); len(s.free) == 0 {
			return 0, errNoSpace
		}
	}
	word = s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return word, nil
}

// recycle makes free what nobody reads any more.
func (s *stock) recycle() {
	s.free = append(s.free, s.stale...)
	s.stale = s.stale[:0]
}

// thread is what belongs to one of the threads that work on an index.
type thread struct {
	number  int
	alone   bool // nobody changes the index meanwhile
	records stock
	slabs   stock
}
