package dst

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/weftgo/weft"
)

// contents maps the keys of an ordered map to their values, as they are between two changes.
type contents map[uint64]uint64

func (c contents) keysBetween(lo, hi uint64) []uint64 {
	return slices.Sorted(func(yield func(uint64) bool) {
		for k := range c {
			if lo <= k && k <= hi && !yield(k) {
				return
			}
		}
	})
}

// addRemoval is a batch of deleted ranges. A pair inside several ranges counts for the first of
// them.
type addRemoval struct {
	lo, hi  []uint64
	removed []uint32
}

type view struct {
	number int
	// number of the batch that directly follows the content that the lookup saw; -1 if unknown
	at      int
	desc    string
	matches func(contents) bool
}

// checkBatches runs the changes of a history one after another on a model. Each change must return
// the same results as in the history. Each lookup must match the content between two changes. A
// lookup sees the changes that precede it and none that follow it. It must not see an older content
// than a preceding lookup has seen.
func (h *history) checkBatches() error {
	events := map[int][]event{}
	for _, e := range h.events {
		events[e.batch] = append(events[e.batch], e)
	}
	// contentBefore[number] is the index of the content before batch number.
	contents, contentBefore := []contents{{}}, make([]int, len(h.before))
	for number := range h.before {
		last := contents[len(contents)-1]
		contentBefore[number] = len(contents) - 1
		if !h.changes.has(number) {
			continue
		}
		next := maps.Clone(last)
		if err := h.apply(number, events[number], next); err != nil {
			return err
		}
		contents = append(contents, next)
	}
	// index[number] is the smallest possible index of the content that lookup number saw. For a
	// change, it is the index of the content after it.
	index := make([]int, len(h.before))
	for number := range h.before {
		if h.changes.has(number) {
			index[number] = contentBefore[number] + 1
			continue
		}
		minIndex, maxIndex := h.window(number, index, contentBefore, len(contents)-1)
		at, err := h.explain(h.viewsOf(number, events[number]), contents, contentBefore, minIndex, maxIndex)
		if err != nil {
			return err
		}
		index[number] = at
	}
	return nil
}

// apply applies a batch to a content and compares the results with those in the history.
func (h *history) apply(number int, events []event, c contents) error {
	for i, e := range events {
		v, present := c[e.op.Key]
		ok, next := h.reduce.step(state{present, v}, e)
		if !ok {
			return fmt.Errorf("batch %d: operation %d returns what it does not on what there was: present %v, %#x\n%s", number, i, present, v, formatEvents(events))
		}
		if delete(c, e.op.Key); next.present {
			c[e.op.Key] = next.val
		}
	}
	if cut := h.removals[number]; cut != nil {
		for i := range cut.lo {
			deleted := c.keysBetween(cut.lo[i], cut.hi[i])
			if len(deleted) != int(cut.removed[i]) {
				return fmt.Errorf("batch %d: DeleteRange removes %d pairs of %#x to %#x, of %d", number, cut.removed[i], cut.lo[i], cut.hi[i], len(deleted))
			}
			for _, k := range deleted {
				delete(c, k)
			}
		}
	}
	return nil
}

// window returns the minimum and maximum index of the contents that a lookup may see.
func (h *history) window(number int, index, contentBefore []int, last int) (minIndex, maxIndex int) {
	maxIndex = last
	for other := range h.before {
		switch {
		case h.before[number].has(other):
			minIndex = max(minIndex, index[other])
		case h.changes.has(other) && h.before[other].has(number):
			maxIndex = min(maxIndex, contentBefore[other])
		}
	}
	return minIndex, maxIndex
}

// viewsOf returns all views of the batch with the given number. Lookups by key form one view.
func (h *history) viewsOf(number int, events []event) (all []view) {
	for _, v := range h.views {
		if v.number == number {
			all = append(all, v)
		}
	}
	if len(events) > 0 {
		all = append(all, view{number, -1, "lookup:\n" + formatEvents(events), func(c contents) bool {
			for _, e := range events {
				v, present := c[e.op.Key]
				if ok, _ := h.reduce.step(state{present, v}, e); !ok {
					return false
				}
			}
			return true
		}})
	}
	return all
}

// explain returns the smallest index, from minIndex to maxIndex, of a content that matches all
// views of a lookup.
func (h *history) explain(views []view, contents []contents, contentBefore []int, minIndex, maxIndex int) (at int, err error) {
	for at = minIndex; at <= maxIndex; at++ {
		if !slices.ContainsFunc(views, func(v view) bool { return v.at < 0 && !v.matches(contents[at]) }) {
			break
		}
	}
	for _, v := range views {
		if at > maxIndex || v.at >= 0 && !v.matches(contents[contentBefore[v.at]]) {
			return 0, fmt.Errorf("batch %d: no content between changes %d and %d explains %s", v.number, minIndex, maxIndex, v.desc)
		}
	}
	return at, nil
}

// rangesCheck returns a function that checks the pairs found inside each range, at most limit pairs
// if limit is positive.
func rangesCheck(lo, hi []uint64, limit int, row func(i int) (keys, vals []uint64)) func(contents) bool {
	return func(c contents) bool {
		for i := range lo {
			want := c.keysBetween(lo[i], hi[i])
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

// countsCheck returns a function that checks the number of pairs inside each range.
func countsCheck(lo, hi []uint64, counts []uint32) func(contents) bool {
	return func(c contents) bool {
		for i := range lo {
			if len(c.keysBetween(lo[i], hi[i])) != int(counts[i]) {
				return false
			}
		}
		return true
	}
}

// pairsCheck returns a function that checks the pairs of an iteration.
func pairsCheck[K weft.Key, V weft.Value](all iter.Seq2[K, V]) func(contents) bool {
	found, repeated := contents{}, false
	for k, v := range all {
		if _, present := found[keyNumber(k)]; present {
			repeated = true
		}
		found[keyNumber(k)] = uint64(v)
	}
	return func(c contents) bool { return !repeated && maps.Equal(found, c) }
}
