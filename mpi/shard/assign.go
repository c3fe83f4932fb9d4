package shard

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
)

// Assign looks up keys in a map of ids, and assigns the ids 0, 1, 2, … to absent keys, in the
// order of ranks, then of rows. All rows with the same key get one id. Assign writes the values of
// all keys to ids, and returns the number of new keys on all ranks.
//
// The next id is one more than the largest that Assign has assigned, or found in the map, since the
// map was made or cleared. If other calls may have stored values, the next Assign reads the whole
// map to find it. No two keys get the same id, and no id is skipped, even if some keys exceed the
// capacity. Such keys get 0 in ids. If fewer ids than new keys remain, none of the new keys is
// inserted, and the error is [weft.ErrFull]. Maps with float values return device.ErrInvalid.
func (m *Map[K, V]) Assign(ctx context.Context, keys []K, ids []V) (inserted int, err error) {
	if m.r.size == 1 {
		return m.local.Assign(ctx, keys, ids)
	}
	x := m.open(methodAssign)
	defer x.close()
	x.mustMatch(len(keys), len(ids))
	begin(ctx, x, keys, combineFirst, false)
	a := &assignment[K, V]{m: m, x: x, keys: sendColumn(x, keysOut, keys)}
	a.vals, a.found = buffer[V](x, answersOut, x.receivedSum), buffer[bool](x, flagsOut, x.receivedSum)
	x.apply(ctx, func(ctx context.Context) (int, error) { return 0, a.find(ctx) })
	if x.err == nil {
		a.number(context.WithoutCancel(ctx))
	}
	if x.answersUndefined() {
		clear(a.vals)
	}
	returnAnswers(x, answersIn, a.vals, ids, false, 0)
	inserted, err = x.end()
	m.foreign = m.foreign && x.err != nil || err != nil
	return inserted, err
}

type assignment[K weft.Key, V weft.Value] struct {
	m *Map[K, V]
	x *exchange

	keys  []K    // received keys
	found []bool // received keys that have a value
	vals  []V    // answers to the received keys
	next  uint64 // larger than all ids in this shard

	rows   []int // indexes of received rows with absent keys
	absent []K   // absent[i] is the key of row rows[i]
	fresh  []bool
}

// find looks up the received keys and determines a.next.
func (a *assignment[K, V]) find(ctx context.Context) error {
	m := a.m
	if m.vals.Float() {
		return fmt.Errorf("%w: %v values cannot be ids", device.ErrInvalid, m.vals)
	}
	if a.next = m.nextID; m.foreign {
		for p, err := range m.local.Pages(ctx) {
			if err != nil {
				return err
			}
			for _, v := range p.Vals {
				if m.vals.Signed() && v < 0 {
					continue
				}
				a.next = max(a.next, min(uint64(v), idLimit[V]()-1)+1)
			}
		}
	}
	_, err := m.local.Get(ctx, a.keys, a.vals, a.found)
	return err
}

// idLimit returns a bound that exceeds all ids of type V.
func idLimit[V weft.Value]() uint64 {
	switch column.TypeOf[V]() {
	case column.Int32:
		return 1 << 31
	case column.Uint32:
		return 1 << 32
	}
	return 1 << 63
}

// number inserts the absent keys and assigns their ids. A rank with failed lookups takes part
// without rows.
func (a *assignment[K, V]) number(ctx context.Context) {
	x := a.x
	a.insert(ctx)
	marks := buffer[bool](x, flagsOut, x.receivedSum)
	clear(marks)
	for i, row := range a.rows {
		marks[row] = a.fresh[i]
	}
	own := x.localFlags()
	returnAnswers(x, flagsIn, marks, own, true, false)
	id, total := a.distribute(countTrue(own))
	if x.err != nil || total == 0 {
		return
	}
	if id == noID {
		a.withdraw(ctx, fmt.Errorf("%w: all ids below %d are in use", weft.ErrFull,
			idLimit[V]()))
		return
	}
	x.count = countTrue(a.fresh)
	ids := make([]V, x.n)
	for i, is := range own {
		if is {
			ids[i], id = V(id), id+1
		}
	}
	if given := sendColumn(x, valsOut, ids); x.err == nil {
		a.store(ctx, given)
	}
}

// insert inserts the absent keys with zero values, which store replaces.
func (a *assignment[K, V]) insert(ctx context.Context) {
	if a.x.failure != nil {
		return
	}
	for row, found := range a.found {
		if !found {
			a.rows, a.absent = append(a.rows, row), append(a.absent, a.keys[row])
		}
	}
	if len(a.rows) == 0 {
		return
	}
	a.fresh = make([]bool, len(a.rows))
	_, err := a.m.local.PutNew(ctx, a.absent, make([]V, len(a.absent)), a.fresh)
	a.fail(err)
}

// fail stores an error of a batch of absent keys in a.x.failure. It translates the rows of a
// PartialError to indexes of received rows.
func (a *assignment[K, V]) fail(err error) {
	p := (*weft.PartialError)(nil)
	if err == nil || !errors.As(err, &p) {
		a.x.failure = err
		return
	}
	var rows []int
	for _, i := range p.Rows {
		rows = append(rows, a.rows[i])
	}
	a.x.failure = partial(len(a.keys), append(rows, a.rows[p.Done:]...), p.Err)
}

func partial(done int, rows []int, err error) error {
	return &weft.PartialError{Done: done, Failed: len(rows), Rows: rows, Err: err}
}

// noID is the first id that distribute returns if fewer ids than keys remain.
const noID = math.MaxUint64

// distribute returns the first id for the keys of this rank, and the total number of new keys on
// all ranks.
func (a *assignment[K, V]) distribute(keys uint64) (first, total uint64) {
	if a.x.err != nil {
		return 0, 0
	}
	r := a.m.r
	all := make([]uint64, 2*r.size)
	if err := r.comm.AllGather(context.Background(), []uint64{keys, a.next}, all); err != nil {
		a.x.err = r.commError(err)
		return 0, 0
	}
	for i := range r.size {
		if i < r.rank {
			first += all[2*i]
		}
		total += all[2*i]
		a.m.nextID = max(a.m.nextID, all[2*i+1])
	}
	if total > idLimit[V]()-a.m.nextID {
		return noID, total
	}
	first += a.m.nextID
	a.m.nextID += total
	return first, total
}

// withdraw deletes the inserted keys, because they get no ids.
func (a *assignment[K, V]) withdraw(ctx context.Context, err error) {
	var keys []K
	for i, is := range a.fresh {
		if is {
			keys = append(keys, a.absent[i])
		}
	}
	_, derr := a.m.local.Delete(ctx, keys, nil)
	a.x.count, a.x.failure = 0, partial(len(a.keys), a.rows, errors.Join(err, cause(derr)))
}

// store stores the ids of the new keys, and answers all rows with absent keys.
func (a *assignment[K, V]) store(ctx context.Context, given []V) {
	if len(a.rows) == 0 {
		return
	}
	var keys []K
	var ids []V
	for i, is := range a.fresh {
		if is {
			keys, ids = append(keys, a.absent[i]), append(ids, given[a.rows[i]])
		}
	}
	if _, err := a.m.local.Put(ctx, keys, ids); err != nil {
		a.withdraw(ctx, err)
		return
	}
	ids = make([]V, len(a.absent))
	if _, err := a.m.local.Get(ctx, a.absent, ids, nil); err != nil {
		a.fail(err)
	}
	for i, row := range a.rows {
		a.vals[row] = ids[i]
	}
}

func countTrue(flags []bool) (n uint64) {
	for _, is := range flags {
		if is {
			n++
		}
	}
	return n
}
