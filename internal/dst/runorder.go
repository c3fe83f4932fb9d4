package dst

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// OrderedMap has the methods that programs call on ordered maps but not on other maps.
type OrderedMap[K weft.Key, V weft.Value] interface {
	seeker[K, V]
	DeleteRange(ctx context.Context, lo, hi []K, removed []uint32) (int, error)
	DeleteRangeOn(s *device.Stream, lo, hi device.Slice[K], removed device.Slice[uint32], n ...device.Slice[uint64]) error
	Snapshot(ctx context.Context) (*weft.Snapshot[K, V], error)
}

// seeker has the lookups that programs call on ordered maps and on snapshots.
type seeker[K weft.Key, V weft.Value] interface {
	All() iter.Seq2[K, V]
	Len() int
	Range(ctx context.Context, lo, hi []K, limit int, rows *weft.PairRows[K, V]) error
	RangeFirstOn(s *device.Stream, lo, hi device.Slice[K], limit int, counts device.Slice[uint32], keys device.Slice[K], vals device.Slice[V], hits ...device.Slice[uint64]) error
	Count(ctx context.Context, lo, hi []K, counts []uint32) (total int, err error)
	CountOn(s *device.Stream, lo, hi device.Slice[K], counts device.Slice[uint32]) error
}

// pendingRead is a range lookup or range deletion on the device with unread results.
type pendingRead struct {
	number int
	read   func() error
}

// heldSnapshot is an open snapshot. number is the number of the batch that took it.
type heldSnapshot[K weft.Key, V weft.Value] struct {
	of     *weft.Snapshot[K, V]
	number int
}

// orderedActions runs the actions that only ordered maps support. Only configurations made by
// [AtomicBatches] refer to it, so tests of other structures do not compile the actions.
type orderedActions interface {
	run(ctx context.Context, b batch) error
	closeSnapshots() error
}

type orderedRunner[K weft.Key, V weft.Value] struct {
	r         *runner[K, V]
	m         OrderedMap[K, V]
	snapshots []heldSnapshot[K, V]
}

// newOrderedRunner returns the orderedActions of a runner, or nil if the structure is no ordered
// map.
func newOrderedRunner[K weft.Key, V weft.Value](r *runner[K, V]) orderedActions {
	if u, ok := r.subject.(interface{ structure() any }); ok {
		if m, ok := u.structure().(OrderedMap[K, V]); ok {
			return &orderedRunner[K, V]{r: r, m: m}
		}
	}
	return nil
}

func (o *orderedRunner[K, V]) run(ctx context.Context, b batch) error {
	r := o.r
	m := o.m
	var lo, hi []uint64
	for i := 1; i < len(b.ops); i += 2 {
		lo, hi = append(lo, b.ops[i-1].Key), append(hi, b.ops[i].Key)
	}
	switch b.action {
	case rangeLookup:
		return o.submitLookup(m, b.stream, -1, lo, hi)
	case rangeLookupCall:
		return o.callLookup(ctx, m, -1, lo, hi)
	case rangeDelete:
		return o.submitDelete(m, b.stream, lo, hi)
	case rangeDeleteCall:
		return o.callDelete(ctx, m, lo, hi)
	case takeSnapshot:
		number := r.history.beginCall(false)
		s, err := m.Snapshot(ctx)
		if err == nil {
			o.snapshots = append(o.snapshots, heldSnapshot[K, V]{s, number})
		}
		return err
	}
	if len(o.snapshots) == 0 {
		return nil
	}
	i := b.to % len(o.snapshots)
	if s := o.snapshots[i]; b.action == readSnapshot {
		return errors.Join(o.submitLookup(s.of, b.stream, s.number, lo, hi), o.callLookup(ctx, s.of, s.number, lo, hi))
	}
	return o.closeSnapshot(i)
}

// closeSnapshot reads all pairs of snapshot i and closes it.
func (o *orderedRunner[K, V]) closeSnapshot(i int) error {
	r := o.r
	s := o.snapshots[i]
	n := s.of.Len()
	r.addView(s.number, s.number, "all pairs of a snapshot", pairsCheck(s.of.All()))
	r.addView(s.number, s.number, "Len of a snapshot", func(c contents) bool { return len(c) == n })
	o.snapshots = slices.Delete(o.snapshots, i, i+1)
	return s.of.Close()
}

func (o *orderedRunner[K, V]) closeSnapshots() (err error) {
	for _, s := range o.snapshots {
		err = errors.Join(err, s.of.Close())
	}
	o.snapshots = nil
	return err
}

// addView records a lookup. If at is not negative, the lookup sees the content directly before the
// batch with that number.
func (r *runner[K, V]) addView(number, at int, what string, matches func(contents) bool) {
	r.history.views = append(r.history.views, view{number, at, what, matches})
}

// maxFirst is the maximum number of pairs per range in a RangeFirst.
const maxFirst = 5

