package pmtest

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Images records for each word its current value and the values that a crash now could leave.
// During the callback of Crash, Images is one crash image. It then serves as the pm.Domain for the
// code that recovers from the crash.
type Images struct {
	pages [][]uint64 // current values; nil if all are zero
	dirty map[uint64]*history
	// for each dirty word, the index in its history of the value that the current image has
	chosen  []int
	undo    []change // old values of words that the current image has changed
	fences  []int    // len(undo) at each fence
	inCrash bool
}

// history holds the values of a word since its last durable value, which comes first.
type history struct {
	values []uint64
	// ids of the stores that wrote the values; Domain, Host and Kernels assign the ids
	stores []int
	deps   []dependency // stores to other words that must be durable before a value of this word is
}

// dependency means that a value can be durable only if another word has the value of a given store
// or a later one.
type dependency struct {
	value, store int // store to this word; store to the other word
	at           uint64
}

type change struct{ at, v uint64 }

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

// Word returns the value of a word. It does not count as an access.
func (m *Images) Word(at uint64) uint64 { return *m.word(at) }

// Dirty returns the number of words that may have several values after a crash.
func (m *Images) Dirty() int { return len(m.dirty) }

// recordStore records a store that a crash may lose.
func (m *Images) recordStore(at, v uint64, store int) *history {
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

// newest returns the index of the newest value for which match returns true, or 0.
func (h *history) newest(match func(store int) bool) int {
	for i := len(h.stores) - 1; i > 0; i-- {
		if match(h.stores[i]) {
			return i
		}
	}
	return 0
}

// makeDurable makes the newest store to a word for which durable returns true durable, and with it
// all earlier stores to the word. It also makes the stores durable on which that store depends.
func (m *Images) makeDurable(at uint64, durable func(store int) bool) {
	h := m.dirty[at]
	if h == nil {
		return
	}
	i := h.newest(durable)
	h.values, h.stores = h.values[i:], h.stores[i:]
	if len(h.values) == 1 {
		delete(m.dirty, at)
	}
	deps := h.deps
	h.deps = slices.DeleteFunc(slices.Clone(deps), func(n dependency) bool { return n.value <= h.stores[0] })
	for _, n := range deps {
		if n.value == h.stores[0] {
			m.makeDurable(n.at, func(store int) bool { return store == n.store })
		}
	}
}

// Crash calls visit with the images that a crash could leave now, and returns their number. If more
// than limit images are possible, it visits only limit of them: the oldest, the newest, and random
// images with few, half or most of the words new. During a call of visit, the memory has the
// content of one image. Crash undoes the stores of visit afterwards.
func (m *Images) Crash(rng *rand.Rand, limit int, visit func()) (images int) {
	if m.inCrash {
		return 0
	}
	at := slices.Sorted(maps.Keys(m.dirty))
	all := 1
	for _, w := range at {
		if all *= len(m.dirty[w].values); all > limit {
			all = limit + 1
			break
		}
	}
	for i := range min(all, limit) {
		// with one fixed share, images with only a few new or a few old words would be rare
		newShare := [...]float64{.02, .5, .98}[rng.IntN(3)]
		m.withImage(at, func(n int) int {
			switch {
			case all <= limit:
				c := i % n
				i /= n
				return c
			case i < 2:
				return i * (n - 1)
			case rng.Float64() < newShare:
				return n - 1
			}
			return rng.IntN(n - 1)
		}, visit)
	}
	return min(all, limit)
}

// withImage calls visit with the image in which each dirty word has the value that choose selects.
// at holds the indices of the dirty words. choose receives the number of a word's values and
// returns the index of one.
func (m *Images) withImage(at []uint64, choose func(values int) int, visit func()) {
	m.chosen = m.chosen[:0]
	for _, w := range at {
		m.chosen = append(m.chosen, choose(len(m.dirty[w].values)))
	}
	m.enforceOrder(at)
	m.inCrash, m.undo, m.fences = true, m.undo[:0], m.fences[:0]
	for j, w := range at {
		if v := m.dirty[w].values[m.chosen[j]]; v != *m.word(w) {
			m.Store(w, v)
		}
	}
	visit()
	for i := len(m.undo) - 1; i >= 0; i-- {
		*m.word(m.undo[i].at) = m.undo[i].v
	}
	m.inCrash = false
}

// enforceOrder replaces chosen values by newer ones where the dependencies of other words require
// it.
func (m *Images) enforceOrder(at []uint64) {
	for changed := true; changed; {
		changed = false
		for j, w := range at {
			h := m.dirty[w]
			for _, n := range h.deps {
				k, dirty := slices.BinarySearch(at, n.at)
				if !dirty || h.stores[m.chosen[j]] != n.value {
					continue
				}
				if i := slices.Index(m.dirty[n.at].stores, n.store); i > m.chosen[k] {
					m.chosen[k], changed = i, true
				}
			}
		}
	}
}

// RevertRandom simulates a second crash, in code that visit runs. It reverts a random selection of
// the stores that visit has made after NumStores returned since. Call it inside visit.
func (m *Images) RevertRandom(rng *rand.Rand, since int) {
	for i := len(m.undo) - 1; i >= since; i-- {
		if rng.IntN(2) == 0 {
			*m.word(m.undo[i].at) = m.undo[i].v
		}
	}
}

// RevertUnfenced simulates a second crash as RevertRandom does, but for code that orders its stores
// by fences. It chooses a random end. It reverts all stores after the end, and random stores that
// no fence before the end has made durable.
func (m *Images) RevertUnfenced(rng *rand.Rand, since int) {
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

// NumStores returns the number of stores that visit has made so far. Pass an earlier result to
// RevertRandom or RevertUnfenced.
func (m *Images) NumStores() int { return len(m.undo) }

// Load reads a word of the current image.
func (m *Images) Load(at uint64) uint64 { return *m.word(at) }

// Store writes a word of the current image.
func (m *Images) Store(at, v uint64) {
	w := m.word(at)
	m.undo = append(m.undo, change{at, *w})
	*w = v
}

// CompareAndSwap writes a word of the current image if the word equals old.
func (m *Images) CompareAndSwap(at, old, v uint64) bool {
	if *m.word(at) != old {
		return false
	}
	m.Store(at, v)
	return true
}

// Fence implements pm.Domain. It records a position for RevertUnfenced.
func (m *Images) Fence() { m.fences = append(m.fences, len(m.undo)) }
