package dst

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/weftgo/weft"
)

// content is the content of an ordered map between two changes.
type content map[uint64]uint64

// between returns the keys of a range, in order.
func (c content) between(lo, hi uint64) []uint64 {
	return slices.Sorted(func(yield func(uint64) bool) {
		for k := range c {
			if lo <= k && k <= hi && !yield(k) {
				return
			}
		}
	})
}

// A removal is a batch of deleted ranges. Each pair counts for its first range.
type removal struct {
	lo, hi  []uint64
	removed []uint32
}

// A view is the result of a lookup.
type view struct {
	number int
	// the lookup sees exactly the content before the batch of this number; -1: any allowed content
	at       int
	what     string
	explains func(content) bool
}

// checkBatches runs the changes of a history one after the other. Each must return the same results
// as in the history. Each lookup must match the content between two changes. It sees the changes
// that precede it, none that follow it, and nothing older than a preceding lookup has seen.
func (h *history) checkBatches() error {
	events := map[int][]event{}
	for _, e := range h.events {
		events[e.batch] = append(events[e.batch], e)
	}
	// place is, for each batch, the index of the content before it.
	contents, place := []content{{}}, make([]int, len(h.before))
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
	// seen is, for each lookup, the smallest possible index of the content it has seen.
	seen := make([]int, len(h.before))
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

// apply applies a batch to a content, and compares the results.
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

// window returns the bounds of the contents that a lookup may see.
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

// viewsOf returns the views of a lookup, including lookups by key.
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

// explain finds a content within bounds that matches all views of a lookup.
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

// rangesSeen returns a check of range lookups: the pairs of each range, up to a limit.
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

// countsSeen returns a check of a lookup that counts the pairs of ranges.
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

// pairsSeen returns a check of an iteration.
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
