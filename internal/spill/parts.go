package spill

import (
	"errors"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
)

// MaxParts is the number of partitions in Parts.
const MaxParts = 64

// Parts holds rows in a file, with a chain for each partition.
type Parts struct {
	Chains [MaxParts]*Chain // nil if a partition has no rows
	Rows   [MaxParts]int
}

// Write appends rows that are ordered by partition, on all cores. Partition p has counts[p] rows.
func (x *Parts) Write(dev device.Host, f *File, page []column.Column, counts *[MaxParts]int) error {
	page, err := ExpandDictionaries(page, page[0].Len()/(4*MaxParts))
	if err != nil {
		return err
	}
	var begin [MaxParts]int
	at := 0
	for p, n := range counts {
		begin[p] = at
		at += n
		if n > 0 && x.Chains[p] == nil {
			x.Chains[p] = f.Chain()
		}
	}
	var errs [MaxParts]error
	dev.Parallel(MaxParts, 8, func(lo, hi int) {
		var buf []byte
		for p := lo; p < hi; p++ {
			if counts[p] == 0 {
				continue
			}
			buf = AppendPage(buf[:0], Slice(page, begin[p], begin[p]+counts[p]))
			errs[p] = x.Chains[p].Append(buf)
			x.Rows[p] += counts[p]
		}
	})
	return errors.Join(errs[:]...)
}

// Total returns the number of rows in all partitions.
func (x *Parts) Total() int {
	n := 0
	for _, rows := range x.Rows {
		n += rows
	}
	return n
}

// Flush flushes all chains. See [Chain.Flush].
func (x *Parts) Flush() error {
	for _, c := range x.Chains {
		if c != nil {
			if err := c.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Drop frees the rows of a partition.
func (x *Parts) Drop(p int) error {
	c := x.Chains[p]
	x.Chains[p], x.Rows[p] = nil, 0
	if c == nil {
		return nil
	}
	return c.Free()
}

// Free frees all rows.
func (x *Parts) Free() error {
	var err error
	for p := range x.Chains {
		err = errors.Join(err, x.Drop(p))
	}
	return err
}
