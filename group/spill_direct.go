package group

import (
	"context"
	"slices"

	"github.com/weftgo/weft/column"
)

// If nearly each row has its own group, a table combines nothing before it spills. Rows then go to
// the temporary file as they are. Each partition of them fits a table, which is filled once.
const (
	// If a full table has fewer than minCombined rows per group, the next rows, as many as
	// directTables such tables hold, go to the file. Then a table is filled again, because later
	// rows may combine better.
	minCombined, directTables = 2, 16
)

// Kinds of pages in the temporary file. The last column of a page holds its kind.
const (
	kindStates = iota // states of groups; see stateColumn
	kindRows          // rows as they were added
)

func kindColumn(kind uint8, n int) column.Column {
	return column.Of(slices.Repeat([]uint8{kind}, n))
}

func pageKind(page []column.Column) uint8 {
	return column.Values[uint8](page[len(page)-1])[0]
}

// flushFull flushes groups that fill memory. It decides whether later rows go directly to the file.
func (g *Groups) flushFull(ctx context.Context) error {
	s, groups, added := &g.spilled, g.resident, g.spilled.nAdded
	if err := g.flush(ctx); err != nil {
		return err
	}
	if added < minCombined*groups {
		s.directLeft = directTables * groups
	}
	return nil
}

// directRows returns the number of rows of a piece to write at a time. Their copies take
// 1/readShare of Memory.
func (g *Groups) directRows(p *piece) int {
	limit := g.opts.Memory / readShare / int64(p.l.rowBytes())
	return int(max(1, min(int64(g.spilled.maxPage), limit)))
}

// rowBytes returns the bytes of a stored row without byte strings: the keys and the values that
// aggregates read.
func (l *layout) rowBytes() int {
	n := 1
	for _, t := range l.keys {
		n += t.Size()
	}
	if l.ofStates {
		for _, t := range l.values {
			n += t.Size()
		}
		return n
	}
	for _, x := range l.sources {
		n += max(1, x.typ.Size())
	}
	return n
}

// usedColumns returns the value columns of n rows that aggregates read, in the order of the
// sources. If aggregates only count the nulls of a column, its values become one byte each.
func (l *layout) usedColumns(values []column.Column, n int) []column.Column {
	if l.ofStates {
		return values
	}
	used := make([]column.Column, len(l.sources))
	for i, x := range l.sources {
		c := values[x.col]
		if used[i] = c; len(x.slots) > 0 {
			continue
		}
		if used[i] = column.Of(make([]bool, n)); c.HasNulls() {
			used[i] = used[i].WithValid(c.Valid())
		}
	}
	return used
}

// restoreColumns returns value columns of n rows from the columns that usedColumns has returned.
func (l *layout) restoreColumns(used []column.Column, n int) []column.Column {
	if l.ofStates {
		return used
	}
	nColumns, zeros := len(l.values), column.Of(make([]bool, n))
	if l.ordered {
		nColumns++
	}
	values := make([]column.Column, nColumns)
	for i := range values {
		values[i] = zeros
	}
	for i, x := range l.sources {
		values[x.col] = used[i]
	}
	return values
}

// addDirect appends a piece to the temporary file.
func (g *Groups) addDirect(p *piece) (added int, err error) {
	s, kind := &g.spilled, uint8(kindRows)
	if p.l == g.mergeLayout {
		kind = kindStates
	}
	n, err := g.writeRows(kind, slices.Concat(p.keys, p.l.usedColumns(p.values, p.n)))
	if g.failed = err; err != nil {
		return 0, err
	}
	s.nStates, s.directLeft = s.nStates+n, s.directLeft-p.n
	g.n.Add(int64(n))
	return p.n, nil
}
