package intern

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
)

// Merge adds the keys that another table has at the call, in the order of their ids there. It
// returns the id here of each: key i there has ids[i] here. So one lookup per row translates a
// column of the other's ids. The other table does not change, and may be on another device.
//
// A table of byte strings takes only byte strings, and one of rows only rows of its types. Others
// are [device.ErrInvalid]. A call that ends early returns a [weft.PartialError] with the number of
// keys, from the first on, that have their id. The others have not been added.
func (t *Table) Merge(ctx context.Context, other *Table) (ids []uint32, err error) {
	if t == other {
		return nil, partial("Merge", 0, fmt.Errorf("%w: a table cannot be merged with itself", device.ErrInvalid))
	}
	ids = make([]uint32, other.Len())
	for lo := 0; lo < len(ids); lo += chunkRows {
		hi := min(lo+chunkRows, len(ids))
		if err := t.mergeChunk(ctx, other, lo, ids[lo:hi]); err != nil {
			done := lo
			if p := (*op.PartialError)(nil); errors.As(err, &p) {
				done += p.Done
			}
			return ids, partial("Merge", done, err)
		}
	}
	return ids, nil
}

// mergeChunk adds the keys of another table from number lo on.
func (t *Table) mergeChunk(ctx context.Context, other *Table, lo int, ids []uint32) error {
	other.mu.RLock()
	if other.failed != nil {
		defer other.mu.RUnlock()
		return other.failed
	}
	kind, cols := other.kind, other.columns(lo, lo+len(ids))
	other.mu.RUnlock()
	var err error
	if kind == byteStrings {
		_, err = t.Column(ctx, cols[0], ids)
	} else { // rows may have no columns
		_, err = t.add(ctx, "Merge", rows, cols, len(ids), ids, func(s *scratch) chunkFunc { return t.rowChunks(s, cols) })
	}
	return err
}
