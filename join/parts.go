package join

import (
	"context"
	"errors"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/rowkey"
	"github.com/weftgo/weft/internal/spill"
)

const (
	// spillParts is the number of partitions of a side. A partition that exceeds memory is
	// partitioned again, up to maxDepth times.
	spillParts = spill.MaxParts
	maxDepth   = 5
)

// visitBatches passes the rows of a chain to f. It collects several pages in store, because cores
// share large batches better. It allocates store first if necessary.
func (j *job) visitBatches(ctx context.Context, c *spill.Chain, store **spill.Store,
	f func([]column.Column) error) error {
	if c == nil {
		return nil
	}
	var decoder spill.Decoder
	flush := func() error {
		if (*store).Len() == 0 {
			return nil
		}
		err := f((*store).View())
		(*store).Reset()
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
			*store = spill.NewStore(j.budget, rowkey.TypesOf(columns))
		}
		if (*store).Bytes()+spill.Bytes(columns) > j.batchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		if err := (*store).Append(j.dev, columns); err != nil {
			return err
		}
	}
	if *store == nil {
		return nil
	}
	return flush()
}
