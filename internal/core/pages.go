package core

import (
	"context"
	"errors"

	"github.com/weftgo/weft/internal/batch"
)

// PageBytes is about how much memory of a table a page covers. Tests make pages
// smaller.
var PageBytes = 4 << 20

// Page is some pairs of a table in columns, valid until the next page is read.
type Page struct {
	N          int
	Keys, Vals []byte
}

// Pages calls yield with the pairs of a table, or of what a snapshot has of it, a
// page at a time, until it returns false. An iteration reads one generation of
// the table from its beginning to its end, so every pair that is not changed
// meanwhile is in exactly one page; a table with versions it reads as it was at
// the beginning. Nothing is locked while yield runs: it may use the table in any
// way, and close it.
func (t *Table) Pages(ctx context.Context, method string, at *Snapshot, yield func(*Page) bool) error {
	return t.wrap(method, t.pages(ctx, at, yield))
}

func (t *Table) pages(ctx context.Context, at *Snapshot, yield func(*Page) bool) (err error) {
	if at == nil {
		if at, err = t.moment(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, at.Close()) }()
	}
	units, rows, err := t.extent(ctx, at)
	if err != nil {
		return err
	}
	per := uint32(max(1, min(int(units), PageBytes/max(1, rows*t.Widths.Slot))))
	p := pager{t: t, at: at}
	p.grow(int(per) * rows)
	for lo := uint32(0); lo < units; lo += per {
		if err := p.read(ctx, lo, min(lo+per, units)); err != nil {
			return err
		}
		if p.page.N > 0 && !yield(&p.page) {
			return nil
		}
	}
	return nil
}

// extent is that of a table, read as by any call: an engine may have to hold changes back.
func (t *Table) extent(ctx context.Context, at *Snapshot) (units uint32, rows int, err error) {
	lease, err := t.enter(ctx, at, &batch.Batch{})
	if err != nil {
		return 0, 0, err
	}
	units, rows = t.Engine.Extent(lease)
	return units, rows, t.leave(at, lease)
}

// pager reads the pages of an iteration into columns that it uses again.
type pager struct {
	t          *Table
	at         *Snapshot
	keys, vals []byte
	rows       int
	page       Page
}

func (p *pager) grow(rows int) {
	w := p.t.Widths
	p.rows, p.keys, p.vals = rows, make([]byte, rows*w.Key), make([]byte, rows*w.Val)
}

// read reads the pairs of units [lo,hi), with as much memory as they take.
func (p *pager) read(ctx context.Context, lo, hi uint32) error {
	w := p.t.Widths
	for {
		n, err := p.export(ctx, lo, hi)
		if err != nil {
			return err
		}
		if n <= p.rows {
			p.page = Page{N: n, Keys: p.keys[:n*w.Key], Vals: p.vals[:n*w.Val]}
			return nil
		}
		p.grow(n)
	}
}

func (p *pager) export(ctx context.Context, lo, hi uint32) (n int, err error) {
	out := &batch.Batch{N: p.rows}
	lease, err := p.t.enter(ctx, p.at, out)
	if err != nil {
		return 0, err
	}
	out.Columns[batch.Keys] = batch.Output(p.keys).Of(p.t.Widths.Key)
	if p.t.Widths.Val > 0 {
		out.Columns[batch.Vals] = batch.Output(p.vals).Of(p.t.Widths.Val)
	}
	n, err = p.t.Engine.Export(ctx, lease, lo, hi, out)
	return n, errors.Join(err, p.t.leave(p.at, lease))
}
