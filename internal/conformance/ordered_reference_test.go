package conformance

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Flaws of ordered maps.
const (
	rangesOpen           flaw = "the upper bound does not belong to a range"
	rangesReversed       flaw = "ranges whose bounds are in the wrong order have pairs"
	ordersBits           flaw = "keys are in the order of their bits"
	limitIgnored         flaw = "limits of ranges are ignored"
	limitOfAll           flaw = "the limit is of all ranges together"
	backwardCuts         flaw = "backward ranges with a limit have the first pairs, reversed"
	backwardUp           flaw = "backward iterations go up"
	rangesReplace        flaw = "Range drops the rows that are there"
	rangesLeave          flaw = "Range changes rows and then fails"
	firstPacks           flaw = "RangeFirst writes one range behind the other"
	countsSaturate       flaw = "Count counts no more than 255 pairs of a range"
	ranksItself          flaw = "Rank counts the key itself"
	selectsFromOne       flaw = "Select counts from one"
	selectsWraps         flaw = "Select looks at 32 bits"
	selectsStale         flaw = "Select leaves the outputs of places that there are not"
	successorSame        flaw = "Successor finds the key itself"
	predecessorSame      flaw = "Predecessor finds the key itself"
	successorMissesMax   flaw = "Successor does not find the largest key"
	minOfEmpty           flaw = "an empty map has a smallest key"
	deletesOpen          flaw = "DeleteRange leaves the upper bound"
	deletesTwice         flaw = "DeleteRange counts pairs for each of their ranges"
	deletesBackward      flaw = "DeleteRange counts pairs for the last of their ranges"
	buildsFirst          flaw = "the first of duplicates wins in Build"
	buildsAnew           flaw = "Build drops what is there"
	snapshotsMove        flaw = "snapshots show the map as it is"
	snapshotsTorn        flaw = "snapshots have values of before and behind a batch"
	snapshotsIgnoreClose flaw = "snapshots can be read behind Close"
	snapshotsOutlive     flaw = "snapshots can be read behind Close of their map"
	betweenSeesChanges   flaw = "Between shows what comes meanwhile"
	limitsUnchecked      flaw = "limits that make no sense are taken"
	onRangesOverflow     flaw = "RangeOn writes a key more than there is room for"
	onRangesShort        flaw = "RangeOn leaves the last offset"
)

// referenceSeeker has the lookups that a reference map and its snapshots share.
type referenceSeeker[K weft.Key, V weft.Value] struct {
	whole *referenceBase[K, V]
	pairs func(ctx context.Context) ([]K, []V, error) // returns all pairs in any order
}

func (r *referenceSeeker[K, V]) model(ctx context.Context) (*orderedModel[K, V], error) {
	keys, vals, err := r.pairs(ctx)
	if err != nil {
		return nil, &weft.PartialError{Err: err}
	}
	o := &orderedModel[K, V]{pairs: map[K]V{}}
	o.put(keys, vals)
	if r.whole.flaw == ordersBits {
		slices.SortFunc(o.keys, func(a, b K) int { return cmp.Compare(toBits(a), toBits(b)) })
	}
	return o, nil
}

func (r *referenceSeeker[K, V]) rangeOf(o *orderedModel[K, V], lo, hi K, limit int, backward bool) []K {
	f := r.whole.flaw
	if f == rangesReversed && lo > hi {
		lo, hi = hi, lo
	}
	var keys []K
	if f == ordersBits {
		for _, k := range o.keys {
			if toBits(lo) <= toBits(k) && toBits(k) <= toBits(hi) {
				keys = append(keys, k)
			}
		}
	} else {
		keys = o.keysBetween(lo, hi, 0, false)
	}
	if n := len(keys); f == rangesOpen && n > 0 && keys[n-1] == hi {
		keys = keys[:n-1]
	}
	if f == backwardCuts && limit > 0 {
		keys = keys[:min(limit, len(keys))]
	}
	if backward {
		slices.Reverse(keys)
	}
	if limit > 0 && f != limitIgnored {
		keys = keys[:min(limit, len(keys))]
	}
	return keys
}

