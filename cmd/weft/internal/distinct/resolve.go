package distinct

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/weftgo/weft/internal/arena"
	"github.com/weftgo/weft/internal/number"
)

// maxItems is how many distinct items a counter can number.
const maxItems = number.MaxKeys - firstID

var errTooMany = fmt.Errorf("more than %d distinct items", uint32(maxItems))

// batch is the memory for calls of the index.
type batch struct {
	keys    []uint64
	numbers []uint32
	workers int // from the first one on, that have misses in this round
}

// resolve gives every miss of the round the number of its item and ends
// the round. The index numbers keys in the order of the batch; who brings a key first
// keeps the bytes of its item, and the others compare theirs with them.
func (c *Counter) resolve(ctx context.Context) error {
	n := c.gather()
	if n == 0 {
		return nil
	}
	if n > maxItems-len(c.items.words) {
		return errTooMany
	}
	b := &c.batch
	base := len(c.items.words) - len(c.items.extras)
	first, _, err := c.index.Assign(ctx, b.keys, b.numbers)
	if err != nil {
		return err
	}
	c.items.grow(len(first))
	c.parallel(b.workers, func(w *worker) { w.nameFirst(first, uint32(base)) })
	c.parallel(b.workers, func(w *worker) { w.compare(b.numbers[w.first:][:len(w.misses)]) })
	if err := c.resolveClashes(); err != nil {
		return err
	}
	c.parallel(b.workers, (*worker).endRound)
	return nil
}

// gather puts the keys of all misses into the batch.
func (c *Counter) gather() (n int) {
	b := &c.batch
	b.workers = 0
	for i, w := range c.workers {
		w.first = n
		if n += len(w.misses); len(w.misses) > 0 {
			b.workers = i + 1
		}
	}
	b.keys = slices.Grow(b.keys[:0], n)[:n]
	b.numbers = slices.Grow(b.numbers[:0], n)[:n]
	c.parallel(b.workers, func(w *worker) {
		for i := range w.misses {
			b.keys[w.first+i] = w.misses[i].key
		}
	})
	return n
}

// nameFirst keeps the items of the worker's misses whose keys are new: first are the
// rows of all such misses in the batch, whose numbers begin at base.
func (w *worker) nameFirst(first []uint32, base uint32) {
	lo, _ := slices.BinarySearch(first, uint32(w.first))
	hi, _ := slices.BinarySearch(first, uint32(w.first+len(w.misses)))
	for k := lo; k < hi; k++ {
		j := first[k] - uint32(w.first)
		w.name(j, w.items.extras.ID(base+uint32(k)))
		w.misses[j].named = true
	}
}

// compare gives the other misses the items of their numbers, unless two long items
// have the same key.
func (w *worker) compare(numbers []uint32) {
	for j := range w.misses {
		m := &w.misses[j]
		if m.named {
			continue
		}
		m.id = w.items.extras.ID(numbers[j])
		if m.span.n > arena.MaxShort && !bytes.Equal(w.items.arena.At(w.items.words[m.id]), w.item(m.span)) {
			w.clashes = append(w.clashes, uint32(j))
		}
	}
}

// name makes miss j's item number id.
func (w *worker) name(j, id uint32) {
	m := &w.misses[j]
	m.id = id
	if m.span.n <= arena.MaxShort {
		w.items.words[id] = pack(w.padded, m.span)
	} else {
		w.items.words[id] = w.store.Put(w.item(m.span))
	}
}

// resolveClashes numbers the items whose keys belong to other items.
func (c *Counter) resolveClashes() error {
	known := c.items.clashes
	for _, w := range c.workers {
		for _, j := range w.clashes {
			item := w.item(w.misses[j].span)
			id, ok := known[string(item)]
			if ok {
				w.misses[j].id = id
				continue
			}
			if len(c.items.words) >= maxItems {
				return errTooMany
			}
			id = uint32(len(c.items.words))
			c.items.grow(1)
			c.items.extras = append(c.items.extras, id)
			w.name(j, id)
			known[string(item)] = id
		}
		w.clashes = w.clashes[:0]
	}
	return nil
}

// grow makes room for n more items.
func (t *items) grow(n int) {
	t.words = slices.Grow(t.words, n)[:len(t.words)+n]
	t.counts = slices.Grow(t.counts, n)[:len(t.counts)+n]
}
