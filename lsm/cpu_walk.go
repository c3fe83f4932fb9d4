package lsm

import (
	"math/bits"

	"github.com/weftgo/weft/internal/inorder"
)

// size returns the number of keys of a tree.
func (t tree[K, V]) size() (n uint32) {
	for i := range t {
		n += t[i].before(len(t[i].deltas))
	}
	return n
}

// place returns the number of keys of a level that are smaller than a key.
func (a *array[K, V]) place(key K) int {
	var at inorder.Places
	one := [...]K{key}
	a.Search(one[:], 0, &at)
	return at[0]
}

// rank returns the number of keys of a tree that are smaller than a key.
func (t tree[K, V]) rank(key K) (n uint32) {
	for i := range t {
		n += t[i].before(t[i].place(key))
	}
	return n
}

// pick returns the key of the tree with a rank, which must exist. It is the largest of all possible
// keys with no higher rank. The loop determines, bit by bit, the bits in which the keys of the tree
// differ.
func (t tree[K, V]) pick(rank uint32) K {
	least, most := ^K(0), K(0)
	for i := range t {
		if keys := t[i].Keys.Keys; len(keys) > 0 {
			least, most = min(least, keys[0]), max(most, keys[len(keys)-1])
		}
	}
	n := bits.Len64(uint64(least ^ most))
	key := least >> n << n
	for n--; n >= 0; n-- {
		if with := key | 1<<n; t.rank(with) <= rank {
			key = with
		}
	}
	return key
}

// mostTombstones is the number of tombstones that a walk skips one by one before it searches.
const mostTombstones = 32

// walk visits the keys of a tree from one key on, up or down. key, level and place hold the newest
// entry of each.
type walk[K, V uint32 | uint64] struct {
	tree tree[K, V]
	down bool
	at   [mostLevels + 1]int // next entry of each level or, going down, number of entries left

	key   K
	level int
	place int
}

// begin sets the walk to a key. The next key is that one, or the one after it in the walk's
// direction.
func (w *walk[K, V]) begin(key K) {
	for l := range w.tree {
		w.at[l] = w.tree[l].place(key)
		if w.down {
			w.at[l] += w.tree[l].same(w.at[l], key)
		}
	}
}

// head returns the position of the next entry of a level, if any.
func (w *walk[K, V]) head(l int) (at int, ok bool) {
	if w.down {
		return w.at[l] - 1, w.at[l] > 0
	}
	return w.at[l], w.at[l] < len(w.tree[l].deltas)
}

// step finds the next entry, and returns the sum of the deltas of all entries of its key.
func (w *walk[K, V]) step() (delta int8, ok bool) {
	w.level = -1
	for l := range w.tree {
		if at, left := w.head(l); left {
			if k := w.tree[l].Keys.Keys[at]; w.level < 0 || k != w.key && k < w.key != w.down {
				w.key, w.level, w.place = k, l, at
			}
		}
	}
	if w.level < 0 {
		return 0, false
	}
	forward := 1
	if w.down {
		forward = -1
	}
	for l := w.level; l < len(w.tree); l++ {
		if at, left := w.head(l); left && w.tree[l].Keys.Keys[at] == w.key {
			delta += w.tree[l].deltas[at]
			w.at[l] += forward
		}
	}
	return delta, true
}

// own returns the delta of the current entry.
func (w *walk[K, V]) own() int8 { return w.tree[w.level].deltas[w.place] }

// val returns the value of the current entry.
func (w *walk[K, V]) val() V { return w.tree[w.level].vals[w.place] }

// next finds the next pair. After many tombstones it continues at the pair with the rank that the
// last tombstone would have.
func (w *walk[K, V]) next() bool {
	for passed := 1; ; passed++ {
		if _, ok := w.step(); !ok {
			return false
		}
		if w.own() >= 0 {
			return true
		}
		if passed%mostTombstones != 0 {
			continue
		}
		r := w.tree.rank(w.key)
		switch {
		case w.down && r == 0, !w.down && r == w.tree.size():
			return false
		case w.down:
			r--
		}
		w.begin(w.tree.pick(r))
	}
}
