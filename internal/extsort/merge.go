package extsort

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/spill"
)

const (
	// maxRuns is the number of runs that are merged at a time. Each has a buffer of the file.
	maxRuns = 64

	// A page of a run has runRows rows at most, and as many as have between minPage and maxPage
	// bytes, by the limit of memory.
	runRows          = 1 << 11
	minPage, maxPage = 4 << 10, 64 << 10
)

var errClosed = fmt.Errorf("extsort: the sorter is %w", op.ErrClosed)

// rowSize returns the mean number of bytes of a row.
func rowSize(page []column.Column) int64 {
	return size(page...)/int64(max(page[0].Len(), 1)) + 1
}

// write appends rows to a run.
func (s *Sorter) write(run *spill.Chain, rows []column.Column) error {
	bytes := min(max(s.o.Memory/(16*maxRuns), minPage), maxPage)
	n := int(max(1, min(runRows, bytes/rowSize(rows))))
	for lo := 0; lo < rows[0].Len(); lo += n {
		s.buf = spill.AppendPage(s.buf[:0], spill.Slice(rows, lo, min(lo+n, rows[0].Len())))
		if err := run.Append(s.buf); err != nil {
			return err
		}
		s.longest = max(s.longest, len(s.buf))
	}
	return nil
}

// merge merges runs until few enough are left, and calls f with the rows of these.
func (s *Sorter) merge(ctx context.Context, f func([]column.Column) error) error {
	for len(s.runs) > s.fanIn() {
		// Neighbours are merged, so that rows that are equal stay in order.
		for i := 0; i < len(s.runs)-1 && len(s.runs) > s.fanIn(); i++ {
			n := min(s.fanIn(), len(s.runs)-s.fanIn()+1, len(s.runs)-i)
			if err := s.mergeSome(ctx, i, n); err != nil {
				return err
			}
		}
	}
	return s.mergeRuns(ctx, s.runs, f)
}

// fanIn returns the number of runs that are merged at a time: maxRuns, or fewer if pages of long
// rows exceed a quarter of the memory. Each run has a page in a buffer, its copy, and a part of
// what is returned.
func (s *Sorter) fanIn() int {
	return int(max(2, min(maxRuns, s.o.Memory/4/(3*int64(s.longest)+1))))
}

// mergeSome replaces n runs from number i on by one.
func (s *Sorter) mergeSome(ctx context.Context, i, n int) error {
	run := s.file.Chain()
	s.runs = append(s.runs, run) // for Close, if anything fails
	err := s.mergeRuns(ctx, s.runs[i:i+n], func(p []column.Column) error { return s.write(run, p) })
	if err == nil {
		err = run.Flush()
	}
	for _, c := range s.runs[i : i+n] {
		err = errors.Join(err, c.Free())
	}
	last := len(s.runs) - 1
	s.runs[i] = run
	s.runs = append(s.runs[:i+1], s.runs[i+n:last]...)
	return err
}

// cursor is a place in a run.
type cursor struct {
	s     *Sorter
	pages *spill.Reader
	at, n int             // row of the page; n 0: the run has ended
	page  int             // its number among those that a merger takes from
	all   []column.Column // the page
	each  int64           // bytes of a row of the page
	by    []column.Column // values of the keys
	codes [][]uint64      // of these
}

// next goes to the next row, and reports whether it is in another page.
func (c *cursor) next() (turned bool, err error) {
	if c.at++; c.at < c.n {
		return false, nil
	}
	c.at, c.n = 0, 0
	page, err := c.pages.Next()
	if err == io.EOF {
		return false, nil
	}
	if err == nil {
		c.all, err = spill.DecodePage(bytes.Clone(page)) // columns stay until rows are taken
	}
	if err != nil {
		return false, err
	}
	c.n, c.each = c.all[0].Len(), rowSize(c.all)
	for i, k := range c.s.o.Keys {
		c.by[i] = k.of(c.all)
		c.codes[i] = make([]uint64, c.n)
		encode(c.by[i], k.Descending, 0, 0, c.codes[i])
	}
	return true, nil
}

