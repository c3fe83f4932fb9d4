package group

import (
	"context"
	"slices"

	"github.com/weftgo/weft/column"
)

// If nearly each row has a group of its own, a table combines nothing before it spills. Rows then
// go to the temporary file as they are. Partitions of them fit tables that are filled once.
const (
	// A full table with less than minCombined rows for each group sends the rows of directTables
	// such tables to the file. Then a table is filled again, as other rows may combine better.
	minCombined, directTables = 2, 16
)

// Kinds of pages in the temporary file. The kind is the last column.
const (
	kindStates = iota // of groups; see stateColumn
	kindRows          // as they were added
)

// kindColumn returns the column of a page's kind.
func kindColumn(kind uint8, n int) column.Column {
	kinds := make([]uint8, n)
	if kind != 0 {
		for i := range kinds {
			kinds[i] = kind
		}
	}
	return column.Of(kinds)
}

// pageKind returns the kind of a page.
func pageKind(page []column.Column) uint8 {
	return column.Values[uint8](page[len(page)-1])[0]
}

// flushFull flushes groups that fill their memory, and decides where the next rows go.
func (g *Groups) flushFull(ctx context.Context) error {
	s, groups := &g.spilled, g.held
	if s.added < minCombined*groups {
		s.direct = directTables * groups
	}
	return g.flush(ctx)
}

// directRows returns the number of rows of a piece that are written at a time: copies of them take
// a readShare of Memory.
func (g *Groups) directRows(p *piece) int {
	row := 1
	for _, t := range slices.Concat(p.l.keys, p.l.values) {
		row += t.Size()
	}
	return int(max(1, min(int64(g.spilled.page), g.opts.Memory/readShare/int64(row))))
}

// used returns the value columns of a piece for the file. Columns that aggregates do not read, and
// those that they count, get values that take no memory there.
func (p *piece) used() []column.Column {
	if p.l.merges {
		return p.values
	}
	values := make([]column.Column, len(p.values))
	for i := range values {
		values[i] = column.Of(make([]bool, p.n))
	}
	for _, x := range p.l.sources {
		if c := p.values[x.col]; len(x.slots) > 0 {
			values[x.col] = c
		} else if c.HasNulls() {
			values[x.col] = values[x.col].WithValid(c.Valid())
		}
	}
	return values
}

// addDirect appends a piece to the temporary file.
func (g *Groups) addDirect(p *piece) (added int, err error) {
	s, kind := &g.spilled, uint8(kindRows)
	if p.l == g.merging {
		kind = kindStates
	}
	if g.failed = g.write(kind, slices.Concat(p.keys, p.used())); g.failed != nil {
		return 0, g.failed
	}
	s.states, s.direct = s.states+p.n, s.direct-p.n
	g.n.Add(int64(p.n))
	return p.n, nil
}
