package distinct

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// maxItems is how many distinct items a counter can number.
const maxItems = math.MaxUint32 - firstID

var errTooMany = fmt.Errorf("more than %d distinct items", uint32(maxItems))

// batch is the memory for calls of the index.
type batch struct {
	keys    []uint64
	ids     []uint32
	flag    []bool
	workers int // from the first one on, that have misses in this round
}

// resolve gives every miss of the round the number of its item and ends
// the round. Unknown keys are claimed in the index; where several misses have
// one unknown key, one of them wins and the others are looked up again.
func (c *Counter) resolve(ctx context.Context) error {
	c.batch.workers = 0
	for i, w := range c.workers {
		w.asked = w.asked[:0]
		for j := range w.misses {
			w.asked = append(w.asked, uint32(j))
			c.batch.workers = i + 1
		}
	}
	if c.batch.workers == 0 {
		return nil
	}
	for {
		unknown, err := c.lookup(ctx)
		if err != nil {
			return err
		}
		if unknown == 0 {
			break
		}
		won, err := c.claim(ctx)
		if err != nil {
			return err
		}
		if won == unknown {
			break
		}
	}
	if err := c.resolveClashes(); err != nil {
		return err
	}
	c.parallel(c.batch.workers, (*worker).endRound)
	return nil
}

// gather puts the keys of all misses asked for into the batch.
func (c *Counter) gather() (n int) {
	for _, w := range c.workers {
		w.first = n
		n += len(w.asked)
	}
	b := &c.batch
	b.keys = slices.Grow(b.keys[:0], n)[:n]
	b.ids = slices.Grow(b.ids[:0], n)[:n]
	b.flag = slices.Grow(b.flag[:0], n)[:n]
	c.parallel(b.workers, func(w *worker) {
		for i, j := range w.asked {
			b.keys[w.first+i] = w.misses[j].key
		}
	})
	return n
}

// lookup asks the index for the misses asked for. Those whose key it does not
// know are asked for from now on.
func (c *Counter) lookup(ctx context.Context) (unknown int, err error) {
	c.gather()
	b := &c.batch
	if _, err := c.index.Get(ctx, b.keys, b.ids, b.flag); err != nil {
		return 0, err
	}
	c.parallel(b.workers, func(w *worker) {
		w.unknown = w.unknown[:0]
		for i, j := range w.asked {
			if !b.flag[w.first+i] {
				w.unknown = append(w.unknown, j)
				continue
			}
			w.found(j, b.ids[w.first+i])
		}
		w.asked, w.unknown = w.unknown, w.asked
	})
	for _, w := range c.workers {
		unknown += len(w.asked)
	}
	return unknown, nil
}

// found notes that the key of miss j belongs to item id, which is the miss's
// item unless two long items have the same key.
func (w *worker) found(j, id uint32) {
	m := &w.misses[j]
	if m.span.n > maxShort && !bytes.Equal(w.items.arena.at(w.items.words[id]), w.item(m.span)) {
		w.clashes = append(w.clashes, j)
		return
	}
	m.id = id
}

// claim enters the keys asked for into the index, numbers the items of those
// that were new and keeps their bytes. The others, which lost to a miss of the
// same key, are asked for from now on.
func (c *Counter) claim(ctx context.Context) (won int, err error) {
	n := c.gather()
	b := &c.batch
	base := len(c.items.words)
	if n > maxItems-base {
		return 0, errTooMany
	}
	for i := range b.ids {
		b.ids[i] = uint32(base + i)
	}
	won, err = c.index.PutNew(ctx, b.keys, b.ids, b.flag)
	if err != nil {
		return 0, err
	}
	if won == 0 {
		return 0, errors.New("the index neither has nor takes some keys")
	}
	c.items.grow(won)
	// Numbers leave no gaps: where keys before lost, the index has a number
	// that is too high.
	rank := 0
	for i, ok := range b.flag {
		if ok {
			b.ids[i] = uint32(base + rank)
			rank++
		}
	}
	c.parallel(b.workers, func(w *worker) {
		w.unknown = w.unknown[:0]
		for i, j := range w.asked {
			if !b.flag[w.first+i] {
				w.unknown = append(w.unknown, j)
				continue
			}
			w.name(j, b.ids[w.first+i])
		}
		w.asked, w.unknown = w.unknown, w.asked
	})
	renamed := 0
	for i, ok := range b.flag {
		if ok && b.ids[i] != uint32(base+i) {
			b.keys[renamed], b.ids[renamed] = b.keys[i], b.ids[i]
			renamed++
		}
	}
	_, err = c.index.Put(ctx, b.keys[:renamed], b.ids[:renamed])
	return won, err
}

// name makes miss j's item number id.
func (w *worker) name(j, id uint32) {
	m := &w.misses[j]
	m.id = id
	if m.span.n <= maxShort {
		w.items.words[id] = pack(w.padded, m.span)
	} else {
		w.items.words[id] = w.store.put(w.item(m.span))
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
