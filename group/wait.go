package group

import (
	"context"
	"errors"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/op"
)

// Rows of small batches wait for more where there are many groups: the records of a part then come
// into a core's cache once for all of them. They are copies, and are added before groups are read.
const (
	// waitRows are added together. Batches that have a waitBatches-th of that, or waitPer rows for
	// each group that there is, do not wait: copies cost more than they save then.
	waitRows, waitBatches, waitPer = 1 << 20, 4, 16
	// waitShare of Options.Memory holds the rows that wait.
	waitShare = 32
	// joinRows are joined at most while they wait: a column takes 200 bytes beside its values.
	joinRows = 1 << 12
)

// waiting are batches that wait.
type waiting struct {
	batches [][]column.Column // keys, then values
	rows    int
}

// waits reports whether a batch waits for others. Keys that are interned, byte strings, and rows
// with keys that codes have no room for do not.
func (g *Groups) waits(keys, values []column.Column, n int) bool {
	fixed := func(c column.Column) bool { return c.Type() != column.Bytes }
	return g.held > fewGroups && n < min(g.waitRows()/waitBatches, waitPer*g.held) && !g.interns() &&
		!slices.ContainsFunc(slices.Concat(keys, values), func(c column.Column) bool { return !fixed(c) })
}

// waitRows is the number of rows that are added together.
func (g *Groups) waitRows() int {
	if g.opts.Memory == 0 {
		return waitRows
	}
	row := 0
	for _, t := range slices.Concat(g.l.keys, g.l.values) {
		row += t.Size() + 1
	}
	return int(min(waitRows, g.opts.Memory/waitShare/2/int64(row+8), int64(g.spilled.rows)))
}

// wait keeps a copy of a batch.
func (g *Groups) wait(ctx context.Context, keys, values []column.Column, n int) error {
	if g.waiting.rows+n > g.waitRows() {
		if err := g.addWaiting(ctx); err != nil {
			return &op.PartialError{Err: op.Cause(err)}
		}
	}
	if n == 0 {
		return nil
	}
	if err := g.waiting.add(slices.Concat(keys, values)); err != nil {
		return err
	}
	g.waiting.rows += n
	g.pending.Store(int64(g.waiting.rows))
	return nil
}

// add keeps a copy of a batch, which it joins with batches before it that are no longer: so there
// are few, and each row is copied some ten times at most.
func (w *waiting) add(batch []column.Column) error {
	n, first := batch[0].Len(), len(w.batches)
	for ; first > 0; first-- {
		before := w.batches[first-1][0].Len()
		if before > n || before+n > joinRows {
			break
		}
		n += before
	}
	all, err := joinBatches(append(w.batches[first:len(w.batches):len(w.batches)], batch))
	if err != nil {
		return err
	}
	clear(w.batches[first:])
	w.batches = append(w.batches[:first], all)
	return nil
}

// joinBatches returns the rows of batches, one after another, in memory of their own.
func joinBatches(batches [][]column.Column) ([]column.Column, error) {
	all, some := make([]column.Column, len(batches[0])), make([]column.Column, len(batches))
	for i := range all {
		for j, b := range batches {
			some[j] = b[i]
		}
		var err error
		if all[i], err = column.Concat(some...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// addWaiting adds the rows that wait. Those that it could not add still wait.
func (g *Groups) addWaiting(ctx context.Context) error {
	w := &g.waiting
	if w.rows == 0 {
		return nil
	}
	all, err := joinBatches(w.batches)
	if err != nil {
		return err
	}
	keys, rows := len(g.l.keys), w.rows
	w.batches, w.rows = nil, 0
	err = g.addAll(ctx, g.l, all[:keys:keys], all[keys:], rows)
	var partial *op.PartialError
	if errors.As(err, &partial) {
		for i, c := range all {
			all[i] = c.Slice(partial.Done, rows)
		}
		w.batches, w.rows = [][]column.Column{all}, rows-partial.Done
	}
	g.pending.Store(int64(w.rows))
	g.scratch.trim()
	return err
}

// ready reports why groups cannot be read, after it has added the rows that wait.
func (g *Groups) ready(ctx context.Context) error {
	if err := g.usable(); err != nil {
		return err
	}
	if err := g.addWaiting(ctx); err != nil {
		return op.Cause(err)
	}
	return nil
}
