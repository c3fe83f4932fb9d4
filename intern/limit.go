package intern

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/weftgo/weft/internal/op"
)

const (
	// maxItems is the maximum number of keys: all ids of 32 bits but the last.
	maxItems = math.MaxUint32
	// limitedRows is the number of rows to process at a time if memory may not suffice for all.
	limitedRows = 1 << 16
	// collisionOverhead is the approximate memory in bytes, besides its own bytes, of an item whose
	// hash belongs to another item.
	collisionOverhead = 64
	// A loaded table may exceed MaxBytes by 1/slackShare of it and minSlack bytes.
	slackShare, minSlack = 16, 64 << 10
)

// Memory returns the bytes of memory that the table takes, on the device and on the host together.
func (t *Table) Memory(ctx context.Context) (int64, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r, err := t.memoryUse(ctx)
	if err = errors.Join(t.failed, err); err != nil {
		return 0, fmt.Errorf("intern: Memory: %w", err)
	}
	return r.used, nil
}

// checkLimit returns an error if the empty table exceeds MaxBytes.
func (t *Table) checkLimit() error {
	r, err := t.memoryUse(context.Background())
	if err == nil && r.limit > 0 && r.used > r.limit {
		err = fmt.Errorf("%w: a table of Capacity %d takes %d bytes, more than MaxBytes, %d", op.ErrOptions, t.opts.Capacity, r.used, r.limit)
	}
	return err
}

// addPrefix gives ids to a prefix of a chunk of items for which ids and memory suffice.
func addPrefix[S source](ctx context.Context, t *Table, items S, ids []uint32) (done int, err error) {
	r, err := t.memoryUse(ctx)
	if err != nil {
		return 0, err
	}
	if n := len(ids); n <= maxItems-r.nKeys && (r.limit == 0 || r.fits(n, sizeOf(t.keys, items, n))) {
		return addItems(ctx, t, items, ids)
	}
	// Known items need no memory.
	ids = ids[:min(len(ids), limitedRows)]
	found := resize(t.scratch.found, len(ids))
	t.scratch.found = found
	if _, err := findItems(ctx, t, items, ids, found, &t.scratch); err != nil {
		return 0, err
	}
	done, fresh, err := fittingPrefix(ctx, t, items, found, r)
	switch {
	case err != nil:
		return 0, err
	case fresh > 0:
		// Without Reserve, the index would grow by estimates, and all its parts at the same time.
		if err := t.index.Reserve(ctx, t.scratch.keys[:done], found[:done], fresh); err != nil {
			return 0, err
		}
		return addItems(ctx, t, items, ids[:done])
	case done > 0:
		return done, nil
	case t.Len() == maxItems:
		return 0, fmt.Errorf("%w: all %d ids are in use", op.ErrFull, uint32(maxItems))
	}
	return 0, fmt.Errorf("%w: another key of %d bytes might take more than MaxBytes, %d: %d keys take %d",
		op.ErrFull, len(items.at(0)), t.opts.MaxBytes, r.nKeys, r.used)
}

// fittingPrefix returns the number of leading items that fit, and how many of them are new.
func fittingPrefix[S source](ctx context.Context, t *Table, items S, found []bool, r memoryUse) (done, fresh int, err error) {
	e, err := t.index.Estimate(ctx)
	if err != nil {
		return 0, 0, err
	}
	size := 0
	for ; done < len(found); done++ {
		if found[done] {
			continue
		}
		size += t.keys.arenaBytes(items.at(done))
		if fresh == maxItems-r.nKeys {
			break
		}
		index := e.With(t.scratch.keys[done])
		if r.limit > 0 && r.used-r.index+index+t.keys.growth(r.nKeys, fresh+1, size) > r.limit {
			break
		}
		fresh++
	}
	return done, fresh, nil
}

// sizeOf returns the bytes that n items take in the arena if all are new.
func sizeOf[S source](k *keys, items S, n int) (size int) {
	if k.width > 0 {
		return 0
	}
	for i := range n {
		size += k.arenaBytes(items.at(i))
	}
	return size
}

// memoryUse is the memory of a table, and its limit.
type memoryUse struct {
	keys  *keys
	nKeys int   // number of keys
	index int64 // bytes of the index
	used  int64 // bytes, including the index
	limit int64
}

// withSlack runs f, which adds the keys of another table, with a higher limit. Under another seed,
// keys fill the parts of the index differently. In half of the cases the new table then needs more
// memory, up to 2% of 100 KB to 40 MB, and 25% of 45 KB. No other call may be active.
func (t *Table) withSlack(f func() error) error {
	if t.opts.MaxBytes > 0 {
		t.slack = t.opts.MaxBytes/slackShare + minSlack
		defer func() { t.slack = 0 }()
	}
	return f()
}

// memoryUse returns the memory of the table.
func (t *Table) memoryUse(ctx context.Context) (memoryUse, error) {
	index, err := t.index.Size(ctx)
	return memoryUse{t.keys, t.Len(), index, index + t.keys.bytes() + t.collisionBytes, t.opts.MaxBytes + t.slack}, err
}

// fits reports whether memory surely suffices for n more keys with size bytes in the arena. While
// an index grows, the old and the new index both exist. The new one may be larger than necessary by
// half or, on a GPU, by its own size. A slot takes 16 bytes.
func (r *memoryUse) fits(n, size int) bool {
	return r.used+2*r.index+64*int64(n)+r.keys.growth(r.nKeys, n, size) <= r.limit
}
