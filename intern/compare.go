package intern

import (
	"bytes"
	"slices"
	"unsafe"

	"github.com/weftgo/weft/internal/arena"
	"github.com/weftgo/weft/internal/cpu"
)

// groupRows is the number of rows compared while the memory of the next rows is prefetched.
const groupRows = 32

// pairs holds items to compare with keys that have the same hash: known keys, by id, and first rows
// of the same batch. Each step of finding a key reads random memory. Short loops do one step for
// all pairs, so that a core waits for many of these reads at once.
type pairs struct {
	known, fresh [groupRows]pair
	nKnown       int
	nFresh       int
	rows         [groupRows]uint32 // first rows of the pairs in fresh
	keys         [2 * groupRows][]byte
	places       [2 * groupRows]unsafe.Pointer
}

// pair is an item and the location of its key.
type pair struct {
	item []byte
	row  uint32
	at   uint32 // an id, or an index in the list of first rows
	word uint64
}

func (p *pairs) addKnown(row uint32, item []byte, id uint32) {
	q := &p.known[p.nKnown]
	q.item, q.row, q.at = item, row, id
	p.nKnown++
}

// addFresh adds an item and the index of another row in the list of first rows.
func (p *pairs) addFresh(row uint32, item []byte, at uint32) {
	q := &p.fresh[p.nFresh]
	q.item, q.row, q.at = item, row, at
	p.nFresh++
}

// prefetchKeys finds the keys of all pairs and prefetches their memory.
func prefetchKeys[S source](p *pairs, k *keys, items S, first []uint32) {
	known, fresh := p.known[:p.nKnown], p.fresh[:p.nFresh]
	if k.width > 0 {
		for i := range known {
			p.keys[i] = k.fixedKey(known[i].at)
		}
	} else {
		for i := range known {
			known[i].word = *k.word(known[i].at)
		}
	}
	if len(fresh) > 0 {
		for i := range fresh {
			p.rows[i] = first[fresh[i].at]
		}
		items.gather(p.rows[:len(fresh)], p.keys[groupRows:])
	}
	n := len(known)
	for i := range known {
		if w := known[i].word; w&arena.Long != 0 {
			p.places[i] = k.arena.Address(w)
			continue
		}
		if k.width == 0 {
			p.keys[i] = k.at(known[i].at)
		}
		p.places[i] = unsafe.Pointer(unsafe.SliceData(p.keys[i]))
	}
	for i := range fresh {
		p.places[n+i] = unsafe.Pointer(unsafe.SliceData(p.keys[groupRows+i]))
	}
	cpu.PrefetchPairs(p.places[:n+len(fresh)])
}

// flush calls f for each row that differs from its key, and removes all pairs.
func (p *pairs) flush(k *keys, f func(row uint32)) {
	for i := range p.nKnown {
		q := &p.known[i]
		key := p.keys[i]
		if q.word&arena.Long != 0 {
			key = k.arena.At(q.word)
		}
		if !bytes.Equal(q.item, key) {
			f(q.row)
		}
	}
	for i := range p.nFresh {
		if q := &p.fresh[i]; !bytes.Equal(q.item, p.keys[groupRows+i]) {
			f(q.row)
		}
	}
	p.nKnown, p.nFresh = 0, 0
}

// compare flags rows that differ from the item with their number, and reports whether any do. It
// compares rows[lo:hi], or rows lo to hi-1 if rows is nil. While it compares the items of one group
// of rows, it prefetches the keys of the next group.
func compare[S source](t *Table, items S, rows, numbers []uint32, base uint32, lo, hi int) (anyDiffers bool) {
	var groups [2]pairs
	var buf [groupRows][]byte
	first, flags := t.scratch.first, t.scratch.flags
	differs := func(row uint32) { flags[row], anyDiffers = true, true }
	row := func(i int) uint32 {
		if rows == nil {
			return uint32(i)
		}
		return rows[i]
	}
	before, _ := slices.BinarySearch(first, row(lo))
	next := base + uint32(before) // the number of the next new key
	for cur := 0; lo < hi; lo, cur = lo+groupRows, cur^1 {
		p, batch := &groups[cur], buf[:min(groupRows, hi-lo)]
		if rows == nil {
			items.span(lo, batch)
		} else {
			items.gather(rows[lo:lo+len(batch)], batch)
		}
		for i, v := range numbers[lo : lo+len(batch)] {
			switch item := batch[i]; {
			case v == next: // the first row of its key
				next++
			case len(item) <= arena.MaxShort && t.keys.width == 0: // no other item has its hash
			case v < base:
				p.addKnown(row(lo+i), item, t.id(v))
			case int(v-base) < len(first): // otherwise all rows are null
				p.addFresh(row(lo+i), item, v-base)
			}
		}
		prefetchKeys(p, t.keys, items, first)
		groups[cur^1].flush(t.keys, differs)
	}
	groups[0].flush(t.keys, differs)
	groups[1].flush(t.keys, differs)
	return anyDiffers
}

// verifyFound replaces the numbers of items lo to hi-1 by ids, and compares the items with their
// keys. It returns the number of items found.
func verifyFound[S source](t *Table, items S, ids []uint32, found []bool, s *scratch, lo, hi int) (hits int) {
	var groups [2]pairs
	var buf [groupRows][]byte
	differs := func(row uint32) {
		if ids[row], found[row] = t.collisions[string(items.at(int(row)))]; !found[row] {
			hits--
		}
	}
	nulls := s.nulls.HasNulls()
	for cur := 0; lo < hi; lo, cur = lo+groupRows, cur^1 {
		p, batch := &groups[cur], buf[:min(groupRows, hi-lo)]
		items.span(lo, batch)
		for i, item := range batch {
			id, ok := &ids[lo+i], &found[lo+i]
			switch {
			case nulls && s.nulls.Null(lo+i):
				*id, *ok = uint32(max(t.null, 0)), t.null >= 0
			case !*ok:
			default:
				*id = t.id(*id)
				if !t.words && (len(item) > arena.MaxShort || t.keys.width > 0) {
					p.addKnown(uint32(lo+i), item, *id)
				}
			}
			if *ok {
				hits++
			}
		}
		prefetchKeys(p, t.keys, items, nil)
		groups[cur^1].flush(t.keys, differs)
	}
	groups[0].flush(t.keys, differs)
	groups[1].flush(t.keys, differs)
	return hits
}
