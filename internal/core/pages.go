package core

import (
	"context"
	"errors"

	"github.com/weftgo/weft/internal/batch"
)

// PageBytes is the approximate size in bytes of the table memory that a page covers. For byte
// strings it is the approximate size of the strings. Tests reduce it.
var PageBytes = 4 << 20

// Page holds part of the pairs of a table in columns. It is valid until the next page is read.
type Page struct {
	N          int
	Keys, Vals batch.Column
}

// Pages calls yield with the pairs of a table, or of a snapshot of it, page by page, until yield
// returns false. It reads one generation from the beginning to the end of the iteration. So every
// pair that does not change meanwhile is in exactly one page. If the table has versions, Pages
// reads it as it was at the beginning. No lock is held while yield runs, so yield may use or even
// close the table.
func (t *Table) Pages(ctx context.Context, method string, at *Snapshot, yield func(*Page) bool) error {
	return t.wrap(method, t.pages(ctx, at, yield))
}

// PagesBackward calls yield with the same pages as Pages, from the last to the first. The pairs
// within a page keep their order.
func (t *Table) PagesBackward(ctx context.Context, method string, at *Snapshot, yield func(*Page) bool) error {
	return t.wrap(method, t.pagesFrom(ctx, at, true, yield))
}

func (t *Table) pages(ctx context.Context, at *Snapshot, yield func(*Page) bool) error {
	return t.pagesFrom(ctx, at, false, yield)
}

func (t *Table) pagesFrom(ctx context.Context, at *Snapshot, backward bool, yield func(*Page) bool) (err error) {
	if at == nil {
		if at, err = t.snapshotOrHold(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, at.Close()) }()
	}
	units, rows, slot, err := t.extent(ctx, at)
	if err != nil {
		return err
	}
	unitsPerPage := uint32(max(1, min(int(units), PageBytes/max(1, rows*slot))))
	p := pager{t: t, at: at}
	p.grow(int(unitsPerPage) * rows)
	for done := uint32(0); done < units; {
		n := min(unitsPerPage, units-done)
		lo := done
		if backward {
			lo = units - done - n
		}
		if err := p.read(ctx, lo, lo+n); err != nil {
			return err
		}
		if p.page.N > 0 && !yield(&p.page) {
			return nil
		}
		done += n
	}
	return nil
}

// extent returns the result of Engine.Extent and the size of a slot in bytes. It takes a lease like
// any call, because an engine may have to exclude changes meanwhile.
func (t *Table) extent(ctx context.Context, at *Snapshot) (units uint32, rows, slot int, err error) {
	lease, err := t.acquireLease(ctx, at, &batch.Batch{})
	if err != nil {
		return 0, 0, 0, err
	}
	units, rows = t.Engine.Extent(lease)
	slot = t.Widths.Slot
	if t.Strings {
		slot = t.Engine.(Measurer).PairBytes(lease)
	}
	return units, rows, slot, t.releaseLease(at, lease)
}

// pager reads the pages of an iteration into columns that it reuses.
type pager struct {
	t                *Table
	at               *Snapshot
	keys, vals       batch.Column
	keyData, valData []byte // data of byte strings
	rows             int
	page             Page
}

func (p *pager) grow(rows int) {
	p.rows = rows
	if p.t.Strings {
		p.keys = batch.StringsTo(&p.keyData, make([]batch.Span, rows))
		p.vals = batch.StringsTo(&p.valData, make([]batch.Span, rows))
		return
	}
	w := p.t.Widths
	p.keys = batch.Output(make([]byte, rows*w.Key)).WithWidth(w.Key)
	if w.Val > 0 {
		p.vals = batch.Output(make([]byte, rows*w.Val)).WithWidth(w.Val)
	}
}

// read reads the pairs of units [lo,hi). It grows the columns if the pairs do not fit.
func (p *pager) read(ctx context.Context, lo, hi uint32) error {
	for {
		out, n, err := p.export(ctx, lo, hi)
		if err != nil {
			return err
		}
		if n <= p.rows {
			out = out.Chunk(0, n)
			p.page = Page{N: n, Keys: out.Columns[batch.Keys], Vals: out.Columns[batch.Vals]}
			return nil
		}
		p.grow(n)
	}
}

func (p *pager) export(ctx context.Context, lo, hi uint32) (out *batch.Batch, n int, err error) {
	out = &batch.Batch{N: p.rows}
	lease, err := p.t.acquireLease(ctx, p.at, out)
	if err != nil {
		return out, 0, err
	}
	p.keyData, p.valData = p.keyData[:0], p.valData[:0]
	out.Columns[batch.Keys], out.Columns[batch.Vals] = p.keys, p.vals
	n, err = p.t.Engine.Export(ctx, lease, lo, hi, out)
	return out, n, errors.Join(err, p.t.releaseLease(p.at, lease))
}
