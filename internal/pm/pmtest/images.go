package pmtest

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Images is memory word by word: what its words are, and what a crash now could leave
// of them. While an image is looked at, by Crash, it is the memory of whoever recovers
// from the crash, as a pm.Domain.
type Images struct {
	pages   [][]uint64 // as threads see them; nil: all zero
	dirty   map[uint64]*history
	chosen  []int    // of the words of an image, the number of the value
	undo    []change // while an image is looked at
	fences  []int    // how much had been stored by fences meanwhile
	looking bool
}

// history is what a word has been since the value that is durable for sure, which is
// the first of them.
type history struct {
	values []uint64
	stores []int  // which store each value is of; the front end knows what that means
	after  []need // stores that have to be durable before some of them
}

// need says that a value may only be durable if another word has the value of a store,
// or a later one.
type need struct {
	value, store int // of this word; of the other
	at           uint64
}

type change struct{ at, v uint64 }

// pageWords is how many words a page has.
const pageWords = 512

func newImages(words uint64) Images {
	return Images{pages: make([][]uint64, (words+pageWords-1)/pageWords), dirty: map[uint64]*history{}}
}

func (m *Images) word(at uint64) *uint64 {
	p := &m.pages[at/pageWords]
	if *p == nil {
		*p = make([]uint64, pageWords)
	}
	return &(*p)[at%pageWords]
}

// Word is what a word is, without an access.
func (m *Images) Word(at uint64) uint64 { return *m.word(at) }

// Dirty is how many words may be something else behind a crash.
func (m *Images) Dirty() int { return len(m.dirty) }

// put is a store that a crash may lose.
func (m *Images) put(at, v uint64, store int) *history {
	w := m.word(at)
	h := m.dirty[at]
	if h == nil {
		h = &history{values: []uint64{*w}, stores: []int{-1}}
		m.dirty[at] = h
	}
	h.values, h.stores = append(h.values, v), append(h.stores, store)
	*w = v
	return h
}

// last is the index of the newest value of some stores, 0 if there is none.
func (h *history) last(of func(store int) bool) int {
	for i := len(h.stores) - 1; i > 0; i-- {
		if of(h.stores[i]) {
			return i
		}
	}
	return 0
}

// settle makes some stores to a word durable, by that all before them, and what has to
// be durable before the newest of them.
func (m *Images) settle(at uint64, durable func(store int) bool) {
	h := m.dirty[at]
	if h == nil {
		return
	}
	i := h.last(durable)
	h.values, h.stores = h.values[i:], h.stores[i:]
	if len(h.values) == 1 {
		delete(m.dirty, at)
	}
	needs := h.after
	h.after = slices.DeleteFunc(slices.Clone(needs), func(n need) bool { return n.value <= h.stores[0] })
	for _, n := range needs {
		if n.value == h.stores[0] {
			m.settle(n.at, func(store int) bool { return store == n.store })
		}
	}
}

// Crash calls look with the images that a crash could leave now: with all of them, if
// they are no more than most, otherwise with as many: the oldest, the newest, and
// others by chance, in which few, half or most of the words are new. Within look the
// memory is the image, and what look stores is forgotten with it. It returns the number
// of images.
func (m *Images) Crash(rng *rand.Rand, most int, look func()) (images int) {
	if m.looking {
		return 0
	}
	at := slices.Sorted(maps.Keys(m.dirty))
	all := 1
	for _, w := range at {
		if all *= len(m.dirty[w].values); all > most {
			all = most + 1
			break
		}
	}
	for i := range min(all, most) {
		newest := [...]float64{.02, .5, .98}[rng.IntN(3)] // a few words of many are rarely all there, or all lost
		m.image(at, func(n int) int {
			switch {
			case all <= most:
				c := i % n
				i /= n
				return c
			case i < 2:
				return i * (n - 1)
			case rng.Float64() < newest:
				return n - 1
			}
			return rng.IntN(n - 1)
		}, look)
	}
	return min(all, most)
}

// image looks at one image, of which choose picks the value of each dirty word.
func (m *Images) image(at []uint64, choose func(values int) int, look func()) {
	m.chosen = m.chosen[:0]
	for _, w := range at {
		m.chosen = append(m.chosen, choose(len(m.dirty[w].values)))
	}
	m.order(at)
	m.looking, m.undo, m.fences = true, m.undo[:0], m.fences[:0]
	for j, w := range at {
		if v := m.dirty[w].values[m.chosen[j]]; v != *m.word(w) {
			m.Store(w, v)
		}
	}
	look()
	for i := len(m.undo) - 1; i >= 0; i-- {
		*m.word(m.undo[i].at) = m.undo[i].v
	}
	m.looking = false
}

// order makes words newer that have to be, since others are as new as they are.
func (m *Images) order(at []uint64) {
	for again := true; again; {
		again = false
		for j, w := range at {
			h := m.dirty[w]
			for _, n := range h.after {
				k, dirty := slices.BinarySearch(at, n.at)
				if !dirty || h.stores[m.chosen[j]] != n.value {
					continue
				}
				if i := slices.Index(m.dirty[n.at].stores, n.store); i > m.chosen[k] {
					m.chosen[k], again = i, true
				}
			}
		}
	}
}

// Lose takes back, while an image is looked at, some of what has been stored since it
// was made, by chance: as if what stored that had been cut short as well.
func (m *Images) Lose(rng *rand.Rand, since int) {
	for i := len(m.undo) - 1; i >= since; i-- {
		if rng.IntN(2) == 0 {
			*m.word(m.undo[i].at) = m.undo[i].v
		}
	}
}

// Cut does the same for who orders its stores by fences: it ends at some point, behind which
// nothing is stored, and of what no fence before it has made durable some is lost.
func (m *Images) Cut(rng *rand.Rand, since int) {
	end := since + rng.IntN(len(m.undo)-since+1)
	durable := since
	for _, at := range m.fences {
		if at <= end {
			durable = max(since, at)
		}
	}
	for i := len(m.undo) - 1; i >= durable; i-- {
		if i >= end || rng.IntN(2) == 0 {
			*m.word(m.undo[i].at) = m.undo[i].v
		}
	}
}

// Stored is how much has been stored since the image was made, for Lose and Cut.
func (m *Images) Stored() int { return len(m.undo) }

// Load reads a word of the image that is looked at.
func (m *Images) Load(at uint64) uint64 { return *m.word(at) }

// Store writes a word of the image that is looked at.
func (m *Images) Store(at, v uint64) {
	w := m.word(at)
	m.undo = append(m.undo, change{at, *w})
	*w = v
}

// CompareAndSwap writes a word of the image that is looked at, if it is old.
func (m *Images) CompareAndSwap(at, old, v uint64) bool {
	if *m.word(at) != old {
		return false
	}
	m.Store(at, v)
	return true
}

// Fence is for pm.Domain: Cut keeps its order, nobody else does.
func (m *Images) Fence() { m.fences = append(m.fences, len(m.undo)) }
