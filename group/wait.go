package group

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/spill"
)

// Rows of small batches wait for more if there are many groups. The records of a part then enter a
// core's cache once for all of them. The rows are copies, and are added before groups are read.
const (
	// waitRows rows are added together. Batches of at least a waitBatches-th of that, or of waitPer
	// rows for each group, do not wait: copies cost more than they save then.
	waitRows, waitBatches, waitPer = 1 << 20, 4, 16
	// If a table is large, a row for each waitGroups groups waits, and mostWait rows at most.
	waitGroups, mostWait = 8, 1 << 23
	// waitShare of Options.Memory holds the rows that wait.
	waitShare = 32
)

// waits reports whether a batch waits for others. Interned keys, byte strings, and rows with keys
// that codes cannot hold do not.
func (g *Groups) waits(keys, values []column.Column, n int) bool {
	fixed := func(c column.Column) bool { return c.Type() != column.Bytes }
	most := waitPer * g.held
	if g.spilled.direct > 0 {
		most = math.MaxInt
	}
	return most > waitPer*fewGroups && n < min(g.waitRows()/waitBatches, most) && !g.interns() &&
		!slices.ContainsFunc(slices.Concat(keys, values), func(c column.Column) bool { return !fixed(c) })
}

// waitRows returns the number of rows to add together.
func (g *Groups) waitRows() int {
	if g.opts.Memory == 0 {
		return min(max(waitRows, g.held/waitGroups), mostWait)
	}
	row := g.l.rowBytes() + len(g.l.keys) + len(g.l.sources) + 8
	return int(min(waitRows, g.opts.Memory/waitShare/2/int64(row), int64(g.spilled.rows)))
}

// wait keeps a copy of a batch.
func (g *Groups) wait(ctx context.Context, keys, values []column.Column, n int) error {
	if g.waiting.Len()+n > g.waitRows() {
		if err := g.addWaiting(ctx); err != nil {
			return &op.PartialError{Err: op.Cause(err)}
		}
	}
	if n == 0 {
		return nil
	}
	return g.keep(slices.Concat(keys, g.l.used(values, n)))
}

// keep makes rows wait.
func (g *Groups) keep(rows []column.Column) error {
	if g.waiting == nil {
		g.waiting = spill.NewStore(nil, typesOf(rows))
		runtime.AddCleanup(g, (*spill.Store).Free, g.waiting) // if Close is not called
	}
	err := g.waiting.Append(g.dev, rows)
	g.pending.Store(int64(g.waiting.Len()))
	return err
}

// addWaiting adds the rows that wait. Rows that it could not add still wait.
func (g *Groups) addWaiting(ctx context.Context) error {
	w := g.waiting
	if w.Len() == 0 {
		return nil
	}
	g.waiting = nil
	all, keys := w.View(), len(g.l.keys)
	err := g.addAll(ctx, g.l, all[:keys:keys], g.l.unused(all[keys:], w.Len()), w.Len())
	var partial *op.PartialError
	if errors.As(err, &partial) {
		if lost := g.keep(spill.Slice(all, partial.Done, w.Len())); lost != nil {
			g.failed = errors.Join(err, lost)
			err = g.failed
		}
		w.Free()
	} else {
		w.Reset()
		g.waiting = w
	}
	g.pending.Store(int64(g.waiting.Len()))
	g.scratch.trim()
	return err
}

// ready adds the rows that wait. It returns an error if groups cannot be read.
func (g *Groups) ready(ctx context.Context) error {
	if err := g.usable(); err != nil {
		return err
	}
	if err := g.addWaiting(ctx); err != nil {
		return op.Cause(err)
	}
	return nil
}