func (r *referenceSeeker[K, V]) Range(ctx context.Context, lo, hi []K, limit int, rows *weft.PairRows[K, V]) error {
	return r.rangeInto(ctx, lo, hi, limit, false, rows)
}

func (r *referenceSeeker[K, V]) RangeBackward(ctx context.Context, lo, hi []K, limit int, rows *weft.PairRows[K, V]) error {
	return r.rangeInto(ctx, lo, hi, limit, true, rows)
}

func (r *referenceSeeker[K, V]) rangeInto(ctx context.Context, lo, hi []K, limit int, backward bool, rows *weft.PairRows[K, V]) error {
	r.whole.match(len(lo), len(hi))
	if limit < 0 && r.whole.flaw != limitsUnchecked {
		return device.ErrInvalid
	}
	if r.whole.flaw == rangesReplace || r.whole.flaw == rangesLeave {
		rows.Reset()
	}
	o, err := r.model(ctx)
	if err != nil {
		return err
	}
	if len(rows.Offsets) == 0 {
		rows.Offsets = append(rows.Offsets, 0)
	}
	for i, k := range lo[:min(len(lo), len(hi))] {
		left := limit
		if r.whole.flaw == limitOfAll && limit > 0 {
			left = max(1, limit-len(rows.Keys))
		}
		o.appendRow(rows, r.rangeOf(o, k, hi[i], left, backward))
	}
	return nil
}

func (r *referenceSeeker[K, V]) RangeFirst(ctx context.Context, lo, hi []K, limit int, counts []uint32, keys []K, vals []V) (int, error) {
	return r.rangesOf(ctx, lo, hi, limit, false, counts, keys, vals)
}

func (r *referenceSeeker[K, V]) RangeLast(ctx context.Context, lo, hi []K, limit int, counts []uint32, keys []K, vals []V) (int, error) {
	return r.rangesOf(ctx, lo, hi, limit, true, counts, keys, vals)
}

func (r *referenceSeeker[K, V]) rangesOf(ctx context.Context, lo, hi []K, limit int, backward bool, counts []uint32, keys []K, vals []V) (int, error) {
	if limit < 1 {
		if r.whole.flaw == limitsUnchecked {
			return 0, nil
		}
		return 0, device.ErrInvalid
	}
	r.whole.match(len(lo), len(hi), len(counts))
	r.whole.match(len(lo), len(keys)/limit, len(vals)/limit)
	r.whole.match(0, len(keys)%limit, len(vals)%limit)
	o, err := r.model(ctx)
	if err != nil {
		return 0, err
	}
	if r.whole.flaw == skipsLengths {
		return 0, nil
	}
	hits := 0
	for i, k := range lo {
		found := r.rangeOf(o, k, hi[i], limit, backward)
		if found = found[:min(limit, len(found))]; r.whole.flaw == firstPacks && i > 0 && len(found) == 0 {
			i-- // the next range overwrites its elements
		}
		counts[i] = uint32(len(found))
		hits += btoi(len(found) > 0)
		for j, k := range found {
			keys[i*limit+j], vals[i*limit+j] = k, o.pairs[k]
		}
	}
	return hits, nil
}

func (r *referenceSeeker[K, V]) Count(ctx context.Context, lo, hi []K, counts []uint32) (total int, err error) {
	r.whole.match(len(lo), len(hi), optional(len(lo), counts))
	o, err := r.model(ctx)
	if err != nil {
		clear(counts)
		return 0, err
	}
	for i, k := range lo[:min(len(lo), len(hi))] {
		n := len(r.rangeOf(o, k, hi[i], 0, false))
		if r.whole.flaw == countsSaturate {
			n = min(n, 255)
		}
		if total += n; i < len(counts) {
			counts[i] = uint32(n)
		}
	}
	return total, nil
}

