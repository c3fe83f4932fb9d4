package distinct

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/extsort"
)

// Item is a distinct item and its number of occurrences.
type Item struct {
	Bytes []byte
	Count uint64
}

// compare orders items by descending count, then by bytes.
func (a Item) compare(b Item) int {
	return cmp.Or(cmp.Compare(b.Count, a.Count), bytes.Compare(a.Bytes, b.Bytes))
}

// maxHeap bounds the items in a heap. Larger results are sorted.
const maxHeap = 1 << 16

// Ranking is a list of items in the order of Item.compare.
type Ranking struct {
	Distinct int // number of distinct items, ranked or not

	items  []Item
	sorted *extsort.Sorter // nil if the result is in items
}

// Top ranks the n most frequent items, or all if n is 0. The most frequent item is first, and items
// with equal counts are ordered by bytes. Items that exceed memory are sorted in a temporary file.
// The ranking must be closed before the counter.
func (c *Counter) Top(ctx context.Context, n int) (*Ranking, error) {
	r := &Ranking{}
	h := worst{}
	if n == 0 || n > maxHeap {
		r.sorted = extsort.New(c.dev, extsort.Options{Top: n, TempDir: c.opts.TempDir,
			Memory: c.opts.Memory / 4, Keys: []extsort.Key{{Column: 1, Descending: true}, {}}})
	}
	for p, err := range c.groups.Pages(ctx) {
		if err == nil {
			r.Distinct += p.Len()
			if r.sorted != nil {
				err = r.sorted.Add(ctx, []column.Column{p.Keys[0], p.Values[0]})
			} else {
				h.keep(n, p.Keys[0], column.Values[uint64](p.Values[0]))
			}
		}
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	slices.SortFunc(h, Item.compare)
	r.items = h
	return r, nil
}

// Each calls f for each item, until f returns an error. The item is valid until f returns.
func (r *Ranking) Each(ctx context.Context, f func(item []byte, count uint64) error) error {
	for _, x := range r.items {
		if err := f(x.Bytes, x.Count); err != nil {
			return err
		}
	}
	if r.sorted == nil {
		return ctx.Err()
	}
	for page, err := range r.sorted.Pages(ctx) {
		if err != nil {
			return err
		}
		for i, count := range column.Values[uint64](page[1]) {
			if err := f(page[0].Bytes(i), count); err != nil {
				return err
			}
		}
	}
	return nil
}

// Spilled returns the number of bytes that sorting has written to a temporary file.
func (r *Ranking) Spilled() int64 {
	if r.sorted == nil {
		return 0
	}
	return r.sorted.Spilled()
}

// Close frees the memory of the ranking.
func (r *Ranking) Close() error {
	if r.sorted == nil {
		return nil
	}
	return r.sorted.Close()
}

// worst is a heap. Its top is the item that Item.compare orders last.
type worst []Item

func (h worst) Len() int           { return len(h) }
func (h worst) Less(i, j int) bool { return h[i].compare(h[j]) > 0 }
func (h worst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *worst) Push(x any)        { *h = append(*h, x.(Item)) }
func (h *worst) Pop() any          { panic("nothing is taken from the heap") }

// keep adds items, and keeps the first n in the order of Item.compare.
func (h *worst) keep(n int, items column.Column, counts []uint64) {
	for i, count := range counts {
		x := Item{items.Bytes(i), count}
		switch {
		case len(*h) < n:
			x.Bytes = bytes.Clone(x.Bytes)
			heap.Push(h, x)
		case x.Count >= (*h)[0].Count && x.compare((*h)[0]) < 0:
			x.Bytes = append((*h)[0].Bytes[:0], x.Bytes...)
			(*h)[0] = x
			heap.Fix(h, 0)
		}
	}
}
