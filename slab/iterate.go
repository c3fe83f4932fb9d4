package slab

import (
	"context"
	"iter"
	"sync"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/batch"
)

// pageBytes is how much of the base slabs is copied at a time for iteration,
// with what is chained behind them. Tests make pages smaller.
var pageBytes = 4 << 20

// pager runs iterations and remembers the error of the last.
type pager struct {
	mu   sync.Mutex
	last error
}

func (p *pager) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// each calls f with the pairs of a table, a page at a time, until f returns
// false. The table is locked only while a page is read, so the caller's loop
// may use it.
func (p *pager) each(t *table, f func(keys, vals []byte) bool) {
	err := t.eachPage(context.Background(), f)
	p.mu.Lock()
	p.last = err
	p.mu.Unlock()
}

// pairs iterates over the pairs of a map or a multimap.
func pairs[K weft.Key, V weft.Value](t *table, p *pager) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		p.each(t, func(keys, vals []byte) bool {
			v := batch.View[V](vals)
			for i, k := range batch.View[K](keys) {
				if !yield(k, v[i]) {
					return false
				}
			}
			return true
		})
	}
}

func (t *table) eachPage(ctx context.Context, f func(keys, vals []byte) bool) (err error) {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return t.errClosed("All")
	}
	if _, err := t.count(ctx); err != nil { // after submitted changes
		t.mu.Unlock()
		return wrap("All", err)
	}
	gen := t.engine.hold()
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if e := t.engine.release(gen); err == nil {
			err = wrap("All", e)
		}
	}()

	// What the base slabs hold; a page that has more gets more.
	buckets := min(gen.buckets+1, uint32(pageBytes/slabBytes))
	page := t.newPage(int(buckets) * slotsIn(t.widths.Slot))
	for lo := uint32(0); lo <= gen.buckets; lo += buckets { // the extra bucket too
		if err := t.read(ctx, gen, lo, min(lo+buckets, gen.buckets+1), &page); err != nil {
			return wrap("All", err)
		}
		if !f(page.keys[:page.n*t.widths.Key], page.vals[:page.n*t.widths.Val]) {
			return nil
		}
	}
	return nil
}

// page is the pairs of some buckets, in columns with room for some more.
type page struct {
	keys, vals []byte
	n          int
}

func (t *table) newPage(rows int) page {
	return page{keys: make([]byte, rows*t.widths.Key), vals: make([]byte, rows*t.widths.Val)}
}

// read fills a page with the pairs of buckets [lo,hi).
func (t *table) read(ctx context.Context, gen *generation, lo, hi uint32, p *page) (err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for {
		if t.closed {
			return weft.ErrClosed
		}
		if p.n, err = t.engine.export(ctx, gen, lo, hi, p.keys, p.vals); err != nil || p.n*t.widths.Key <= len(p.keys) {
			return err
		}
		*p = t.newPage(p.n)
	}
}
