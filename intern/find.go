package intern

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/number"
)

// FindStrings looks up the strings of a batch without adding any, and returns the number of known
// strings. It writes the id of each string to ids, or 0 if the string is unknown. If found is not
// nil, FindStrings sets found[i] to whether string i is known. Lookups run concurrently. They wait
// at most for a million rows of a call that adds.
func (t *Table) FindStrings(ctx context.Context, s []string, ids []uint32, found []bool) (hits int, err error) {
	return t.find(ctx, "FindStrings", byteStrings, nil, len(s), ids, found, func(in *scratch) chunkFunc { return t.columnChunks(in, column.OfStrings(s)) })
}

// FindBytes looks up byte slices. See [Table.FindStrings] for the results.
func (t *Table) FindBytes(ctx context.Context, s [][]byte, ids []uint32, found []bool) (hits int, err error) {
	return t.find(ctx, "FindBytes", byteStrings, nil, len(s), ids, found, func(in *scratch) chunkFunc { return t.byteChunks(in, s) })
}

// FindColumn looks up the values of a column of byte strings in any form. If a value is null, it
// returns [device.ErrInvalid]. See [Table.FindStrings] for the results.
func (t *Table) FindColumn(ctx context.Context, c column.Column, ids []uint32, found []bool) (hits int, err error) {
	mustMatch("FindColumn", c.Len(), len(ids))
	if found != nil {
		mustMatch("FindColumn", c.Len(), len(found))
	}
	if err := checkColumn(c); err != nil {
		clear(ids)
		clear(found)
		return 0, partial("FindColumn", 0, err)
	}
	if distinct := distinctCodes([]column.Column{c}); distinct != nil {
		return distinct.find(t, "FindColumn", ids, found, func(cols []column.Column, ids []uint32, found []bool) (int, error) {
			return t.FindColumn(ctx, cols[0], ids, found)
		})
	}
	return t.find(ctx, "FindColumn", byteStrings, nil, c.Len(), ids, found, func(in *scratch) chunkFunc { return t.columnChunks(in, c) })
}

// FindRows looks up rows of columns (see [Table.Rows]). See [Table.FindStrings] for the results.
func (t *Table) FindRows(ctx context.Context, cols []column.Column, ids []uint32, found []bool) (hits int, err error) {
	n := mustEqualLen("FindRows", cols)
	if distinct := distinctCodes(cols); distinct != nil {
		mustMatch("FindRows", n, len(ids))
		return distinct.find(t, "FindRows", ids, found, func(cols []column.Column, ids []uint32, found []bool) (int, error) {
			return t.FindRows(ctx, cols, ids, found)
		})
	}
	return t.find(ctx, "FindRows", rows, cols, n, ids, found, func(in *scratch) chunkFunc { return t.rowChunks(in, cols) })
}

// find looks up the rows of a batch. open returns a function that reads them in chunks.
func (t *Table) find(ctx context.Context, method string, k kind, cols []column.Column, n int, ids []uint32, found []bool, open func(*scratch) chunkFunc) (hits int, err error) {
	mustMatch(method, n, len(ids))
	if found == nil {
		found = make([]bool, n)
	}
	mustMatch(method, n, len(found))
	s := new(scratch)
	done, known, err := 0, true, error(nil)
	if n == 0 {
		t.mu.RLock()
		err = t.readable()
		t.mu.RUnlock()
	}
	for next := open(s); done < n && err == nil && known; {
		var part, rows int
		part, rows, known, err = t.findChunk(ctx, k, cols, next, done, ids, found, s)
		hits, done = hits+part, done+rows
	}
	clear(ids[done:])
	clear(found[done:])
	return hits, partial(method, done, err)
}

// findChunk looks up a chunk of n rows from lo on. known is false if the table has no kind yet. It
// then has no keys, and no row is found.
func (t *Table) findChunk(ctx context.Context, k kind, cols []column.Column, next chunkFunc, lo int, ids []uint32, found []bool, s *scratch) (hits, n int, known bool, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	switch err := t.readable(); {
	case ctx.Err() != nil:
		return 0, 0, true, ctx.Err()
	case err != nil:
		return 0, 0, true, err
	case t.kind == undecided:
		_, err := codecOf(k, cols)
		return 0, 0, false, err
	case t.kind != k:
		return 0, 0, true, fmt.Errorf("%w: a table of %v cannot contain %v", device.ErrInvalid,
			t.kind, k)
	}
	if err := t.checkTypes(cols); err != nil {
		return 0, 0, true, err
	}
	c := next(lo)
	n = c.Len()
	ids, found = ids[lo:lo+n], found[lo:lo+n]
	if small, large, data := c.Offsets(); small != nil {
		hits, err = findItems(ctx, t, offsetItems[int32]{small, data}, ids, found, s)
	} else if large != nil {
		hits, err = findItems(ctx, t, offsetItems[int64]{large, data}, ids, found, s)
	} else if raw := c.Raw(); raw != nil {
		hits, err = findItems(ctx, t, wideItems{c.Width(), raw}, ids, found, s)
	} else {
		hits, err = findItems(ctx, t, stringItems(c.Strings()), ids, found, s)
	}
	if err != nil {
		return 0, 0, true, err
	}
	return hits, n, true, nil
}

// findItems looks up the numbers of items in the index, and compares the items with their keys.
func findItems[S source](ctx context.Context, t *Table, items S, ids []uint32, found []bool, s *scratch) (hits int, err error) {
	s.keys = resize(s.keys, len(ids))
	finder, ok := t.index.(number.Finder)
	if !ok {
		t.parallel(len(ids), func(lo, hi int) { hashAll(t, items, lo, s.keys[lo:hi]) })
		if err := t.index.Find(ctx, s.keys, ids, found); err != nil {
			return 0, err
		}
	}
	var sum atomic.Int64
	t.parallel(len(ids), func(lo, hi int) {
		if ok {
			hashAll(t, items, lo, s.keys[lo:hi])
			finder.FindHere(s.keys[lo:hi], ids[lo:hi], found[lo:hi])
		}
		sum.Add(int64(verifyFound(t, items, ids, found, s, lo, hi)))
	})
	return int(sum.Load()), nil
}
