package extsort

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/rowkey"
)

// Key is a column by which rows are sorted.
//
// Nulls come last in both directions. NaN comes after other floats and before nulls, also in both
// directions. -0 equals 0. Byte strings are compared byte by byte, and false comes before true.
type Key struct {
	Column     int
	Descending bool

	// Transform, if set, returns the column to compare instead of its argument, with the same
	// length. It is called for arbitrary pages of rows, so the order of two values must not depend
	// on other values of the page. Calls are not concurrent.
	Transform func(column.Column) column.Column
}

// of returns the values to compare.
func (k Key) of(columns []column.Column) column.Column {
	c := columns[k.Column]
	if k.Transform != nil {
		return k.Transform(c)
	}
	return c
}

// Order returns the row numbers of columns in the order of keys. Rows with equal keys keep their
// order. Order uses all cores and 60 bytes per row. With 2^32 rows or more, it returns an error
// that wraps device.ErrInvalid.
func Order(ctx context.Context, dev device.Host, columns []column.Column, keys []Key) ([]uint32,
	error) {
	n := 0
	if len(columns) > 0 {
		n = columns[0].Len()
	}
	if uint64(n) > math.MaxUint32 {
		return nil, fmt.Errorf("%w: %d rows to sort, want fewer than 2^32", device.ErrInvalid, n)
	}
	perm := make([]uint32, n)
	for i := range perm {
		perm[i] = uint32(i)
	}
	if n == 0 {
		return perm, ctx.Err()
	}
	var sorter cpu.Sorter[uint64]
	if len(keys) > 1 { // if the values of the first key are distinct, other keys do not matter
		c := keys[0].of(columns)
		if c.Type() != column.Bytes && !c.HasNulls() {
			first, err := sortRows(ctx, dev, &sorter, c, keys[0].Descending, perm)
			if err != nil || allDistinct(dev, c, first) {
				return first, err
			}
		}
	}
	// Sort by the last key first, because each sort keeps the order of rows with equal values.
	for _, k := range slices.Backward(keys) {
		var err error
		if perm, err = sortRows(ctx, dev, &sorter, k.of(columns), k.Descending, perm); err != nil {
			return nil, err
		}
	}
	return perm, ctx.Err()
}

// sortRows returns rows sorted by column c. Rows with equal values keep their order.
func sortRows(ctx context.Context, dev device.Host, sorter *cpu.Sorter[uint64], c column.Column,
	descending bool, rows []uint32) ([]uint32, error) {
	codes, from := make([]uint64, len(rows)), 0
	if c.Type() == column.Bytes {
		from = commonPrefix(c)
	}
	dev.Parallel(len(rows), grain, func(lo, hi int) {
		encode(c, descending, lo, from, codes[lo:hi])
	})
	keys := make([]uint64, len(rows))
	dev.Parallel(len(rows), grain, func(lo, hi int) {
		for i, row := range rows[lo:hi] {
			keys[lo+i] = codes[row]
		}
	})
	items, err := sorter.Sort(ctx, dev, keys, 0)
	if err != nil {
		return nil, err
	}
	if c.Type() == column.Bytes {
		r := ranker{c, rows, descending}
		r.sort(dev, items, from+8)
	}
	sorted, nulls := make([]uint32, 0, len(rows)), []uint32(nil)
	for _, item := range items {
		if row := rows[item.Row]; c.Null(int(row)) {
			nulls = append(nulls, item.Row)
		} else {
			sorted = append(sorted, row)
		}
	}
	slices.Sort(nulls) // the values of nulls do not matter
	for _, at := range nulls {
		sorted = append(sorted, rows[at])
	}
	return sorted, nil
}

// allDistinct reports whether all values of c are distinct. rows must be sorted by c.
func allDistinct(dev device.Host, c column.Column, rows []uint32) bool {
	words := make([]uint64, len(rows))
	var same atomic.Bool
	dev.Parallel(len(rows), grain, func(lo, hi int) { rowkey.Ordered(c, lo, words[lo:hi]) })
	dev.Parallel(len(rows), grain, func(lo, hi int) {
		for i := max(lo, 1); i < hi && !same.Load(); i++ {
			if words[rows[i]] == words[rows[i-1]] {
				same.Store(true)
			}
		}
	})
	return !same.Load()
}

