package linear

import (
	"context"
	"sync"
)

// pageBytes is how much of a table is copied at a time for iteration. Tests make
// pages smaller.
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

	perLine := lineBytes / t.widths.Slot
	lines := min(gen.lines+1, uint32(pageBytes/lineBytes))
	keys := make([]byte, int(lines)*perLine*t.widths.Key)
	vals := make([]byte, int(lines)*perLine*t.widths.Val)
	for lo := uint32(0); lo <= gen.lines; lo += lines { // the extra line too
		n, err := t.page(ctx, gen, lo, min(lo+lines, gen.lines+1), keys, vals)
		if err != nil {
			return wrap("All", err)
		}
		if !f(keys[:n*t.widths.Key], vals[:n*t.widths.Val]) {
			return nil
		}
	}
	return nil
}

func (t *table) page(ctx context.Context, gen *generation, lo, hi uint32, keys, vals []byte) (int, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return 0, t.errClosed("All")
	}
	return t.engine.export(ctx, gen, lo, hi, keys, vals)
}
