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

// Rows of small batches are buffered if there are many groups. The records of a part then enter a
// core's cache once for all buffered rows. The buffered copies are added before groups are read.
const (
	// bufferedRows is the number of rows to add together. A batch is not buffered if it has at
	// least 1/bufferedBatches of the buffer's capacity, or rowsPerGroup rows per group: copies then
	// cost more than they save.
	bufferedRows, bufferedBatches, rowsPerGroup = 1 << 20, 4, 16
	// A large table buffers a row for each groupsPerRow groups, but at most maxBuffered rows.
	groupsPerRow, maxBuffered = 8, 1 << 23
	// bufferShare divides Options.Memory to bound the bytes of buffered rows.
	bufferShare = 32
)

// bufferable reports whether a batch may be buffered. Batches with byte strings or interned keys
// are not.
func (g *Groups) bufferable(keys, values []column.Column, n int) bool {
	fixed := func(c column.Column) bool { return c.Type() != column.Bytes }
	limit := rowsPerGroup * g.resident
	if g.spilled.directLeft > 0 {
		limit = math.MaxInt
	}
	return limit > rowsPerGroup*maxSinglePart && n < min(g.bufferCapacity()/bufferedBatches, limit) && !g.needsInterning() &&
		!slices.ContainsFunc(slices.Concat(keys, values), func(c column.Column) bool { return !fixed(c) })
}

// bufferCapacity returns the maximum number of buffered rows.
func (g *Groups) bufferCapacity() int {
	if g.opts.Memory == 0 {
		return min(max(bufferedRows, g.resident/groupsPerRow), maxBuffered)
	}
	row := g.l.rowBytes() + len(g.l.keys) + len(g.l.sources) + 8
	return int(min(bufferedRows, g.opts.Memory/bufferShare/2/int64(row), int64(g.spilled.maxRows)))
}

// bufferBatch appends a batch to the buffer. It adds the buffered rows first if necessary.
func (g *Groups) bufferBatch(ctx context.Context, keys, values []column.Column, n int) error {
	if g.buffered.Len()+n > g.bufferCapacity() {
		if err := g.addBuffered(ctx); err != nil {
			return &op.PartialError{Err: op.Cause(err)}
		}
	}
	if n == 0 {
		return nil
	}
	return g.bufferRows(slices.Concat(keys, g.l.usedColumns(values, n)))
}

func (g *Groups) bufferRows(rows []column.Column) error {
	if g.buffered == nil {
		g.buffered = spill.NewStore(nil, typesOf(rows))
		runtime.AddCleanup(g, (*spill.Store).Free, g.buffered) // if Close is not called
	}
	err := g.buffered.Append(g.dev, rows)
	g.nBuffered.Store(int64(g.buffered.Len()))
	return err
}

// addBuffered adds the buffered rows. Rows that it could not add stay in the buffer.
func (g *Groups) addBuffered(ctx context.Context) error {
	w := g.buffered
	if w.Len() == 0 {
		return nil
	}
	g.buffered = nil
	all, keys := w.View(), len(g.l.keys)
	err := g.addAll(ctx, g.l, all[:keys:keys], g.l.restoreColumns(all[keys:], w.Len()), w.Len())
	var partial *op.PartialError
	if errors.As(err, &partial) {
		if appendErr := g.bufferRows(spill.Slice(all, partial.Done, w.Len())); appendErr != nil {
			g.failed = errors.Join(err, appendErr)
			err = g.failed
		}
		w.Free()
	} else {
		w.Reset()
		g.buffered = w
	}
	g.nBuffered.Store(int64(g.buffered.Len()))
	g.scratch.trim()
	return err
}

// prepareRead adds the buffered rows. It returns an error if groups cannot be read.
func (g *Groups) prepareRead(ctx context.Context) error {
	if err := g.checkOpen(); err != nil {
		return err
	}
	if err := g.addBuffered(ctx); err != nil {
		return op.Cause(err)
	}
	return nil
}
