package group

import (
	"context"
	"slices"

	"github.com/weftgo/weft/column"
)

// If nearly each row has a group of its own, a table combines nothing before it is spilled. Rows
// then go to the temporary file as they are: partitions of them fit tables that are filled once.
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

// addDirect appends a piece to the temporary file.
func (g *Groups) addDirect(p *piece) (added int, err error) {
	s, kind := &g.spilled, uint8(kindRows)
	if p.l == g.merging {
		kind = kindStates
	}
	if g.failed = g.write(kind, slices.Concat(p.keys, p.values)); g.failed != nil {
		return 0, g.failed
	}
	s.states, s.direct = s.states+p.n, s.direct-p.n
	g.n.Add(int64(p.n))
	return p.n, nil
}
