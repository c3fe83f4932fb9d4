package group

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
)

// sorted is a result in ascending order of its keys.
func sorted(ctx context.Context, dev device.Host, r *Result) (*Result, error) {
	perm := make([]uint32, r.Len())
	for i := range perm {
		perm[i] = uint32(i)
	}
	compare := make([]func(a, b int) int, len(r.Keys))
	for i, c := range r.Keys {
		compare[i] = comparison(c)
	}
	slices.SortFunc(perm, func(a, b uint32) int {
		for _, c := range compare {
			if o := c(int(a), int(b)); o != 0 {
				return o
			}
		}
		return 0
	})
	if err := ctx.Err(); err != nil {
		return nil, err
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

// comparison compares two values of a column.
func comparison(c column.Column) func(a, b int) int {
	if c.Type() == column.Bytes {
		return func(a, b int) int {
			if na, nb := c.Null(a), c.Null(b); na || nb {
				return order(na, nb)
			}
			return bytes.Compare(c.Bytes(a), c.Bytes(b))
		}
	}
	codes := make([]uint64, c.Len())
	pack(codes, c, 0, 0)
	return func(a, b int) int {
		if na, nb := c.Null(a), c.Null(b); na || nb {
			return order(na, nb)
		}
		return cmp.Compare(codes[a], codes[b])
	}
}

// order of two values of which one or both are null.
func order(a, b bool) int {
	switch {
	case a && b:
		return 0
	case a:
		return 1
	}
	return -1
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
