package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// ids holds the state of Assign for one table. The writer lock guards it.
type ids struct {
	nextID    uint64 // larger than all ids assigned
	nextStale bool   // the table may hold values larger than nextID
}

// Assign looks up the keys of a batch in host memory, and inserts absent keys with the next ids as
// values.
func (t *Table) Assign(ctx context.Context, method string, b *batch.Batch) (inserted int, err error) {
	b.MustMatch(t.Name, method)
	if t.Types.Val.Letter == 'f' {
		err := fmt.Errorf("%w: %v values cannot be ids", device.ErrInvalid, t.Types.Val)
		return 0, t.wrap(method, partial(b, 0, nil, err))
	}
	var done int
	var failed []int
	err = t.runDurable(ctx, false, func() (err error) {
		inserted, done, failed, err = t.runCounted(ctx, b, t.assign)
		return err
	})
	return inserted, t.wrap(method, partial(b, done, failed, err))
}

// assign implements Assign under the writer lock. It excludes readers while it inserts keys,
// because an id can still change: it depends on earlier keys that overflow or are duplicates.
func (t *Table) assign(ctx context.Context, b *batch.Batch) (done int, failed []int, err error) {
	if err := t.findNext(ctx); err != nil {
		return 0, nil, err
	}
	for done < b.N && err == nil {
		rest := b.Part(done, b.N)
		part := rest.Part(0, min(rest.N, ChunkOps))
		ran, overflowed, ferr := t.fetch(ctx, part, part.Columns[batch.Vals].Host, true, func(absent *batch.Batch) (done int, failed []int, err error) {
			return t.insertWithIDs(ctx, rest, absent)
		})
		done, failed, err = done+ran, appendRows(failed, done, overflowed), ferr
	}
	return done, failed, err
}

// insertWithIDs inserts the rows in absent with the next ids as values, as far as ids are left.
// absent holds the rows with absent keys among the first rows of b. If rows are not inserted, later
// rows get smaller ids, so that no gap remains.
func (t *Table) insertWithIDs(ctx context.Context, b, absent *batch.Batch) (done int, failed []int, err error) {
	limit := t.Types.Val.idLimit()
	absent = absent.Part(0, int(min(limit-t.nextID, uint64(absent.N))))
	if absent.N == 0 {
		return 0, nil, fmt.Errorf("%w: all ids below %d are in use", op.ErrFull, limit)
	}
	vals := absent.Columns[batch.Vals].Host
	for i := range absent.N {
		t.setID(vals, i, t.nextID+uint64(i))
	}
	done, failed, err = t.insert(ctx, b, absent)
	fresh := flaggedRows(absent, done, true)
	clear(vals)
	var moved []uint32
	for i, row := range fresh {
		t.setID(vals, int(row), t.nextID+uint64(i))
		if int(row) != i {
			moved = append(moved, row)
		}
	}
	t.nextID += uint64(len(fresh))
	remaining, merr := Rerun(context.WithoutCancel(ctx), t.Engine, t.storeBatch(absent.Gather(moved), op.Put))
	if len(remaining) > 0 && merr == nil {
		merr = op.ErrFull
	}
	if merr != nil {
		done, failed, err = 0, nil, errors.Join(err, merr) // ids larger than nextID may be stored
	}
	t.nextStale = err != nil // a failed insertion may have left larger ids
	return done, failed, err
}

func (t *Table) findNext(ctx context.Context) (err error) {
	if !t.nextStale {
		return nil
	}
	at, err := t.holdCurrent(ctx) // not a snapshot, because that would wait for the writer lock
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close()) }()
	limit := t.Types.Val.idLimit()
	err = t.pages(ctx, at, func(p *Page) bool {
		for i := range p.N {
			if v, ok := t.id(p.Vals.Host, i); ok {
				t.nextID = max(t.nextID, min(v, limit-1)+1)
			}
		}
		return true
	})
	t.nextStale = err != nil
	return err
}

// idLimit returns the smallest number that is larger than all ids of the type.
func (t Type) idLimit() uint64 {
	if t.Letter == 'u' && t.Bits == 32 {
		return 1 << 32
	}
	return 1 << (t.Bits - 1)
}

// id returns value i of a column. ok is false if the value is negative.
func (t *Table) id(vals []byte, i int) (id uint64, ok bool) {
	if v := t.Types.Val; v.Bits == 64 {
		id = batch.View[uint64](vals)[i]
	} else if id = uint64(batch.View[uint32](vals)[i]); v.Letter == 'i' {
		id = uint64(int32(id))
	}
	return id, t.Types.Val.Letter == 'u' || int64(id) >= 0
}

func (t *Table) setID(vals []byte, i int, id uint64) {
	if t.Types.Val.Bits == 64 {
		batch.View[uint64](vals)[i] = id
	} else {
		batch.View[uint32](vals)[i] = uint32(id)
	}
}
