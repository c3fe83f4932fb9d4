package group

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/rowkey"
	"github.com/weftgo/weft/internal/spill"
)

var errStopped = errors.New("the caller has seen enough")

// Pages iterates over the result in pieces of some ten thousand groups, in the order of
// [Groups.Result], with memory for one piece. If groups went to the temporary file, they are sorted
// there, too. An error is the last pair. Other calls wait until the iteration ends, so the loop
// must not make any.
func (g *Groups) Pages(ctx context.Context) iter.Seq2[*Result, error] {
	return func(yield func(*Result, error) bool) {
		g.turn.Lock()
		defer g.turn.Unlock()
		err := g.usable()
		if err == nil && g.l != nil {
			err = g.eachPage(ctx, func(r *Result) error {
				if !yield(g.shown(r), nil) {
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

// Spilled is the number of bytes that went to the temporary file so far. 0: all groups are in
// memory, and Len is their number.
func (g *Groups) Spilled() int64 {
	g.turn.Lock()
	defer g.turn.Unlock()
	if g.spilled.file == nil {
		return 0
	}
	return max(g.spilled.file.Stats().Written, 1)
}

// eachPage visits the pieces of the result.
func (g *Groups) eachPage(ctx context.Context, f func(*Result) error) error {
	inOrder := !g.opts.Sorted && !g.l.ordered
	if !inOrder && g.spilled.chains == nil {
		r, err := g.read(ctx, g.interned(), 0, g.held)
		if err == nil {
			r, err = sorted(ctx, g.dev, r, g.sortColumns(r))
		}
		for lo := 0; err == nil && lo < r.Len(); lo += pageGroups {
			err = f(r.slice(lo, min(lo+pageGroups, r.Len())))
		}
		return err
	}
	var runs sorter
	defer runs.close()
	err := g.visit(ctx, func(t *Groups) error {
		k, n := t.interned(), t.atOnce(pageGroups)
		for lo := 0; lo < t.held; lo += n {
			r, err := t.read(ctx, k, lo, min(lo+n, t.held))
			if err == nil && inOrder {
				err = f(r)
			} else if err == nil {
				err = runs.add(ctx, g, r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || inOrder {
		return err
	}
	return runs.merge(ctx, g, f)
}

func (r *Result) slice(lo, hi int) *Result {
	s := &Result{}
	for _, c := range r.Keys {
		s.Keys = append(s.Keys, c.Slice(lo, hi))
	}
	for _, c := range r.Values {
		s.Values = append(s.Values, c.Slice(lo, hi))
	}
	return s
}

const (
	// runPage groups of a sorted run are read at a time, or as many as have runBytes.
	runPage, runBytes = 1 << 11, 64 << 10
	// runsAtOnce are merged at a time: as many readers as there is memory for beside the chain
	// that is written.
	runsAtOnce = spillParts
)

// sorter sorts groups in the temporary file: each piece of the result is a sorted run there, and
// runs are merged.
type sorter struct {
	runs  []*spill.Chain
	buf   []byte
	piece int // groups of the smallest piece that came
}

func (s *sorter) close() {
	for _, c := range s.runs {
		_ = c.Free() // the file is closed before long
	}
}

// add sorts a piece of the result and writes it.
func (s *sorter) add(ctx context.Context, g *Groups, r *Result) error {
	r, err := sorted(ctx, g.dev, r, g.sortColumns(r))
	if err != nil {
		return err
	}
	run := g.spilled.file.Chain()
	s.runs = append(s.runs, run)
	if n := g.pieceOf(r); s.piece == 0 || n < s.piece {
		s.piece = n
	}
	return s.write(run, r)
}

// each is the mean number of bytes of a group, about.
func (r *Result) each() int64 {
	n := int64(0)
	for _, c := range slices.Concat(r.Keys, r.Values) {
		n += 8*int64(c.Len()) + textBytes(c)
	}
	return n/int64(max(r.Len(), 1)) + 1
}

// pieceOf is the number of groups like those of a result that are merged at a time.
func (g *Groups) pieceOf(r *Result) int {
	return int(max(1, min(pageGroups, g.opts.Memory/64/r.each())))
}

// write appends groups to a run, and returns its buffer.
func (s *sorter) write(run *spill.Chain, r *Result) error {
	n := int(max(1, min(runPage, runBytes/r.each())))
	for lo := 0; lo < r.Len(); lo += n {
		some := r.slice(lo, min(lo+n, r.Len()))
		s.buf = spill.AppendPage(s.buf[:0], slices.Concat(some.Keys, some.Values))
		if err := run.Append(s.buf); err != nil {
			return err
		}
	}
	return run.Flush()
}

// merge merges runs until one is left, whose pieces it passes to f.
func (s *sorter) merge(ctx context.Context, g *Groups, f func(*Result) error) error {
	for len(s.runs) > runsAtOnce {
		run := g.spilled.file.Chain()
		some := s.runs[:runsAtOnce]
		err := mergeRuns(ctx, g, some, s.piece, func(r *Result) error { return s.write(run, r) })
		for _, c := range some {
			err = errors.Join(err, c.Free())
		}
		s.runs = append(s.runs[runsAtOnce:], run)
		if err != nil {
			return err
		}
	}
	return mergeRuns(ctx, g, s.runs, s.piece, f)
}

// cursor is a place in a run.
type cursor struct {
	g      *Groups
	pages  *spill.Reader
	number int // of the run
	at, n  int
	base   int // of the page, in the pages that a piece is taken from
	all    []column.Column
	by     []column.Column
	codes  [][]uint64 // by column of fixed size, in whose order values ascend
}

// next goes to the next group, and reports whether there is one and whether it is in another page.
func (c *cursor) next() (more, turned bool, err error) {
	if c.at++; c.at < c.n {
		return true, false, nil
	}
	page, err := c.pages.Next()
	if err == io.EOF {
		return false, false, nil
	}
	if err == nil {
		c.all, err = spill.DecodePage(bytes.Clone(page)) // columns stay until the piece is taken
	}
	if err != nil {
		return false, false, err
	}
	keys := len(c.g.l.keys)
	c.at, c.n = 0, c.all[0].Len()
	c.by = c.g.sortColumns(&Result{Keys: c.all[:keys], Values: c.all[keys:]})
	c.codes = make([][]uint64, len(c.by))
	for i, by := range c.by {
		if by.Type() != column.Bytes {
			c.codes[i] = make([]uint64, c.n)
			rowkey.Ordered(by, 0, c.codes[i])
		}
	}
	return true, true, nil
}

// compare compares the groups of two cursors: nulls come last, and earlier runs first.
func (c *cursor) compare(o *cursor) int {
	for i, a := range c.by {
		b := o.by[i]
		switch an, bn := a.Null(c.at), b.Null(o.at); {
		case an && bn:
			continue
		case an:
			return 1
		case bn:
			return -1
		}
		var d int
		if c.codes[i] != nil {
			d = cmp.Compare(c.codes[i][c.at], o.codes[i][o.at])
		} else {
			d = bytes.Compare(a.Bytes(c.at), b.Bytes(o.at))
		}
		if d != 0 {
			return d
		}
	}
	return cmp.Compare(c.number, o.number)
}

// cursors are a heap, whose first has the next group.
type cursors []*cursor

func (h cursors) Len() int           { return len(h) }
func (h cursors) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }
func (h cursors) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(x any)        { *h = append(*h, x.(*cursor)) }
func (h *cursors) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	*h = (*h)[:last]
	return c
}

// merging is a piece of the result that comes of several runs.
type merging struct {
	g     *Groups
	pages [][]column.Column // that groups are taken from
	rows  []uint32          // the groups, by their places in the pages one after another
	total int               // groups in pages
}

// hold has groups be taken from the page of a cursor.
func (m *merging) hold(c *cursor) {
	c.base = m.total
	m.total += c.n
	m.pages = append(m.pages, c.all)
}

// take returns the piece and begins the next.
func (m *merging) take() (*Result, error) {
	all, err := joinPages(m.pages)
	if err != nil {
		return nil, err
	}
	columns := make([]column.Column, len(all))
	for i, c := range all {
		columns[i] = column.Take(m.g.dev, c, m.rows)
	}
	m.pages, m.rows, m.total = nil, m.rows[:0], 0
	keys := len(m.g.l.keys)
	return &Result{Keys: columns[:keys], Values: columns[keys:]}, nil
}

// mergeRuns passes the groups of runs to f, in their order, some at a time.
func mergeRuns(ctx context.Context, g *Groups, runs []*spill.Chain, piece int,
	f func(*Result) error) error {
	var h cursors
	m := &merging{g: g}
	for i, run := range runs {
		r, err := run.Reader()
		if err != nil {
			return err
		}
		defer r.Close()
		c := &cursor{g: g, pages: r, number: i}
		more, _, err := c.next()
		if err != nil {
			return err
		}
		if more {
			h = append(h, c)
			m.hold(c)
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		c := h[0]
		m.rows = append(m.rows, uint32(c.base+c.at))
		more, turned, err := c.next()
		if err != nil {
			return err
		}
		full := len(m.rows) == piece
		switch {
		case !more:
			heap.Pop(&h)
		case turned && !full:
			m.hold(c)
			fallthrough
		default:
			heap.Fix(&h, 0)
		}
		if !full && len(h) > 0 {
			continue
		}
		r, err := m.take()
		if err == nil {
			err = f(r)
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		for _, c := range h {
			m.hold(c)
		}
	}
	return nil
}
