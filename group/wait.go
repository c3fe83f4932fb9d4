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
	// waitRows are added together. Batches that have as many, or waitPer for each group that there
	// is, do not wait.
	waitRows, waitPer = 1 << 20, 16
	// waitShare of Options.Memory holds the rows that wait.
	waitShare = 32
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
	return g.held > fewGroups && n < min(g.waitRows(), waitPer*g.held) && !g.interns() &&
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
	batch := slices.Concat(keys, values)
	for i, c := range batch {
		var err error
		if batch[i], err = column.Concat(c); err != nil {
			return err
		}
	}
	g.waiting.batches = append(g.waiting.batches, batch)
	g.waiting.rows += n
	g.pending.Store(int64(g.waiting.rows))
	return nil
}

// addWaiting adds the rows that wait. Those that it could not add still wait.
func (g *Groups) addWaiting(ctx context.Context) error {
	w := &g.waiting
	if w.rows == 0 {
		return nil
	}
	all := make([]column.Column, len(w.batches[0]))
	some := make([]column.Column, len(w.batches))
	for i := range all {
		for j, b := range w.batches {
			some[j] = b[i]
		}
		var err error
		if all[i], err = column.Concat(some...); err != nil {
			return err
		}
	}
	keys, rows := len(g.l.keys), w.rows
	w.batches, w.rows = nil, 0
	err := g.addAll(ctx, g.l, all[:keys:keys], all[keys:], rows)
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
