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

// OrderedMap has the methods of an ordered map that programs call in addition to those of a map.
type OrderedMap[K weft.Key, V weft.Value] interface {
	seeker[K, V]
	DeleteRange(ctx context.Context, lo, hi []K, removed []uint32) (int, error)
	DeleteRangeOn(s *device.Stream, lo, hi device.Slice[K], removed device.Slice[uint32], n ...device.Slice[uint64]) error
	Snapshot(ctx context.Context) (*weft.Snapshot[K, V], error)
}

// seeker has the methods that an ordered map and its snapshots share.
type seeker[K weft.Key, V weft.Value] interface {
	All() iter.Seq2[K, V]
	Len() int
	Range(ctx context.Context, lo, hi []K, limit int, rows *weft.PairRows[K, V]) error
	RangeFirstOn(s *device.Stream, lo, hi device.Slice[K], limit int, counts device.Slice[uint32], keys device.Slice[K], vals device.Slice[V], hits ...device.Slice[uint64]) error
	Count(ctx context.Context, lo, hi []K, counts []uint32) (total int, err error)
	CountOn(s *device.Stream, lo, hi device.Slice[K], counts device.Slice[uint32]) error
}

// asked is a range lookup or deletion on the device with unread results.
type asked struct {
	number int
	read   func() error
}

// held is a snapshot, taken as batch number.
type held[K weft.Key, V weft.Value] struct {
	of     *weft.Snapshot[K, V]
	number int
}

// orders runs the actions that only ordered maps support. Configurations reference it ([ByBatch]),
// so tests of other structures do not compile it.
type orders interface {
	byOrder(ctx context.Context, b batch) error
	dropAll() error
}

// orderly implements orders for a runner.
type orderly[K weft.Key, V weft.Value] struct {
	r    *runner[K, V]
	m    OrderedMap[K, V]
	held []held[K, V]
}

// newOrders returns nil unless the structure is an ordered map.
func newOrders[K weft.Key, V weft.Value](r *runner[K, V]) orders {
	if u, ok := r.subject.(interface{ under() any }); ok {
		if m, ok := u.under().(OrderedMap[K, V]); ok {
			return &orderly[K, V]{r: r, m: m}
		}
	}
	return nil
}

func (o *orderly[K, V]) byOrder(ctx context.Context, b batch) error {
	r := o.r
	m := o.m
	var lo, hi []uint64
	for i := 1; i < len(b.ops); i += 2 {
		lo, hi = append(lo, b.ops[i-1].Key), append(hi, b.ops[i].Key)
	}
	switch b.do {
	case ask:
		return o.ask(m, b.stream, -1, lo, hi)
	case askCall:
		return o.askCall(ctx, m, -1, lo, hi)
	case cut:
		return o.cut(m, b.stream, lo, hi)
	case cutCall:
		return o.cutCall(ctx, m, lo, hi)
	case hold:
		number := r.history.beginCall(false)
		s, err := m.Snapshot(ctx)
		if err == nil {
			o.held = append(o.held, held[K, V]{s, number})
		}
		return err
	}
	if len(o.held) == 0 {
		return nil
	}
	i := b.to % len(o.held)
	if s := o.held[i]; b.do == reread {
		return errors.Join(o.ask(s.of, b.stream, s.number, lo, hi), o.askCall(ctx, s.of, s.number, lo, hi))
	}
	return o.drop(i)
}

// drop closes a snapshot after reading all of it.
func (o *orderly[K, V]) drop(i int) error {
	r := o.r
	s := o.held[i]
	n := s.of.Len()
	r.see(s.number, s.number, "all pairs of a snapshot", pairsSeen(s.of.All()))
	r.see(s.number, s.number, "Len of a snapshot", func(c content) bool { return len(c) == n })
	o.held = slices.Delete(o.held, i, i+1)
	return s.of.Close()
}

// dropAll closes the snapshots that are still open.
func (o *orderly[K, V]) dropAll() (err error) {
	for _, s := range o.held {
		err = errors.Join(err, s.of.Close())
	}
	o.held = nil
	return err
}

// see records a lookup, of the content before batch number at unless that is negative.
func (r *runner[K, V]) see(number, at int, what string, explains func(content) bool) {
	r.history.views = append(r.history.views, view{number, at, what, explains})
}

// places is the limit of pairs per range in lookups of first pairs.
const places = 5

