package intern

import (
	"context"
	"fmt"
	"math"

	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

const (
	// maxItems is how many keys have ids: those of 32 bits, but for the last.
	maxItems = math.MaxUint32
	// limitedRows are worked on at a time where memory may not do for all of them.
	limitedRows = 1 << 16
	// indexLoad, slotsPerLine: the index grows where more of its slots are in use, to twice its lines or more.
	indexLoad, slotsPerLine = 0.8, core.LineBytes / 16
	// clashBytes is about what an item takes in the map of clashes, beside its bytes.
	clashBytes = 64
)

// Memory is how many bytes the table takes up, on the device and on the host together.
func (t *Table) Memory(ctx context.Context) (int64, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r, err := t.room(ctx)
	if err != nil {
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
	room, err := t.room(ctx)
	if err != nil {
		return 0, err
	}
	if n := len(ids); room.limit == 0 && room.fits(n, 0) {
		return addItems(ctx, t, items, ids)
	} else if room.limit > 0 && room.fits(n, sizeOf(items, n)) {
		return addReserved(ctx, t, items, ids, n)
	}
	// Items that the table has need nothing.
	ids = ids[:min(len(ids), limitedRows)]
	found := resize(t.scratch.found, len(ids))
	t.scratch.found = found
	if _, err := findItems(ctx, t, items, ids, found, &t.scratch); err != nil {
		return 0, err
	}
	fresh, size := 0, 0
	for ; done < len(ids); done++ {
		if !found[done] {
			more := stored(items.at(done))
			if !room.fits(fresh+1, size+more) {
				break
			}
			fresh, size = fresh+1, size+more
		}
	}
	switch {
	case fresh > 0:
		return addReserved(ctx, t, items, ids[:done], fresh)
	case done > 0:
		return done, nil
	case t.Len() == maxItems:
		return 0, fmt.Errorf("%w: all %d ids have been given", op.ErrFull, uint32(maxItems))
	}
	return 0, fmt.Errorf("%w: another key of %d bytes might take more than MaxBytes, %d: %d keys take %d",
		op.ErrFull, len(items.at(0)), t.opts.MaxBytes, t.Len(), room.used)
}

// addReserved makes the index as large as room has reckoned, lest it grows by guesses, and in several
// steps, and gives ids to items of which so many are new.
func addReserved[S source](ctx context.Context, t *Table, items S, ids []uint32, fresh int) (done int, err error) {
	if err := t.index.Reserve(ctx, fresh); err != nil {
		return 0, err
	}
	return addItems(ctx, t, items, ids)
}

// sizeOf is how many bytes of the arena n items take, if all are new.
func sizeOf[S source](items S, n int) (size int) {
	for i := range n {
		size += stored(items.at(i))
	}
	return size
}

// room is what a table may grow by.
type room struct {
	keys  *keys
	have  int   // keys
	used  int64 // bytes
	limit int64
	slots int // of the index
}

// room reads what a table takes up.
func (t *Table) room(ctx context.Context) (room, error) {
	r := room{keys: t.keys, have: t.Len(), limit: t.opts.MaxBytes}
	index, err := t.index.Size(ctx)
	r.slots = (index - core.LinesBytes(0)) / core.LineBytes * slotsPerLine
	r.used = int64(index) + t.keys.bytes() + t.clashed
	return r, err
}

// fits reports whether there is room for n more keys whose bytes take size in the arena.
func (r *room) fits(n, size int) bool {
	if n > maxItems-r.have {
		return false
	}
	if r.limit == 0 {
		return true
	}
	index := int64(0)
	if have := r.slots / slotsPerLine; r.have+n > core.RoomIn(r.slots, indexLoad) {
		lines := int(float64(r.have+n)/indexLoad/slotsPerLine) + 2
		index = int64(core.LinesBytes(uint32(max(2*have, lines))))
	}
	return r.used+index+r.keys.growth(r.have, n, size) <= r.limit
}
