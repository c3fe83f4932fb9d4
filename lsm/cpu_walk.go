package lsm

import (
	"math/bits"

	"github.com/weftgo/weft/internal/inorder"
)

func (t tree[K, V]) size() (n uint32) {
	for i := range t {
		n += t[i].sumBefore(len(t[i].deltas))
	}
	return n
}

// place returns the number of entries in a level with keys smaller than key.
func (a *array[K, V]) place(key K) int {
	var at inorder.Places
	one := [...]K{key}
	a.Search(one[:], 0, &at)
	return at[0]
}

func (t tree[K, V]) rank(key K) (n uint32) {
	for i := range t {
		n += t[i].sumBefore(t[i].place(key))
	}
	return n
}

// selectKey returns the key at a rank, which must exist. It is the largest possible key with at
// most rank smaller keys in the tree. The loop determines its bits one by one, from the highest bit
// in which keys of the tree differ.
func (t tree[K, V]) selectKey(rank uint32) K {
	lo, hi := ^K(0), K(0)
	for i := range t {
		if keys := t[i].Keys.Keys; len(keys) > 0 {
			lo, hi = min(lo, keys[0]), max(hi, keys[len(keys)-1])
		}
	}
	n := bits.Len64(uint64(lo ^ hi))
	key := lo >> n << n
	for n--; n >= 0; n-- {
		if candidate := key | 1<<n; t.rank(candidate) <= rank {
			key = candidate
		}
	}
	return key
}

// maxSkipped is the number of tombstones that a walk skips one by one before it skips the rest by a
// search.
const maxSkipped = 32

// walk visits the keys of a tree from a key on, forward or backward. key, level and place describe
// the newest entry of the current key.
type walk[K, V uint32 | uint64] struct {
	tree     tree[K, V]
	backward bool
	// by level: the next entry or, going backward, the number of entries left
	at [maxLevels + 1]int

	key   K
	level int
	place int
}

// seek moves the walk to a key. The next step finds that key, or the one after it in the walk's
// direction.
func (w *walk[K, V]) seek(key K) {
	for l := range w.tree {
		w.at[l] = w.tree[l].place(key)
		if w.backward {
			w.at[l] += w.tree[l].hasKey(w.at[l], key)
		}
	}
}

// head returns the position of the next entry in a level. ok is false if no entry is left.
func (w *walk[K, V]) head(l int) (at int, ok bool) {
	if w.backward {
		return w.at[l] - 1, w.at[l] > 0
	}
	return w.at[l], w.at[l] < len(w.tree[l].deltas)
}

// step moves to the next key, and returns the sum of the deltas of all its entries.
func (w *walk[K, V]) step() (delta int8, ok bool) {
	w.level = -1
	for l := range w.tree {
		if at, left := w.head(l); left {
			if k := w.tree[l].Keys.Keys[at]; w.level < 0 || k != w.key && k < w.key != w.backward {
				w.key, w.level, w.place = k, l, at
			}
		}
	}
	if w.level < 0 {
		return 0, false
	}
	forward := 1
	if w.backward {
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

func (w *walk[K, V]) currentDelta() int8 { return w.tree[w.level].deltas[w.place] }

func (w *walk[K, V]) val() V { return w.tree[w.level].vals[w.place] }

// next moves to the next key that has a pair. After many tombstones it computes the rank of the
// current key, and continues at the pair with that rank.
func (w *walk[K, V]) next() bool {
	for skipped := 1; ; skipped++ {
		if _, ok := w.step(); !ok {
			return false
		}
		if w.currentDelta() >= 0 {
			return true
		}
		if skipped%maxSkipped != 0 {
			continue
		}
		r := w.tree.rank(w.key)
		switch {
		case w.backward && r == 0, !w.backward && r == w.tree.size():
			return false
		case w.backward:
			r--
		}
		w.seek(w.tree.selectKey(r))
	}
}