func (r *referenceSeeker[K, V]) Rank(ctx context.Context, keys []K, ranks []uint64) error {
	r.whole.match(len(keys), len(ranks))
	o, err := r.model(ctx)
	if err != nil {
		clear(ranks)
		return err
	}
	for i, k := range keys[:min(len(keys), len(ranks))] {
		ranks[i] = uint64(o.rank(k))
		if r.whole.flaw == ranksItself && o.pairs != nil {
			ranks[i] = uint64(o.upperBound(k))
		}
	}
	return nil
}

// find looks up the pairs with the ranks that place returns.
func (r *referenceSeeker[K, V]) find(ctx context.Context, n int, place func(o *orderedModel[K, V], i int) int, keys []K, vals []V, ok []bool) (hits int, err error) {
	r.whole.match(n, len(keys), optional(n, vals), optional(n, ok))
	o, err := r.model(ctx)
	if err != nil {
		return 0, err
	}
	for i := range min(n, len(keys)) {
		k, v, found := o.pairAt(place(o, i))
		hits += btoi(found)
		if !found && r.whole.flaw == selectsStale {
			continue
		}
		keys[i] = k
		if i < len(vals) {
			vals[i] = v
		}
		if i < len(ok) {
			ok[i] = found
		}
	}
	return hits, nil
}

func (r *referenceSeeker[K, V]) Select(ctx context.Context, ranks []uint64, keys []K, vals []V, ok []bool) (int, error) {
	return r.find(ctx, len(ranks), func(o *orderedModel[K, V], i int) int {
		at := ranks[i]
		switch r.whole.flaw {
		case selectsFromOne:
			at--
		case selectsWraps:
			at = uint64(uint32(at))
		}
		return int(min(at, uint64(len(o.keys))))
	}, keys, vals, ok)
}

func (r *referenceSeeker[K, V]) Successor(ctx context.Context, keys, next []K, vals []V, ok []bool) (int, error) {
	return r.find(ctx, len(keys), func(o *orderedModel[K, V], i int) int {
		at := o.upperBound(keys[i])
		switch {
		case r.whole.flaw == successorSame:
			at = o.rank(keys[i])
		case r.whole.flaw == successorMissesMax && at == len(o.keys)-1:
			at++
		}
		return at
	}, next, vals, ok)
}

func (r *referenceSeeker[K, V]) Predecessor(ctx context.Context, keys, previous []K, vals []V, ok []bool) (int, error) {
	return r.find(ctx, len(keys), func(o *orderedModel[K, V], i int) int {
		if r.whole.flaw == predecessorSame {
			return o.upperBound(keys[i]) - 1
		}
		return o.rank(keys[i]) - 1
	}, previous, vals, ok)
}

func (r *referenceSeeker[K, V]) Min(ctx context.Context) (k K, v V, ok bool, err error) {
	o, err := r.model(ctx)
	if err == nil {
		k, v, ok = o.pairAt(0)
	}
	return k, v, ok || r.whole.flaw == minOfEmpty, err
}

func (r *referenceSeeker[K, V]) Max(ctx context.Context) (k K, v V, ok bool, err error) {
	o, err := r.model(ctx)
	if err == nil {
		k, v, ok = o.pairAt(len(o.keys) - 1)
	}
	return k, v, ok, err
}

func (r *referenceSeeker[K, V]) Backward() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		o, err := r.model(context.Background())
		if err != nil {
			return
		}
		if r.whole.flaw != backwardUp {
			slices.Reverse(o.keys)
		}
		for _, k := range o.keys {
			if !yield(k, o.pairs[k]) {
				return
			}
		}
	}
}

