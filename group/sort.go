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
)

// sorted is a result in ascending order of its keys.
func sorted(ctx context.Context, dev device.Host, r *Result) (*Result, error) {
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
	for _, c := range slices.Backward(r.Keys) {
		var err error
		if perm, err = sortBy(ctx, dev, &sorter, c, perm); err != nil {
			return nil, err
		}
	}
	s := &Result{}
	for _, c := range r.Keys {
		s.Keys = append(s.Keys, take(dev, c, perm))
	}
	for _, c := range r.Values {
		s.Values = append(s.Values, take(dev, c, perm))
	}
	return s, ctx.Err()
}

// sortBy is rows by a column, those with one value in their order, those with null behind all others.
func sortBy(ctx context.Context, dev device.Host, sorter *cpu.Sorter[uint64], c column.Column, rows []uint32) ([]uint32, error) {
	codes := make([]uint64, len(rows))
	dev.Parallel(len(rows), grain, func(lo, hi int) {
		all := c.Slice(lo, hi)
		if c.Type() == column.Bytes {
			prefixes(codes[lo:hi], all)
		} else {
			pack(codes[lo:hi], all, 0, 0)
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
		sortRuns(dev, items, c, rows)
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

// prefixes are the first bytes of byte strings, in whose order strings ascend.
func prefixes(codes []uint64, c column.Column) {
	for i := range codes {
		var first [8]byte
		copy(first[:], c.Bytes(i))
		codes[i] = binary.BigEndian.Uint64(first[:])
	}
}

// sortRuns sorts those whose prefixes agree by all their bytes.
func sortRuns(dev device.Host, items []cpu.Item[uint64], c column.Column, rows []uint32) {
	var runs [][2]int
	for lo := 0; lo < len(items); {
		end := cpu.RunEnd(items, lo+1)
		if end > lo+1 {
			runs = append(runs, [2]int{lo, end})
		}
		lo = end
	}
	dev.Parallel(len(runs), max(1, len(runs)/(16*dev.Properties().Units)), func(lo, hi int) {
		for _, run := range runs[lo:hi] {
			slices.SortFunc(items[run[0]:run[1]], func(a, b cpu.Item[uint64]) int {
				return cmp.Or(bytes.Compare(c.Bytes(int(rows[a.Row])), c.Bytes(int(rows[b.Row]))), cmp.Compare(a.Row, b.Row))
			})
		}
	})
}

// grain is how many values are copied at a time.
const grain = 1 << 14

// take is the values of some rows of a column, in memory of their own.
func take(dev device.Host, c column.Column, rows []uint32) column.Column {
	if c.Type() == column.Bytes {
		texts := make([][]byte, len(rows))
		for i, row := range rows {
			texts[i] = c.Bytes(int(row))
		}
		return withNulls(joined(texts), c, rows)
	}
	return withNulls(taken(dev, c, rows), c, rows)
}

// withNulls gives a column of rows of another the nulls of these.
func withNulls(c, of column.Column, rows []uint32) column.Column {
	if !of.HasNulls() {
		return c
	}
	valid := make([]bool, len(rows))
	for i, row := range rows {
		valid[i] = !of.Null(int(row))
	}
	return c.WithValid(column.OfBools(valid))
}

func taken(dev device.Host, c column.Column, rows []uint32) column.Column {
	switch c.Type() {
	case column.Int8:
		return takeFixed[int8](dev, c, rows)
	case column.Int16:
		return takeFixed[int16](dev, c, rows)
	case column.Int32:
		return takeFixed[int32](dev, c, rows)
	case column.Int64:
		return takeFixed[int64](dev, c, rows)
	case column.Uint8:
		return takeFixed[uint8](dev, c, rows)
	case column.Uint16:
		return takeFixed[uint16](dev, c, rows)
	case column.Uint32:
		return takeFixed[uint32](dev, c, rows)
	case column.Uint64:
		return takeFixed[uint64](dev, c, rows)
	case column.Float32:
		return takeFixed[float32](dev, c, rows)
	case column.Float64:
		return takeFixed[float64](dev, c, rows)
	}
	return takeFixed[bool](dev, c, rows)
}

func takeFixed[T column.Fixed](dev device.Host, c column.Column, rows []uint32) column.Column {
	from, to := column.Values[T](c), make([]T, len(rows))
	dev.Parallel(len(rows), grain, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			to[i] = from[rows[i]]
		}
	})
	return column.Of(to)
}
