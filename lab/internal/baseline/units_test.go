package baseline

import (
	"slices"
	"testing"
)

// After a crash every unit is in use or free, once.
func TestUnitsAreRebuilt(t *testing.T) {
	u := units{first: 100, words: 3, n: 10}
	used := []uint64{u.word(6), u.word(1), u.word(4)}
	u.rebuild(slices.Clone(used))
	var all []uint64
	for words := u.alloc(2); len(words) > 0; words = u.alloc(2) {
		all = append(all, words...)
	}
	all = append(all, used...)
	slices.Sort(all)
	for i := range uint64(10) {
		if len(all) != 10 || all[i] != 100+3*i {
			t.Fatalf("units at %v", all)
		}
	}
	s := freeList{}
	if _, err := s.alloc(&u); err == nil {
		t.Error("a unit when all are taken")
	}
	s.stale = append(s.stale, 103)
	if _, err := s.alloc(&u); err == nil {
		t.Error("a unit that may still be read")
	}
	s.recycle()
	if word, err := s.alloc(&u); err != nil || word != 103 {
		t.Errorf("a unit at %d, %v", word, err)
	}
}