func (r *referenceSeeker[K, V]) Between(ctx context.Context, lo, hi K) iter.Seq2[weft.Page[K, V], error] {
	return func(yield func(weft.Page[K, V], error) bool) {
		o, err := r.model(ctx)
		if err != nil {
			yield(weft.Page[K, V]{}, err)
			return
		}
		for keys := r.rangeOf(o, lo, hi, 0, false); len(keys) > 0; {
			p := weft.Page[K, V]{Keys: keys[:min(pageRows, len(keys))]}
			for _, k := range p.Keys {
				p.Vals = append(p.Vals, o.pairs[k])
			}
			if !yield(p, nil) {
				return
			}
			last := p.Keys[len(p.Keys)-1]
			if keys = keys[len(p.Keys):]; r.whole.flaw == betweenSeesChanges && last < hi {
				if o, err = r.model(ctx); err != nil {
					return
				}
				keys = r.rangeOf(o, last+1, hi, 0, false)
			}
		}
	}
}

// ---- batches on a CPU ------------------------------------------------------------

func (r *referenceSeeker[K, V]) RangeOn(s *device.Stream, lo, hi device.Slice[K], limit int, counts device.Slice[uint32], offsets device.Slice[uint64], keys device.Slice[K], vals device.Slice[V]) error {
	return r.rangeOn(s, lo, hi, limit, false, counts, offsets, keys, vals)
}

func (r *referenceSeeker[K, V]) RangeBackwardOn(s *device.Stream, lo, hi device.Slice[K], limit int, counts device.Slice[uint32], offsets device.Slice[uint64], keys device.Slice[K], vals device.Slice[V]) error {
	return r.rangeOn(s, lo, hi, limit, true, counts, offsets, keys, vals)
}

func (r *referenceSeeker[K, V]) rangeOn(s *device.Stream, lo, hi device.Slice[K], limit int, backward bool, counts device.Slice[uint32], offsets device.Slice[uint64], keys device.Slice[K], vals device.Slice[V]) error {
	places := []device.Device{lo.Device(), hi.Device(), counts.Device(), offsets.Device(), keys.Device(), vals.Device()}
	return r.whole.submit(s, nil, places, func() (int, error) {
		var rows weft.PairRows[K, V]
		if err := r.rangeInto(context.Background(), lo.Host(), hi.Host(), limit, backward, &rows); err != nil {
			return 0, err
		}
		capacity := keys.Len()
		if r.whole.flaw == onRangesOverflow && len(rows.Keys) > capacity {
			*(*K)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(keys.Host())), capacity*int(unsafe.Sizeof(rows.Keys[0])))) = rows.Keys[capacity]
		}
		copy(keys.Host(), rows.Keys)
		copy(vals.Host(), rows.Vals)
		if n := len(rows.Offsets); r.whole.flaw == onRangesShort && n > 1 {
			rows.Offsets = rows.Offsets[:n-1]
		}
		copy(offsets.Host(), rows.Offsets)
		for i := range counts.Host() {
			if i+1 < len(rows.Offsets) {
				counts.Host()[i] = uint32(rows.Offsets[i+1] - rows.Offsets[i])
			}
		}
		return 0, nil
	})
}

func (r *referenceSeeker[K, V]) RangeFirstOn(s *device.Stream, lo, hi device.Slice[K], limit int, counts device.Slice[uint32], keys device.Slice[K], vals device.Slice[V], n ...device.Slice[uint64]) error {
	return r.whole.submit(s, n, []device.Device{lo.Device(), hi.Device(), counts.Device(), keys.Device(), vals.Device()}, func() (int, error) {
		return r.RangeFirst(context.Background(), lo.Host(), hi.Host(), limit, counts.Host(), keys.Host(), vals.Host())
	})
}

func (r *referenceSeeker[K, V]) RangeLastOn(s *device.Stream, lo, hi device.Slice[K], limit int, counts device.Slice[uint32], keys device.Slice[K], vals device.Slice[V], n ...device.Slice[uint64]) error {
	return r.whole.submit(s, n, []device.Device{lo.Device(), hi.Device(), counts.Device(), keys.Device(), vals.Device()}, func() (int, error) {
		return r.RangeLast(context.Background(), lo.Host(), hi.Host(), limit, counts.Host(), keys.Host(), vals.Host())
	})
}

