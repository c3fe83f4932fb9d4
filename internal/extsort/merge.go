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
	// maxRuns is the maximum number of runs that are merged at a time. Each run has a buffer of the
	// file.
	maxRuns = 64

	// A page of a run has at most runRows rows. The limit of memory also bounds its bytes, by a
	// bound between minPage and maxPage.
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
	bytes := min(max(s.opts.Memory/(16*maxRuns), minPage), maxPage)
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

// merge merges runs until at most s.fanIn() of them are left. Then it calls f with the rows of all
// runs, in order.
func (s *Sorter) merge(ctx context.Context, f func([]column.Column) error) error {
	for len(s.runs) > s.fanIn() {
		// Only adjacent runs are merged, so that equal rows stay in order.
		for i := 0; i < len(s.runs)-1 && len(s.runs) > s.fanIn(); i++ {
			n := min(s.fanIn(), len(s.runs)-s.fanIn()+1, len(s.runs)-i)
			if err := s.mergeNeighbors(ctx, i, n); err != nil {
				return err
			}
		}
	}
	return s.mergeRuns(ctx, s.runs, f)
}

// fanIn returns the number of runs that are merged at a time: maxRuns, or fewer if pages of long
// rows would exceed a quarter of the memory. Each run has a page in a buffer, a copy of the page,
// and a part of the result.
func (s *Sorter) fanIn() int {
	return int(max(2, min(maxRuns, s.opts.Memory/4/(3*int64(s.longest)+1))))
}

// mergeNeighbors replaces the n runs from run i on by one.
func (s *Sorter) mergeNeighbors(ctx context.Context, i, n int) error {
	run := s.file.Chain()
	s.runs = append(s.runs, run) // so that Close frees it after an error
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

// cursor is a position in a run.
type cursor struct {
	s          *Sorter
	pages      *spill.Reader
	at, n      int // row of the page and number of its rows; n is 0 at the end of the run
	pageIndex  int // index of page in merger.pages
	page       []column.Column
	rowBytes   int64           // mean bytes of a row of the page
	keyColumns []column.Column // values of the keys
	codes      [][]uint64      // codes of keyColumns
}

// next moves to the next row, and reports whether it is in another page.
func (c *cursor) next() (newPage bool, err error) {
	if c.at++; c.at < c.n {
		return false, nil
	}
	c.at, c.n = 0, 0
	page, err := c.pages.Next()
	if err == io.EOF {
		return false, nil
	}
	if err == nil {
		// a copy, because columns stay until rows are taken
		c.page, err = spill.DecodePage(bytes.Clone(page))
	}
	if err != nil {
		return false, err
	}
	c.n, c.rowBytes = c.page[0].Len(), rowSize(c.page)
	for i, k := range c.s.opts.Keys {
		c.keyColumns[i] = k.of(c.page)
		c.codes[i] = make([]uint64, c.n)
		encode(c.keyColumns[i], k.Descending, 0, 0, c.codes[i])
	}
	return true, nil
}

// less reports whether the row of c comes before the row of o. earlier says whether c's run comes
// first, which decides if the rows are equal.
func (c *cursor) less(o *cursor, earlier bool) bool {
	if c.n == 0 || o.n == 0 {
		return c.n > 0
	}
	for i := range c.keyColumns {
		a, b := &c.keyColumns[i], &o.keyColumns[i]
		switch an, bn := a.Null(c.at), b.Null(o.at); {
		case an && bn:
			continue
		case an || bn:
			return bn
		}
		d := cmp.Compare(c.codes[i][c.at], o.codes[i][o.at])
		if d == 0 && a.Type() == column.Bytes {
			d = signOf(c.s.opts.Keys[i].Descending) * bytes.Compare(a.Bytes(c.at), b.Bytes(o.at))
		}
		if d != 0 {
			return d < 0
		}
	}
	return earlier
}

// tree is a tree of losers. Node n has the children 2n and 2n+1, and node len+i is cursor i. The
// least cursors of two children are compared, and their parent stores the loser. Node 0 stores the
// least of all cursors. After a cursor moves, it is compared once per level.
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
		loser := t.nodes[n]
		if loser < 0 { // not compared yet
			t.nodes[n] = i
			return
		}
		if t.cursors[loser].less(t.cursors[i], loser < i) {
			i, t.nodes[n] = loser, i
		}
	}
	t.nodes[0] = i
}

// merger collects rows of several runs.
type merger struct {
	s         *Sorter
	pages     [][]column.Column // pages from which rows are taken
	rows      []place
	bytes     int64 // bytes of the collected rows
	remaining int   // rows of the result yet to collect
}

// place is a row of a page.
type place struct{ page, row uint32 }

// addPage adds the page of a cursor to m.pages.
func (m *merger) addPage(c *cursor) {
	c.pageIndex = len(m.pages)
	m.pages = append(m.pages, c.page)
}

// drain returns the collected rows, and removes them.
func (m *merger) drain() ([]column.Column, error) {
	var pages [][]column.Column
	// by page: its first row in the joined pages plus 1; 0: no row is taken
	begin := make([]int, len(m.pages))
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

// mergeRuns merges runs, and calls f with their rows in order, page by page.
func (s *Sorter) mergeRuns(ctx context.Context, runs []*spill.Chain,
	f func([]column.Column) error) error {
	m := &merger{s: s, remaining: s.opts.Top}
	cursors := make([]*cursor, len(runs))
	for i, run := range runs {
		r, err := run.Reader()
		if err != nil {
			return err
		}
		defer r.Close()
		c := &cursor{s: s, pages: r, keyColumns: make([]column.Column, len(s.opts.Keys)),
			codes: make([][]uint64, len(s.opts.Keys))}
		if _, err := c.next(); err != nil {
			return err
		}
		cursors[i] = c
		m.addPage(c)
	}
	return m.merge(ctx, newTree(cursors), f)
}

func (m *merger) merge(ctx context.Context, t *tree, f func([]column.Column) error) error {
	maxBytes := max(m.s.opts.Memory/32, minPage)
	for {
		c := t.cursors[t.nodes[0]]
		done := c.n == 0 || m.s.opts.Top > 0 && m.remaining == 0
		if len(m.rows) > 0 && (done || len(m.rows) == PageRows || m.bytes > maxBytes) {
			page, err := m.drain()
			if err == nil {
				err = f(page)
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			for _, c := range t.cursors {
				if c.n > 0 {
					m.addPage(c)
				}
			}
		}
		if done {
			return nil
		}
		m.rows = append(m.rows, place{uint32(c.pageIndex), uint32(c.at)})
		m.bytes += c.rowBytes
		m.remaining--
		newPage, err := c.next()
		if err != nil {
			return err
		}
		if newPage {
			m.addPage(c)
		}
		t.fix(t.nodes[0])
	}
}
