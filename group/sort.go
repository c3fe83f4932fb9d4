package group

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/rowkey"
)

// sorted returns a result in ascending order of columns, such as its keys.
func sorted(ctx context.Context, dev device.Host, r *Result, by []column.Column) (*Result, error) {
	if uint64(r.Len()) > math.MaxUint32 {
		return nil, fmt.Errorf("%w: %d groups to sort, which are more than 32-bit numbers", device.ErrInvalid, r.Len())
	}
	if r.Len() == 0 {
		return r, nil
	}
	perm := make([]uint32, r.Len())
	for i := range perm {
		perm[i] = uint32(i)
	}
	// The last key first: each sort leaves those that are equal in their order.
	var sorter cpu.Sorter[uint64]
	for _, c := range slices.Backward(by) {
		var err error
		if perm, err = sortBy(ctx, dev, &sorter, c, perm); err != nil {
			return nil, err
		}
	}
	s := &Result{}
	for _, c := range r.Keys {
		s.Keys = append(s.Keys, column.Take(dev, c, perm))
	}
	for _, c := range r.Values {
		s.Values = append(s.Values, column.Take(dev, c, perm))
	}
	return s, ctx.Err()
}

// sortBy is rows by a column, those with one value in their order, those with null behind all others.
func sortBy(ctx context.Context, dev device.Host, sorter *cpu.Sorter[uint64], c column.Column, rows []uint32) ([]uint32, error) {
	codes, from := make([]uint64, len(rows)), 0
	if c.Type() == column.Bytes {
		from = common(c)
	}
	dev.Parallel(len(rows), grain, func(lo, hi int) {
		if c.Type() != column.Bytes {
			rowkey.Ordered(c, lo, codes[lo:hi])
			return
		}
		for i := lo; i < hi; i++ {
			codes[i] = prefix(c.Bytes(i), from)
		}
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
		r := ranker{c, rows}
		r.sort(dev, items, from+8)
	}
	sorted, nulls := make([]uint32, 0, len(rows)), []uint32(nil)
	for _, it := range items {
		if row := rows[it.Row]; c.Null(int(row)) {
			nulls = append(nulls, it.Row)
		} else {
			sorted = append(sorted, row)
		}
	}
	slices.Sort(nulls) // whatever their values are
	for _, at := range nulls {
		sorted = append(sorted, rows[at])
	}
	return sorted, nil
}

// prefix is 8 bytes of a byte string from number from on, in whose order strings ascend that agree before; zeros where it ends.
func prefix(v []byte, from int) uint64 {
	var next [8]byte
	if from < len(v) {
		copy(next[:], v[from:])
	}
	return binary.BigEndian.Uint64(next[:])
}

// common is the number of bytes in which all byte strings of a column begin the same way, but for nulls.
func common(c column.Column) int {
	var same []byte
	some := false
	for i := range c.Len() {
		switch v := c.Bytes(i); {
		case c.Null(i):
		case !some:
			same, some = v, true
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

// ranker sorts byte strings of a column whose first bytes are sorted.
type ranker struct {
	c    column.Column
	rows []uint32
}

func (r *ranker) at(it cpu.Item[uint64]) []byte { return r.c.Bytes(int(r.rows[it.Row])) }

// sort sorts items whose keys are those bytes up to number from, on all cores.
func (r *ranker) sort(dev device.Host, items []cpu.Item[uint64], from int) {
	runs := runsOf(items)
	dev.Parallel(len(runs), max(1, len(runs)/(16*dev.Properties().Units)), func(lo, hi int) {
		for _, run := range runs[lo:hi] {
			r.sortRun(run, from)
		}
	})
}

// shortRun is as many byte strings as are compared as a whole.
const shortRun = 32

// sortRun sorts byte strings that agree up to number from, where zeros stand for the bytes behind their ends.
func (r *ranker) sortRun(items []cpu.Item[uint64], from int) {
	longest := 0
	for _, it := range items {
		longest = max(longest, len(r.at(it)))
	}
	differ := false
	for ; !differ && longest > from && len(items) > shortRun; from += 8 {
		for i, it := range items {
			items[i].Key = prefix(r.at(it), from)
			differ = differ || items[i].Key != items[0].Key
		}
	}
	if !differ {
		slices.SortFunc(items, func(a, b cpu.Item[uint64]) int {
			return cmp.Or(bytes.Compare(r.at(a), r.at(b)), cmp.Compare(a.Row, b.Row))
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

// runsOf are those of more than one item whose keys are equal.
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

// grain is how many values are copied at a time.
const grain = 1 << 14