func (r *referenceSeeker[K, V]) CountOn(s *device.Stream, lo, hi device.Slice[K], counts device.Slice[uint32]) error {
	return r.whole.submit(s, nil, []device.Device{lo.Device(), hi.Device(), counts.Device()}, func() (int, error) {
		return r.Count(context.Background(), lo.Host(), hi.Host(), counts.Host())
	})
}

func (r *referenceSeeker[K, V]) RankOn(s *device.Stream, keys device.Slice[K], ranks device.Slice[uint64]) error {
	return r.whole.submit(s, nil, []device.Device{keys.Device(), ranks.Device()}, func() (int, error) {
		return 0, r.Rank(context.Background(), keys.Host(), ranks.Host())
	})
}

func (r *referenceSeeker[K, V]) SelectOn(s *device.Stream, ranks device.Slice[uint64], keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool], n ...device.Slice[uint64]) error {
	return r.whole.submit(s, n, []device.Device{ranks.Device(), keys.Device(), vals.Device(), ok.Device()}, func() (int, error) {
		return r.Select(context.Background(), ranks.Host(), keys.Host(), vals.Host(), output(r.whole.flaw, onSkipsFlags, ok, ok.Len()))
	})
}

func (r *referenceSeeker[K, V]) SuccessorOn(s *device.Stream, keys, next device.Slice[K], vals device.Slice[V], ok device.Slice[bool], n ...device.Slice[uint64]) error {
	return r.whole.submit(s, n, []device.Device{keys.Device(), next.Device(), vals.Device(), ok.Device()}, func() (int, error) {
		return r.Successor(context.Background(), keys.Host(), next.Host(), vals.Host(), ok.Host())
	})
}

func (r *referenceSeeker[K, V]) PredecessorOn(s *device.Stream, keys, previous device.Slice[K], vals device.Slice[V], ok device.Slice[bool], n ...device.Slice[uint64]) error {
	return r.whole.submit(s, n, []device.Device{keys.Device(), previous.Device(), vals.Device(), ok.Device()}, func() (int, error) {
		return r.Predecessor(context.Background(), keys.Host(), previous.Host(), vals.Host(), ok.Host())
	})
}

// ---- the map, and its snapshots -----------------------------------------------------

// referenceOrdered is a reference map that returns its pairs in order.
type referenceOrdered[K weft.Key, V weft.Value] struct {
	*reference[K, V]
	referenceSeeker[K, V]
}

func newReferenceOrdered[K weft.Key, V weft.Value](f flaw, dev device.Device) AnyOrderedMap[K, V] {
	m := &referenceOrdered[K, V]{reference: newReference[K, V](f, dev)}
	m.referenceSeeker = referenceSeeker[K, V]{&m.reference.referenceBase, m.reference.list}
	m.reference.referenceBase.pairs = m
	return m
}

func (m *referenceOrdered[K, V]) list(ctx context.Context) (keys []K, vals []V, err error) {
	m.mu.Lock()
	err = m.begin(ctx)
	m.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	o, err := m.model(ctx)
	if err != nil {
		return nil, nil, errors.Unwrap(err)
	}
	for _, k := range o.keys {
		vals = append(vals, o.pairs[k])
	}
	return o.keys, vals, nil
}

func (m *referenceOrdered[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		keys, vals, _ := m.list(context.Background())
		m.mu.Lock()
		change := m.change
		m.mu.Unlock()
		for i, k := range keys {
			m.mu.Lock()
			repeat := m.flaw == iteratesTwice && m.change != change && i == len(keys)-1
			closed := m.closed
			m.mu.Unlock()
			if closed {
				return
			}
			if !yield(k, vals[i]) || repeat && !yield(k, vals[i]) {
				m.endLoop()
				return
			}
		}
	}
}

