package join

import (
	"context"
	"errors"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/rowkey"
	"github.com/weftgo/weft/internal/spill"
)

const (
	// spillParts is the number of partitions of a side. One that exceeds memory is partitioned
	// again, up to maxDepth times.
	spillParts = 64
	maxDepth   = 5
)

// partFiles are the rows of one side in the file, by partition.
type partFiles struct {
	chains [spillParts]*spill.Chain
	rows   [spillParts]int
}

// write appends rows that come partition by partition.
func (f *partFiles) write(dev device.Host, file *spill.File, columns []column.Column,
	counts [spillParts]int) error {
	var begin [spillParts]int
	at := 0
	for p, n := range counts {
		begin[p] = at
		at += n
		if n > 0 && f.chains[p] == nil {
			f.chains[p] = file.Chain()
		}
	}
	columns, err := plain(columns)
	if err != nil {
		return err
	}
	var errs [spillParts]error
	dev.Parallel(spillParts, 8, func(lo, hi int) {
		var buf []byte
		for p := lo; p < hi; p++ {
			if counts[p] == 0 {
				continue
			}
			buf = spill.AppendPage(buf[:0], sliceAll(columns, begin[p], begin[p]+counts[p]))
			errs[p] = f.chains[p].Append(buf)
			f.rows[p] += counts[p]
		}
	})
	return errors.Join(errs[:]...)
}

// plain returns columns without the dictionaries that are large, since each page has its own.
func plain(columns []column.Column) ([]column.Column, error) {
	for i, c := range columns {
		if _, dict := c.Codes(); dict.Len() > c.Len()/(4*spillParts) {
			columns = slices.Clone(columns)
			var err error
			if columns[i], err = column.Concat(c); err != nil {
				return nil, err
			}
		}
	}
	return columns, nil
}

func (f *partFiles) total() int {
	n := 0
	for _, rows := range f.rows {
		n += rows
	}
	return n
}

// flush writes what is in buffers, and returns these.
func (f *partFiles) flush() error {
	for _, c := range f.chains {
		if c != nil {
			if err := c.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// drop frees the rows of a partition.
func (f *partFiles) drop(p int) error {
	c := f.chains[p]
	f.chains[p], f.rows[p] = nil, 0
	if c == nil {
		return nil
	}
	return c.Free()
}

func (f *partFiles) free() error {
	var err error
	for p := range f.chains {
		err = errors.Join(err, f.drop(p))
	}
	return err
}

// eachBatch passes the rows of a chain to f, several pages at a time, since cores share large
// batches better. The rows are in a store, which is made if there is none.
func (j *job) eachBatch(ctx context.Context, c *spill.Chain, store **rowStore,
	f func([]column.Column) error) error {
	if c == nil {
		return nil
	}
	var decoder spill.Decoder
	pass := func() error {
		if (*store).n == 0 {
			return nil
		}
		err := f((*store).view())
		(*store).reset()
		return err
	}
	for page, err := range c.Pages() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		columns, err := decoder.Decode(page)
		if err != nil {
			return err
		}
		if *store == nil {
			*store = newRowStore(j.budget, rowkey.TypesOf(columns))
		}
		if (*store).bytes()+rowBytes(columns) > j.batch {
			if err := pass(); err != nil {
				return err
			}
		}
		if err := (*store).append(j.dev, columns); err != nil {
			return err
		}
	}
	if *store == nil {
		return nil
	}
	return pass()
}