func (o *orderedRunner[K, V]) submitLookup(m seeker[K, V], stream, at int, lo, hi []uint64) error {
	r := o.r
	n := len(lo)
	if n == 0 {
		return nil
	}
	s, ctx := r.streams[stream], context.Background()
	loOn, e1 := device.Upload(s, typedColumn(lo, typed[K]))
	hiOn, e2 := device.Upload(s, typedColumn(hi, typed[K]))
	firsts, e3 := device.Upload(s, make([]uint32, n))
	counts, e4 := device.Upload(s, make([]uint32, n))
	keys, e5 := device.Upload(s, make([]K, maxFirst*n))
	vals, e6 := device.Upload(s, make([]V, maxFirst*n))
	if err := errors.Join(e1, e2, e3, e4, e5, e6); err != nil {
		return err
	}
	number := r.history.begin(stream, false)
	if err := m.RangeFirstOn(s, loOn, hiOn, maxFirst, firsts, keys, vals); err != nil {
		return err
	}
	second := r.history.begin(stream, false)
	if err := m.CountOn(s, loOn, hiOn, counts); err != nil {
		return err
	}
	r.pendingReads = append(r.pendingReads, pendingRead{second, func() error {
		first, all, k, v := make([]uint32, n), make([]uint32, n), make([]K, maxFirst*n), make([]V, maxFirst*n)
		err := errors.Join(firsts.CopyTo(ctx, s, first), counts.CopyTo(ctx, s, all), keys.CopyTo(ctx, s, k), vals.CopyTo(ctx, s, v))
		if i := slices.IndexFunc(first, func(n uint32) bool { return n > maxFirst }); i >= 0 {
			return fmt.Errorf("range %d has %d pairs in %d places", i, first[i], maxFirst)
		}
		r.addView(number, at, fmt.Sprintf("the first pairs of ranges %#x to %#x: %d, %#x: %#x", lo, hi, first, k, v), rangesCheck(lo, hi, maxFirst, func(i int) (keys, vals []uint64) {
			from, to := i*maxFirst, i*maxFirst+int(first[i])
			return numberColumn(k[from:to], keyNumber[K]), numberColumn(v[from:to], valNumber[V])
		}))
		r.addView(second, at, fmt.Sprintf("the number of pairs of ranges %#x to %#x: %d", lo, hi, all), countsCheck(lo, hi, all))
		return errors.Join(err, loOn.Free(), hiOn.Free(), firsts.Free(), counts.Free(), keys.Free(), vals.Free())
	}})
	return nil
}

// collectPending reads the results of range operations that the host has waited for.
func (r *runner[K, V]) collectPending() (err error) {
	r.pendingReads = slices.DeleteFunc(r.pendingReads, func(a pendingRead) bool {
		known := r.history.waited.has(a.number)
		if known {
			err = errors.Join(err, a.read())
		}
		return known
	})
	return err
}

func (o *orderedRunner[K, V]) callLookup(ctx context.Context, m seeker[K, V], at int, lo, hi []uint64) error {
	r := o.r
	if len(lo) == 0 {
		return nil
	}
	number := r.history.beginCall(false)
	var rows weft.PairRows[K, V]
	if err := m.Range(ctx, typedColumn(lo, typed[K]), typedColumn(hi, typed[K]), 0, &rows); err != nil {
		return err
	}
	if rows.Len() != len(lo) {
		return fmt.Errorf("%d rows of %d ranges", rows.Len(), len(lo))
	}
	r.addView(number, at, fmt.Sprintf("ranges %#x to %#x: %#x", lo, hi, rows), rangesCheck(lo, hi, 0, func(i int) (keys, vals []uint64) {
		k, v := rows.Row(i)
		return numberColumn(k, keyNumber[K]), numberColumn(v, valNumber[V])
	}))
	r.markLookupReturned(number, at)
	number = r.history.beginCall(false)
	counts := make([]uint32, len(lo))
	if _, err := m.Count(ctx, typedColumn(lo, typed[K]), typedColumn(hi, typed[K]), counts); err != nil {
		return err
	}
	r.addView(number, at, fmt.Sprintf("the number of pairs of ranges %#x to %#x: %d", lo, hi, counts), countsCheck(lo, hi, counts))
	r.markLookupReturned(number, at)
	return r.collect()
}

// markLookupReturned records that a host lookup has returned, unless it reads a snapshot. A lookup
// in a snapshot does not wait for later changes.
func (r *runner[K, V]) markLookupReturned(number, at int) {
	if at < 0 {
		r.history.markReturned(number)
	}
}

func (o *orderedRunner[K, V]) submitDelete(m OrderedMap[K, V], stream int, lo, hi []uint64) error {
	r := o.r
	if len(lo) == 0 {
		return nil
	}
	s, ctx := r.streams[stream], context.Background()
	loOn, e1 := device.Upload(s, typedColumn(lo, typed[K]))
	hiOn, e2 := device.Upload(s, typedColumn(hi, typed[K]))
	counts, e3 := device.Upload(s, make([]uint32, len(lo)))
	if err := errors.Join(e1, e2, e3); err != nil {
		return err
	}
	number := r.history.begin(stream, true)
	if err := m.DeleteRangeOn(s, loOn, hiOn, counts); err != nil {
		return err
	}
	removed := r.addRemoval(number, lo, hi)
	r.pendingReads = append(r.pendingReads, pendingRead{number, func() error {
		return errors.Join(counts.CopyTo(ctx, s, removed.removed), loOn.Free(), hiOn.Free(), counts.Free())
	}})
	return nil
}

func (o *orderedRunner[K, V]) callDelete(ctx context.Context, m OrderedMap[K, V], lo, hi []uint64) error {
	r := o.r
	if len(lo) == 0 {
		return nil
	}
	number := r.history.beginCall(true)
	removed := r.addRemoval(number, lo, hi)
	if _, err := m.DeleteRange(ctx, typedColumn(lo, typed[K]), typedColumn(hi, typed[K]), removed.removed); err != nil {
		return err
	}
	r.history.markReturned(number)
	return r.collect()
}

// addRemoval records a batch of deleted ranges in the history.
func (r *runner[K, V]) addRemoval(number int, lo, hi []uint64) *addRemoval {
	if r.history.removals == nil {
		r.history.removals = map[int]*addRemoval{}
	}
	removed := &addRemoval{lo, hi, make([]uint32, len(lo))}
	r.history.removals[number] = removed
	return removed
}