func (m *referenceOrdered[K, V]) Build(ctx context.Context, keys []K, vals []V) (int, error) {
	m.match(len(keys), len(vals))
	if m.flaw == buildsAnew && len(keys) > 0 {
		if err := m.Clear(ctx); err != nil {
			return 0, err
		}
	}
	if m.flaw == buildsFirst {
		return m.PutNew(ctx, keys, vals, nil)
	}
	return m.Put(ctx, keys, vals)
}

func (m *referenceOrdered[K, V]) BuildOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], n ...device.Slice[uint64]) error {
	return m.submit(s, n, []device.Device{keys.Device(), vals.Device()}, func() (int, error) {
		return m.Build(context.Background(), keys.Host(), vals.Host())
	})
}

func (m *referenceOrdered[K, V]) DeleteRange(ctx context.Context, lo, hi []K, removed []uint32) (n int, err error) {
	m.match(len(lo), len(hi), optional(len(lo), removed))
	o, err := m.model(ctx)
	if err != nil {
		return 0, err
	}
	all := o.clone()
	for step := range min(len(lo), len(hi)) {
		i := step
		if m.flaw == deletesBackward {
			i = len(lo) - 1 - step
		}
		keys := m.rangeOf(o, lo[i], hi[i], 0, false)
		if m.flaw == deletesOpen && len(keys) > 0 && keys[len(keys)-1] == hi[i] {
			keys = keys[:len(keys)-1]
		}
		if i < len(removed) {
			removed[i] = uint32(len(keys))
			if m.flaw == deletesTwice {
				removed[i] = uint32(len(all.keysBetween(lo[i], hi[i], 0, false)))
			}
		}
		n += len(keys)
		o.remove(keys)
		if _, err := m.Delete(ctx, keys, nil); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (m *referenceOrdered[K, V]) DeleteRangeOn(s *device.Stream, lo, hi device.Slice[K], removed device.Slice[uint32], n ...device.Slice[uint64]) error {
	return m.submit(s, n, []device.Device{lo.Device(), hi.Device(), removed.Device()}, func() (int, error) {
		return m.DeleteRange(context.Background(), lo.Host(), hi.Host(), removed.Host())
	})
}

func (m *referenceOrdered[K, V]) Snapshot(ctx context.Context) (AnySeeker[K, V], error) {
	keys, vals, err := m.list(ctx)
	if err != nil {
		return nil, err
	}
	copied := newReferenceOrdered[K, V](m.flaw, m.dev).(*referenceOrdered[K, V])
	for i, k := range keys {
		copied.reference.pairs[k] = vals[i]
	}
	if m.flaw == snapshotsTorn && len(keys) > 0 {
		k := keys[len(keys)/2]
		for range 100 {
			m.mu.Lock()
			now := m.reference.pairs[k]
			m.pause()
			m.mu.Unlock()
			if now != vals[len(keys)/2] {
				copied.reference.pairs[k] = now
				break
			}
		}
	}
	at := &referenceSnapshot[K, V]{referenceOrdered: copied}
	at.referenceSeeker.pairs = func(ctx context.Context) ([]K, []V, error) {
		m.mu.Lock()
		closed := m.closed && m.flaw != snapshotsOutlive
		m.mu.Unlock()
		if closed {
			return nil, nil, weft.ErrClosed
		}
		if m.flaw == snapshotsMove {
			return m.reference.list(ctx)
		}
		return copied.reference.list(ctx)
	}
	return at, nil
}

type referenceSnapshot[K weft.Key, V weft.Value] struct{ *referenceOrdered[K, V] }

func (s *referenceSnapshot[K, V]) Close() error {
	if s.flaw == snapshotsIgnoreClose {
		return nil
	}
	return s.referenceOrdered.Close()
}

func (s *referenceSnapshot[K, V]) Len() int {
	keys, _, _ := s.referenceSeeker.pairs(context.Background())
	return len(keys)
}

func (s *referenceSnapshot[K, V]) Get(ctx context.Context, keys []K, vals []V, found []bool) (int, error) {
	if _, _, err := s.referenceSeeker.pairs(ctx); err != nil {
		return 0, err
	}
	return s.referenceOrdered.Get(ctx, keys, vals, found)
}

func (s *referenceSnapshot[K, V]) Contains(ctx context.Context, keys []K, found []bool) (int, error) {
	return s.Get(ctx, keys, make([]V, len(keys)), found)
}

// ---- the tests ------------------------------------------------------------------------

func TestOrderedReferencePasses(t *testing.T) {
	t.Run("uint32,float32", func(t *testing.T) {
		OrderedMap(t, openCPU(t), Slow, func(_ testing.TB, dev device.Device) AnyOrderedMap[uint32, float32] {
			return newReferenceOrdered[uint32, float32](none, dev)
		})
	})
	t.Run("int32,uint32", func(t *testing.T) {
		dev, open := openCPU(t), func(_ testing.TB, dev device.Device) AnyOrderedMap[int32, uint32] {
			return newReferenceOrdered[int32, uint32](none, dev)
		}
		p := orderedMapTarget(dev, Slow, open)
		run(t, p, seekCases(p))
	})
}

func TestFlawsOfOrderedMapsAreNoticed(t *testing.T) {
	for f, want := range map[flaw][]string{
		rangesOpen:           {"Seek", "SeekEveryKey", "SeekDense"},
		rangesReversed:       {"Seek", "DeleteRange"},
		ordersBits:           {"Seek", "SeekEveryKey", "Ascending", "Backward"},
		limitIgnored:         {"Seek", "RangeInto"},
		limitOfAll:           {"Seek"},
		backwardCuts:         {"Seek", "RangeCursor"},
		backwardUp:           {"Backward", "SeekEveryKey"},
		rangesReplace:        {"RangeInto"},
		rangesLeave:          {"RangeInto"},
		firstPacks:           {"Seek"},
		countsSaturate:       {"Seek"},
		ranksItself:          {"Seek", "SeekEveryKey"},
		selectsFromOne:       {"Seek"},
		selectsWraps:         {"Seek"},
		selectsStale:         {"Seek", "SeekEmpty"},
		successorSame:        {"Seek", "SeekNilOutputs"},
		predecessorSame:      {"Seek"},
		successorMissesMax:   {"SeekEveryKey"},
		minOfEmpty:           {"SeekEmpty"},
		deletesOpen:          {"DeleteRange", "SeekOnBehindChanges"},
		deletesTwice:         {"DeleteRangeOverlaps"},
		deletesBackward:      {"DeleteRangeOverlaps"},
		buildsFirst:          {"Build"},
		buildsAnew:           {"BuildAgain"},
		snapshotsMove:        {"Snapshot", "Snapshots"},
		snapshotsTorn:        {"SnapshotConcurrent"},
		snapshotsIgnoreClose: {"SnapshotCloses"},
		snapshotsOutlive:     {"SnapshotCloses"},
		betweenSeesChanges:   {"Between"},
		limitsUnchecked:      {"SeekLimits"},
		onRangesOverflow:     {"RangeOnRoom"},
		onRangesShort:        {"Seek", "RangeOnRoom"},
		skipsLengths:         {"SeekLengths"},
		ignoresContext:       {"SeekCancelled"},
		reopens:              {"SeekClosed"},
		onTakesOtherDevices:  {"SeekOnRefuses"},
		onIgnoresCount:       {"SeekOnBehindChanges", "Seek"},
		onSkipsFlags:         {"Seek"},
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			dev, open := openCPU(t), func(_ testing.TB, dev device.Device) AnyOrderedMap[int32, uint32] {
				return newReferenceOrdered[int32, uint32](f, dev)
			}
			cases := slices.DeleteFunc(SeekCases(dev, Slow, open), func(c Case[AnyOrderedMap[int32, uint32]]) bool {
				return !slices.Contains(want, c.Name)
			})
			noticed := failedCases(t, dev, cases, open)
			for _, name := range want {
				if !noticed[name] {
					t.Errorf("%s did not notice", name)
				}
			}
		})
	}
}
