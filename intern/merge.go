package intern

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
)

// Merge adds the keys that another table has at the call, in the order of their ids there. Key i of
// the other table has ids[i] in this table. A column of the other table's ids is thus translated by
// one lookup per row. The other table does not change, and may be on another device.
//
// A table of byte strings takes only byte strings, and a table of rows only rows of its types. For
// other keys, Merge returns [device.ErrInvalid]. If a call ends early, it returns a
// [weft.PartialError] with the number of leading keys that have an id. The others have not been
// added.
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
			return ids, t.wait(ctx, "Merge", ids, partial("Merge", done, err))
		}
	}
	return ids, t.wait(ctx, "Merge", ids, nil)
}

// mergeChunk adds the keys of the other table with ids from lo on.
func (t *Table) mergeChunk(ctx context.Context, other *Table, lo int, ids []uint32) error {
	other.mu.RLock()
	if err := other.readable(); err != nil {
		other.mu.RUnlock()
		return err
	}
	kind, cols := other.kind, other.columns(lo, lo+len(ids))
	other.mu.RUnlock()
	var err error
	if kind == byteStrings {
		_, err = t.addColumn(ctx, cols[0], ids)
	} else { // rows may have no columns
		_, err = t.add(ctx, "Merge", rows, cols, len(ids), ids, func(s *scratch) chunkFunc { return t.rowChunks(s, cols) })
	}
	return err
}