// ask submits range lookups: the first pairs, and counts.
func (o *orderly[K, V]) ask(m seeker[K, V], stream, at int, lo, hi []uint64) error {
	r := o.r
	n := len(lo)
	if n == 0 {
		return nil
	}
	s, ctx := r.streams[stream], context.Background()
	loOn, e1 := device.Upload(s, typedIn(lo, typed[K]))
	hiOn, e2 := device.Upload(s, typedIn(hi, typed[K]))
	firsts, e3 := device.Upload(s, make([]uint32, n))
	counts, e4 := device.Upload(s, make([]uint32, n))
	keys, e5 := device.Upload(s, make([]K, places*n))
	vals, e6 := device.Upload(s, make([]V, places*n))
	if err := errors.Join(e1, e2, e3, e4, e5, e6); err != nil {
		return err
	}
	number := r.history.begin(stream, false)
	if err := m.RangeFirstOn(s, loOn, hiOn, places, firsts, keys, vals); err != nil {
		return err
	}
	second := r.history.begin(stream, false)
	if err := m.CountOn(s, loOn, hiOn, counts); err != nil {
		return err
	}
	r.asked = append(r.asked, asked{second, func() error {
		first, all, k, v := make([]uint32, n), make([]uint32, n), make([]K, places*n), make([]V, places*n)
		err := errors.Join(firsts.CopyTo(ctx, s, first), counts.CopyTo(ctx, s, all), keys.CopyTo(ctx, s, k), vals.CopyTo(ctx, s, v))
		if i := slices.IndexFunc(first, func(n uint32) bool { return n > places }); i >= 0 {
			return fmt.Errorf("range %d has %d pairs in %d places", i, first[i], places)
		}
		r.see(number, at, fmt.Sprintf("the first pairs of ranges %#x to %#x: %d, %#x: %#x", lo, hi, first, k, v), rangesSeen(lo, hi, places, func(i int) (keys, vals []uint64) {
			from, to := i*places, i*places+int(first[i])
			return numbered(k[from:to], keyNumber[K]), numbered(v[from:to], valNumber[V])
		}))
		r.see(second, at, fmt.Sprintf("the number of pairs of ranges %#x to %#x: %d", lo, hi, all), countsSeen(lo, hi, all))
		return errors.Join(err, loOn.Free(), hiOn.Free(), firsts.Free(), counts.Free(), keys.Free(), vals.Free())
	}})
	return nil
}

// collectAsked reads the results of device lookups that the host has waited for.
func (r *runner[K, V]) collectAsked() (err error) {
	r.asked = slices.DeleteFunc(r.asked, func(a asked) bool {
		known := r.history.known.has(a.number)
		if known {
			err = errors.Join(err, a.read())
		}
		return known
	})
	return err
}

// askCall looks up all pairs of ranges, and their counts, on the host.
func (o *orderly[K, V]) askCall(ctx context.Context, m seeker[K, V], at int, lo, hi []uint64) error {
	r := o.r
	if len(lo) == 0 {
		return nil
	}
	number := r.history.beginCall(false)
	var rows weft.PairRows[K, V]
	if err := m.Range(ctx, typedIn(lo, typed[K]), typedIn(hi, typed[K]), 0, &rows); err != nil {
		return err
	}
	if rows.Len() != len(lo) {
		return fmt.Errorf("%d rows of %d ranges", rows.Len(), len(lo))
	}
	r.see(number, at, fmt.Sprintf("ranges %#x to %#x: %#x", lo, hi, rows), rangesSeen(lo, hi, 0, func(i int) (keys, vals []uint64) {
		k, v := rows.Row(i)
		return numbered(k, keyNumber[K]), numbered(v, valNumber[V])
	}))
	r.saw(number, at)
	number = r.history.beginCall(false)
	counts := make([]uint32, len(lo))
	if _, err := m.Count(ctx, typedIn(lo, typed[K]), typedIn(hi, typed[K]), counts); err != nil {
		return err
	}
	r.see(number, at, fmt.Sprintf("the number of pairs of ranges %#x to %#x: %d", lo, hi, counts), countsSeen(lo, hi, counts))
	r.saw(number, at)
	return r.collect()
}

// saw records that a host lookup has returned. A lookup of a snapshot waits for no later change.
func (r *runner[K, V]) saw(number, at int) {
	if at < 0 {
		r.history.returned(number)
	}
}

// cut submits deletions of ranges.
func (o *orderly[K, V]) cut(m OrderedMap[K, V], stream int, lo, hi []uint64) error {
	r := o.r
	if len(lo) == 0 {
		return nil
	}
	s, ctx := r.streams[stream], context.Background()
	loOn, e1 := device.Upload(s, typedIn(lo, typed[K]))
	hiOn, e2 := device.Upload(s, typedIn(hi, typed[K]))
	counts, e3 := device.Upload(s, make([]uint32, len(lo)))
	if err := errors.Join(e1, e2, e3); err != nil {
		return err
	}
	number := r.history.begin(stream, true)
	if err := m.DeleteRangeOn(s, loOn, hiOn, counts); err != nil {
		return err
	}
	gone := r.removal(number, lo, hi)
	r.asked = append(r.asked, asked{number, func() error {
		return errors.Join(counts.CopyTo(ctx, s, gone.removed), loOn.Free(), hiOn.Free(), counts.Free())
	}})
	return nil
}

// cutCall deletes ranges on the host.
func (o *orderly[K, V]) cutCall(ctx context.Context, m OrderedMap[K, V], lo, hi []uint64) error {
	r := o.r
	if len(lo) == 0 {
		return nil
	}
	number := r.history.beginCall(true)
	gone := r.removal(number, lo, hi)
	if _, err := m.DeleteRange(ctx, typedIn(lo, typed[K]), typedIn(hi, typed[K]), gone.removed); err != nil {
		return err
	}
	r.history.returned(number)
	return r.collect()
}

// removal records a batch of deleted ranges.
func (r *runner[K, V]) removal(number int, lo, hi []uint64) *removal {
	if r.history.cuts == nil {
		r.history.cuts = map[int]*removal{}
	}
	gone := &removal{lo, hi, make([]uint32, len(lo))}
	r.history.cuts[number] = gone
	return gone
}
