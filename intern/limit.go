package intern

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/weftgo/weft/internal/op"
)

const (
	// maxItems is how many keys have ids: those of 32 bits, but for the last.
	maxItems = math.MaxUint32
	// limitedRows are worked on at a time where memory may not do for all of them.
	limitedRows = 1 << 16
	// clashBytes is about what an item takes in the map of clashes, beside its bytes.
	clashBytes = 64
)

// Memory is how many bytes the table takes up, on the device and on the host together.
func (t *Table) Memory(ctx context.Context) (int64, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r, err := t.room(ctx)
	if err = errors.Join(t.failed, err); err != nil {
		return 0, fmt.Errorf("intern: Memory: %w", err)
	}
	return r.used, nil
}

// enough says whether MaxBytes allows the empty table.
func (t *Table) enough() error {
	r, err := t.room(context.Background())
	if err == nil && r.limit > 0 && r.used > r.limit {
		err = fmt.Errorf("%w: a table of Capacity %d takes %d bytes, more than MaxBytes, %d", op.ErrOptions, t.opts.Capacity, r.used, r.limit)
	}
	return err
}

// addSome gives ids to as many of a chunk of items as there are ids and memory for.
func addSome[S source](ctx context.Context, t *Table, items S, ids []uint32) (done int, err error) {
	r, err := t.room(ctx)
	if err != nil {
		return 0, err
	}
	if n := len(ids); n <= maxItems-r.have && (r.limit == 0 || r.plenty(n, sizeOf(t.keys, items, n))) {
		return addItems(ctx, t, items, ids)
	}
	// Items that the table has need nothing.
	ids = ids[:min(len(ids), limitedRows)]
	found := resize(t.scratch.found, len(ids))
	t.scratch.found = found
	if _, err := findItems(ctx, t, items, ids, found, &t.scratch); err != nil {
		return 0, err
	}
	done, fresh, err := prefix(ctx, t, items, found, r)
	switch {
	case err != nil:
		return 0, err
	case fresh > 0:
		// Lest the index grows by guesses, and its parts at the same time.
		if err := t.index.Reserve(ctx, t.scratch.keys[:done], found[:done], fresh); err != nil {
			return 0, err
		}
		return addItems(ctx, t, items, ids[:done])
	case done > 0:
		return done, nil
	case t.Len() == maxItems:
		return 0, fmt.Errorf("%w: all %d ids have been given", op.ErrFull, uint32(maxItems))
	}
	return 0, fmt.Errorf("%w: another key of %d bytes might take more than MaxBytes, %d: %d keys take %d",
		op.ErrFull, len(items.at(0)), r.limit, r.have, r.used)
}

// prefix is how many items there is room for, of which so many are fresh: not found.
func prefix[S source](ctx context.Context, t *Table, items S, found []bool, r room) (done, fresh int, err error) {
	e, err := t.index.Estimate(ctx)
	if err != nil {
		return 0, 0, err
	}
	size := 0
	for ; done < len(found); done++ {
		if found[done] {
			continue
		}
		size += t.keys.stored(items.at(done))
		if fresh == maxItems-r.have {
			break
		}
		index := e.With(t.scratch.keys[done])
		if r.limit > 0 && r.used-r.index+index+t.keys.growth(r.have, fresh+1, size) > r.limit {
			break
		}
		fresh++
	}
	return done, fresh, nil
}

// sizeOf is how many bytes of the arena n items take, if all are new.
func sizeOf[S source](k *keys, items S, n int) (size int) {
	if k.width > 0 {
		return 0
	}
	for i := range n {
		size += k.stored(items.at(i))
	}
	return size
}

// room is what a table takes up, and may.
type room struct {
	keys  *keys
	have  int   // keys
	index int64 // bytes
	used  int64 // with those of the index
	limit int64
}

// room reads what a table takes up.
func (t *Table) room(ctx context.Context) (room, error) {
	index, err := t.index.Size(ctx)
	return room{t.keys, t.Len(), index, index + t.keys.bytes() + t.clashed, t.opts.MaxBytes}, err
}

// plenty reports whether there is room for n more keys whose bytes take size in the arena, without a closer look: an index that
// grows is there twice, gets by half or, on a GPU, by its size larger than it must be, and has 16 bytes for a slot.
func (r *room) plenty(n, size int) bool {
	return r.used+2*r.index+64*int64(n)+r.keys.growth(r.have, n, size) <= r.limit
}
