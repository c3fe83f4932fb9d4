package group

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/extsort"
)

var errStopped = errors.New("the caller has seen enough")

// Pages iterates over the result in pieces of some ten thousand groups, in the order of
// [Groups.Result]. It needs memory for one piece only. If groups went to the temporary file, they
// are sorted there, too. The last pair holds the error, if any. Other calls wait until the
// iteration ends, so the loop must not make any.
func (g *Groups) Pages(ctx context.Context) iter.Seq2[*Result, error] {
	return func(yield func(*Result, error) bool) {
		g.mu.Lock()
		defer g.mu.Unlock()
		err := g.prepareRead(ctx)
		if err == nil && g.l != nil {
			err = g.visitPages(ctx, func(r *Result) error {
				if !yield(g.withoutOrdinals(r), nil) {
					return errStopped
				}
				return nil
			})
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, fmt.Errorf("group: Pages: %w", err))
		}
	}
}

// Spilled returns the number of bytes written to the temporary file so far. If it is 0, all groups
// are in memory, and Len is exact.
func (g *Groups) Spilled() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.spilled.file == nil {
		return 0
	}
	return max(g.spilled.file.Stats().Written, 1)
}

// visitPages calls f for each piece of the result, in order.
func (g *Groups) visitPages(ctx context.Context, f func(*Result) error) (err error) {
	if !g.opts.Sorted && !g.l.ordered {
		return g.visitPieces(ctx, f)
	}
	o := extsort.Options{Keys: g.sortKeys()}
	if g.spilled.parts != nil {
		o.Memory, o.File = g.opts.Memory/8, g.spilled.file
	}
	rows := extsort.New(g.dev, o)
	defer func() { err = errors.Join(err, rows.Close()) }()
	add := func(r *Result) error { return rows.Add(ctx, slices.Concat(r.Keys, r.Values)) }
	if g.spilled.parts != nil {
		err = g.visitPieces(ctx, add)
	} else if r, failed := g.read(ctx, g.interned(), 0, g.resident); failed != nil {
		err = failed
	} else {
		err = add(r)
	}
	if err != nil {
		return err
	}
	return visitResults(rows.Pages(ctx), len(g.l.keys), f)
}

// visitPieces calls f for each piece of the groups, in any order.
func (g *Groups) visitPieces(ctx context.Context, f func(*Result) error) error {
	return g.visit(ctx, func(t *Groups) error {
		k, n := t.interned(), t.groupsPerPage(pageGroups)
		for lo := 0; lo < t.resident; lo += n {
			r, err := t.read(ctx, k, lo, min(lo+n, t.resident))
			if err == nil {
				err = f(r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// visitResults calls f for each page, as a result. The first columns of a page are the keys.
func visitResults(pages iter.Seq2[[]column.Column, error], keys int, f func(*Result) error) error {
	for page, err := range pages {
		if err == nil {
			err = f(&Result{Keys: page[:keys:keys], Values: page[keys:]})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