// encode writes words for the values of a column from row lo on. If two words differ, they have the
// order of their values. Words of nulls are undefined. The word of a byte string is its 8 bytes
// from index from on. All strings must agree before this index. Different strings may have equal
// words.
func encode(c column.Column, descending bool, lo, from int, words []uint64) {
	if c.Type() == column.Bytes {
		for i := range words {
			words[i] = prefix(c.Bytes(lo+i), from)
		}
	} else {
		rowkey.Ordered(c, lo, words)
	}
	if !descending {
		return
	}
	nan, floats := rowkey.NaN(c.Type())
	for i, word := range words {
		if words[i] = ^word; floats && word == nan {
			words[i] = math.MaxUint64 // last in both directions
		}
	}
}

// prefix returns the 8 bytes of v from byte number from on, with zeros after its end.
func prefix(v []byte, from int) uint64 {
	var next [8]byte
	if from < len(v) {
		copy(next[:], v[from:])
	}
	return binary.BigEndian.Uint64(next[:])
}

// commonPrefix returns the length of the longest common prefix of all values that are not null.
func commonPrefix(c column.Column) int {
	var same []byte
	found := false
	for i := range c.Len() {
		switch v := c.Bytes(i); {
		case c.Null(i):
		case !found:
			same, found = v, true
		default:
			n := 0
			for n < len(same) && n < len(v) && same[n] == v[n] {
				n++
			}
			same = same[:n]
		}
	}
	return len(same)
}

// ranker sorts byte strings that are already sorted by their first bytes.
type ranker struct {
	c          column.Column
	rows       []uint32
	descending bool
}

func (r *ranker) value(item cpu.Item[uint64]) []byte { return r.c.Bytes(int(r.rows[item.Row])) }

// sort sorts items on all cores. The items must already be sorted by their bytes before index from.
// The key of an item holds the last 8 of these bytes.
func (r *ranker) sort(dev device.Host, items []cpu.Item[uint64], from int) {
	runs := runsOf(items)
	grain := max(1, len(runs)/(16*dev.Properties().Units))
	dev.Parallel(len(runs), grain, func(lo, hi int) {
		for _, run := range runs[lo:hi] {
			r.sortRun(run, from)
		}
	})
}

// shortRun is the maximum number of byte strings that are compared as a whole.
const shortRun = 32

// sortRun sorts byte strings that agree in all bytes before byte number from. Bytes after the end
// of a string count as zeros.
func (r *ranker) sortRun(items []cpu.Item[uint64], from int) {
	longest := 0
	for _, item := range items {
		longest = max(longest, len(r.value(item)))
	}
	differ := false
	for ; !differ && longest > from && len(items) > shortRun; from += 8 {
		for i, item := range items {
			items[i].Key = prefix(r.value(item), from)
			if r.descending {
				items[i].Key = ^items[i].Key
			}
			differ = differ || items[i].Key != items[0].Key
		}
	}
	if !differ {
		sign := signOf(r.descending)
		slices.SortFunc(items, func(a, b cpu.Item[uint64]) int {
			return cmp.Or(sign*bytes.Compare(r.value(a), r.value(b)), cmp.Compare(a.Row, b.Row))
		})
		return
	}
	slices.SortFunc(items, func(a, b cpu.Item[uint64]) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Row, b.Row))
	})
	for _, run := range runsOf(items) {
		r.sortRun(run, from)
	}
}

// signOf returns -1 if descending is set and 1 otherwise, by which a comparison is multiplied.
func signOf(descending bool) int {
	if descending {
		return -1
	}
	return 1
}

// runsOf returns the sequences of at least two items with equal keys.
func runsOf(items []cpu.Item[uint64]) (runs [][]cpu.Item[uint64]) {
	for lo := 0; lo < len(items); {
		end := cpu.RunEnd(items, lo+1)
		if end > lo+1 {
			runs = append(runs, items[lo:end])
		}
		lo = end
	}
	return runs
}

// grain is the number of values that a core copies at a time.
const grain = 1 << 14
