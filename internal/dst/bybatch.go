package dst

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/weftgo/weft"
)

// content is what an ordered map holds between two changes.
type content map[uint64]uint64

// between are the keys of a range, in order.
func (c content) between(lo, hi uint64) []uint64 {
	return slices.Sorted(func(yield func(uint64) bool) {
		for k := range c {
			if lo <= k && k <= hi && !yield(k) {
				return
			}
		}
	})
}

// A removal is a batch of ranges that are deleted, with how many pairs each had that those before it had not.
type removal struct {
	lo, hi  []uint64
	removed []uint32
}

// A view is what a lookup has seen.
type view struct {
	number   int
	at       int // what there was before the batch of this number, and nothing else; or -1
	what     string
	explains func(content) bool
}

// checkBatches runs the changes of a history one behind the other. Each must return what it returns there, and
// each lookup what it finds between two of them: between those that it comes behind and those that come
// behind it, and not before what a lookup has seen that it comes behind.
func (h *history) checkBatches() error {
	events := map[int][]event{}
	for _, e := range h.events {
		events[e.batch] = append(events[e.batch], e)
	}
	contents, place := []content{{}}, make([]int, len(h.before)) // of each batch: the contents before it
	for number := range h.before {
		last := contents[len(contents)-1]
		place[number] = len(contents) - 1
		if !h.changes.has(number) {
			continue
		}
		next := maps.Clone(last)
		if err := h.apply(number, events[number], next); err != nil {
			return err
		}
		contents = append(contents, next)
	}
	seen := make([]int, len(h.before)) // contents that a lookup has seen, at least
	for number := range h.before {
		if h.changes.has(number) {
			seen[number] = place[number] + 1
			continue
		}
		least, most := h.window(number, seen, place, len(contents)-1)
		at, err := h.explain(h.viewsOf(number, events[number]), contents, place, least, most)
		if err != nil {
			return err
		}
		seen[number] = at
	}
	return nil
}

// apply does to a content what a batch does, and compares what it returns.
func (h *history) apply(number int, events []event, c content) error {
	for i, e := range events {
		v, there := c[e.op.Key]
		ok, next := h.reduce.step(state{there, v}, e)
		if !ok {
			return fmt.Errorf("batch %d: operation %d returns what it does not on what there was: present %v, %#x\n%s", number, i, there, v, tell(events))
		}
		if delete(c, e.op.Key); next.present {
			c[e.op.Key] = next.val
		}
	}
	if cut := h.cuts[number]; cut != nil {
		for i := range cut.lo {
			gone := c.between(cut.lo[i], cut.hi[i])
			if len(gone) != int(cut.removed[i]) {
				return fmt.Errorf("batch %d: DeleteRange removes %d pairs of %#x to %#x, of %d", number, cut.removed[i], cut.lo[i], cut.hi[i], len(gone))
			}
			for _, k := range gone {
				delete(c, k)
			}
		}
	}
	return nil
}

// window is which contents a lookup may see.
func (h *history) window(number int, seen, place []int, last int) (least, most int) {
	most = last
	for other := range h.before {
		switch {
		case h.before[number].has(other):
			least = max(least, seen[other])
		case h.changes.has(other) && h.before[other].has(number):
			most = min(most, place[other])
		}
	}
	return least, most
}

// viewsOf are those of a lookup, of keys, too.
func (h *history) viewsOf(number int, events []event) (all []view) {
	for _, v := range h.views {
		if v.number == number {
			all = append(all, v)
		}
	}
	if len(events) > 0 {
		all = append(all, view{number, -1, "lookup:\n" + tell(events), func(c content) bool {
			for _, e := range events {
				v, there := c[e.op.Key]
				if ok, _ := h.reduce.step(state{there, v}, e); !ok {
					return false
				}
			}
			return true
		}})
	}
	return all
}

// explain finds contents, within bounds, in which all views of a lookup see what they have seen.
func (h *history) explain(views []view, contents []content, place []int, least, most int) (at int, err error) {
	for at = least; at <= most; at++ {
		if !slices.ContainsFunc(views, func(v view) bool { return v.at < 0 && !v.explains(contents[at]) }) {
			break
		}
	}
	for _, v := range views {
		if at > most || v.at >= 0 && !v.explains(contents[place[v.at]]) {
			return 0, fmt.Errorf("batch %d: no content between changes %d and %d explains %s", v.number, least, most, v.what)
		}
	}
	return at, nil
}

// rangesSeen is what lookups of ranges have seen: how many pairs each has, up to a limit, and which.
func rangesSeen(lo, hi []uint64, limit int, row func(i int) (keys, vals []uint64)) func(content) bool {
	return func(c content) bool {
		for i := range lo {
			want := c.between(lo[i], hi[i])
			if limit > 0 {
				want = want[:min(limit, len(want))]
			}
			keys, vals := row(i)
			if !slices.Equal(keys, want) || !slices.EqualFunc(vals, want, func(v uint64, k uint64) bool { return v == c[k] }) {
				return false
			}
		}
		return true
	}
}

// countsSeen is what a lookup has seen that counts the pairs of ranges.
func countsSeen(lo, hi []uint64, counts []uint32) func(content) bool {
	return func(c content) bool {
		for i := range lo {
			if len(c.between(lo[i], hi[i])) != int(counts[i]) {
				return false
			}
		}
		return true
	}
}

// pairsSeen is what an iteration comes to.
func pairsSeen[K weft.Key, V weft.Value](all iter.Seq2[K, V]) func(content) bool {
	found, twice := content{}, false
	for k, v := range all {
		if _, there := found[keyNumber(k)]; there {
			twice = true
		}
		found[keyNumber(k)] = uint64(v)
	}
	return func(c content) bool { return !twice && maps.Equal(found, c) }
}
