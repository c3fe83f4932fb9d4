package intern

import (
	"bytes"
	"slices"
	"unsafe"

	"github.com/weftgo/weft/internal/arena"
	"github.com/weftgo/weft/internal/cpu"
)

// ahead is the number of rows to compare while the memory of the next ones is prefetched.
const ahead = 32

// pairs holds items that a core compares with the keys of equal hashes: the keys of ids, and first
// rows of the same batch. Each step of finding a key reads random memory. Short loops do one step
// for all pairs, so that a core waits for many of these reads at once.
type pairs struct {
	old, fresh [ahead]pair
	nOld       int
	nFresh     int
	rows       [ahead]uint32 // of fresh
	keys       [2 * ahead][]byte
	places     [2 * ahead]unsafe.Pointer
}

// pair is an item and the location of its key.
type pair struct {
	item []byte
	row  uint32
	at   uint32 // an id, or a place in the list of first rows
	word uint64
}

// addOld adds an item and the id of a key.
func (p *pairs) addOld(row uint32, item []byte, id uint32) {
	q := &p.old[p.nOld]
	q.item, q.row, q.at = item, row, id
	p.nOld++
}

// addFresh adds an item and the place of another row.
func (p *pairs) addFresh(row uint32, item []byte, at uint32) {
	q := &p.fresh[p.nFresh]
	q.item, q.row, q.at = item, row, at
	p.nFresh++
}

// ask prefetches the memory of the keys.
func ask[S source](p *pairs, k *keys, items S, first []uint32) {
	old, fresh := p.old[:p.nOld], p.fresh[:p.nFresh]
	if k.width > 0 {
		for i := range old {
			p.keys[i] = k.place(old[i].at)
		}
	} else {
		for i := range old {
			old[i].word = *k.word(old[i].at)
		}
	}
	if len(fresh) > 0 {
		for i := range fresh {
			p.rows[i] = first[fresh[i].at]
		}
		items.gather(p.rows[:len(fresh)], p.keys[ahead:])
	}
	n := len(old)
	for i := range old {
		if w := old[i].word; w&arena.Long != 0 {
			p.places[i] = k.arena.Address(w)
			continue
		}
		if k.width == 0 {
			p.keys[i] = k.at(old[i].at)
		}
		p.places[i] = unsafe.Pointer(unsafe.SliceData(p.keys[i]))
	}
	for i := range fresh {
		p.places[n+i] = unsafe.Pointer(unsafe.SliceData(p.keys[ahead+i]))
	}
	cpu.PrefetchPairs(p.places[:n+len(fresh)])
}

// differ calls f for each row that differs from the key, and drops all pairs.
func (p *pairs) differ(k *keys, f func(row uint32)) {
	for i := range p.nOld {
		q := &p.old[i]
		key := p.keys[i]
		if q.word&arena.Long != 0 {
			key = k.arena.At(q.word)
		}
		if !bytes.Equal(q.item, key) {
			f(q.row)
		}
	}
	for i := range p.nFresh {
		if q := &p.fresh[i]; !bytes.Equal(q.item, p.keys[ahead+i]) {
			f(q.row)
		}
	}
	p.nOld, p.nFresh = 0, 0
}

// compare flags rows that differ from the item with their number, and reports whether any do. The
// rows are lo to hi-1 of some, or of all if rows is nil. It compares the items of one group of rows
// while it prefetches the memory of the next group's keys.
func compare[S source](t *Table, items S, rows, numbers []uint32, base uint32, lo, hi int) (any bool) {
	var groups [2]pairs
	var buf [ahead][]byte
	first, flags := t.scratch.first, t.scratch.flags
	differs := func(row uint32) { flags[row], any = true, true }
	row := func(i int) uint32 {
		if rows == nil {
			return uint32(i)
		}
		return rows[i]
	}
	before, _ := slices.BinarySearch(first, row(lo))
	next := base + uint32(before) // the number that the next row with a new key has
	for turn := 0; lo < hi; lo, turn = lo+ahead, turn^1 {
		p, some := &groups[turn], buf[:min(ahead, hi-lo)]
		if rows == nil {
			items.span(lo, some)
		} else {
			items.gather(rows[lo:lo+len(some)], some)
		}
		for i, v := range numbers[lo : lo+len(some)] {
			switch item := some[i]; {
			case v == next: // the first row of its key
				next++
			case len(item) <= arena.MaxShort && t.keys.width == 0: // no other item has its key
			case v < base:
				p.addOld(row(lo+i), item, t.id(v))
			case int(v-base) < len(first): // otherwise all rows are null
				p.addFresh(row(lo+i), item, v-base)
			}
		}
		ask(p, t.keys, items, first)
		groups[turn^1].differ(t.keys, differs)
	}
	groups[0].differ(t.keys, differs)
	groups[1].differ(t.keys, differs)
	return any
}

// confirm turns the numbers of the index for items lo to hi-1 into ids, compares the items with
// their keys, and returns the number of found items.
func confirm[S source](t *Table, items S, ids []uint32, found []bool, s *scratch, lo, hi int) (hits int) {
	var groups [2]pairs
	var buf [ahead][]byte
	differs := func(row uint32) {
		if ids[row], found[row] = t.clashes[string(items.at(int(row)))]; !found[row] {
			hits--
		}
	}
	nulls := s.nulls.HasNulls()
	for turn := 0; lo < hi; lo, turn = lo+ahead, turn^1 {
		p, some := &groups[turn], buf[:min(ahead, hi-lo)]
		items.span(lo, some)
		for i, item := range some {
			id, is := &ids[lo+i], &found[lo+i]
			switch {
			case nulls && s.nulls.Null(lo+i):
				*id, *is = uint32(max(t.null, 0)), t.null >= 0
			case !*is:
			default:
				*id = t.id(*id)
				if !t.words && (len(item) > arena.MaxShort || t.keys.width > 0) {
					p.addOld(uint32(lo+i), item, *id)
				}
			}
			if *is {
				hits++
			}
		}
		ask(p, t.keys, items, nil)
		groups[turn^1].differ(t.keys, differs)
	}
	groups[0].differ(t.keys, differs)
	groups[1].differ(t.keys, differs)
	return hits
}