// less reports whether the row of a cursor comes before that of another, if the cursor's run does.
func (c *cursor) less(o *cursor, earlier bool) bool {
	if c.n == 0 || o.n == 0 {
		return c.n > 0
	}
	for i := range c.by {
		a, b := &c.by[i], &o.by[i]
		switch an, bn := a.Null(c.at), b.Null(o.at); {
		case an && bn:
			continue
		case an || bn:
			return bn
		}
		d := cmp.Compare(c.codes[i][c.at], o.codes[i][o.at])
		if d == 0 && a.Type() == column.Bytes {
			d = signOf(c.s.o.Keys[i].Descending) * bytes.Compare(a.Bytes(c.at), b.Bytes(o.at))
		}
		if d != 0 {
			return d < 0
		}
	}
	return earlier
}

// tree is a tree of losers: node n has the children 2n and 2n+1, and node len+i is cursor i. A
// node has the loser of a comparison of the least cursors of its children, and node 0 the least of
// all. A cursor that moves is compared once at each level.
type tree struct {
	cursors []*cursor
	nodes   []int
}

func newTree(cursors []*cursor) *tree {
	t := &tree{cursors, make([]int, len(cursors))}
	for i := range t.nodes {
		t.nodes[i] = -1
	}
	for i := range cursors {
		t.fix(i)
	}
	return t
}

// fix finds the least cursor after cursor i has moved.
func (t *tree) fix(i int) {
	for n := (len(t.cursors) + i) / 2; n > 0; n /= 2 {
		other := t.nodes[n]
		if other < 0 { // which comes here later
			t.nodes[n] = i
			return
		}
		if t.cursors[other].less(t.cursors[i], other < i) {
			i, t.nodes[n] = other, i
		}
	}
	t.nodes[0] = i
}

// merger collects rows of several runs.
type merger struct {
	s     *Sorter
	pages [][]column.Column // that rows are taken from
	rows  []place
	bytes int64 // of rows
	left  int   // rows of the result
}

// place is a row of a page.
type place struct{ page, row uint32 }

// hold lets rows be taken from the page of a cursor.
func (m *merger) hold(c *cursor) {
	c.page = len(m.pages)
	m.pages = append(m.pages, c.all)
}

// take returns the rows that were collected, and begins anew.
func (m *merger) take() ([]column.Column, error) {
	var pages [][]column.Column
	begin := make([]int, len(m.pages)) // of each page that has such rows, and 1 more; 0: none has
	total := 0
	rows := make([]uint32, len(m.rows))
	for i, p := range m.rows {
		if begin[p.page] == 0 {
			page := slices.Clone(m.pages[p.page]) // Join clears it
			pages, begin[p.page] = append(pages, page), total+1
			total += page[0].Len()
		}
		rows[i] = uint32(begin[p.page]-1) + p.row
	}
	columns, err := spill.Join(pages)
	if err != nil {
		return nil, err
	}
	m.pages, m.rows, m.bytes = nil, m.rows[:0], 0
	return spill.Take(m.s.dev, columns, rows), nil
}

// mergeRuns calls f with the rows of runs in order, some at a time.
func (s *Sorter) mergeRuns(ctx context.Context, runs []*spill.Chain,
	f func([]column.Column) error) error {
	m := &merger{s: s, left: s.o.Top}
	cursors := make([]*cursor, len(runs))
	for i, run := range runs {
		r, err := run.Reader()
		if err != nil {
			return err
		}
		defer r.Close()
		c := &cursor{s: s, pages: r, by: make([]column.Column, len(s.o.Keys)),
			codes: make([][]uint64, len(s.o.Keys))}
		if _, err := c.next(); err != nil {
			return err
		}
		cursors[i] = c
		m.hold(c)
	}
	return m.merge(ctx, newTree(cursors), f)
}

func (m *merger) merge(ctx context.Context, t *tree, f func([]column.Column) error) error {
	most := max(m.s.o.Memory/32, minPage)
	for {
		c := t.cursors[t.nodes[0]]
		done := c.n == 0 || m.s.o.Top > 0 && m.left == 0
		if len(m.rows) > 0 && (done || len(m.rows) == PageRows || m.bytes > most) {
			page, err := m.take()
			if err == nil {
				err = f(page)
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			for _, c := range t.cursors {
				if c.n > 0 {
					m.hold(c)
				}
			}
		}
		if done {
			return nil
		}
		m.rows = append(m.rows, place{uint32(c.page), uint32(c.at)})
		m.bytes += c.each
		m.left--
		turned, err := c.next()
		if err != nil {
			return err
		}
		if turned {
			m.hold(c)
		}
		t.fix(t.nodes[0])
	}
}
