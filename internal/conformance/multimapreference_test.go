package conformance

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Flaws that only multimaps have.
const (
	putReplaces            flaw = "Put replaces the values of a key"
	putMerges              flaw = "a pair that is there already is not added again"
	putPrepends            flaw = "the latest pair of a key is its first"
	putNewAdds             flaw = "PutNew adds a pair to a key that has one"
	putNewAddsTwice        flaw = "every duplicate of a PutNew adds its pair"
	putNewMisreports       flaw = "PutNew reports the last duplicate and keeps the first"
	getsLatest             flaw = "Get finds the latest pair"
	repeatsAreEmpty        flaw = "GetAll gives a repeated key its values once"
	skipsAbsent            flaw = "GetAll has no offsets for absent keys"
	offByOne               flaw = "the offsets of GetAll end where the last key begins"
	leavesCounts           flaw = "Count leaves the counts of absent keys alone"
	countsKeys             flaw = "Count adds up the keys that are there"
	lenOfKeys              flaw = "Len is the number of keys"
	deletesLatest          flaw = "Delete removes the latest pair"
	deletesAllPairs        flaw = "Delete removes all pairs"
	deletesOnce            flaw = "a key that is repeated loses one pair"
	deleteReportsMore      flaw = "every duplicate of a Delete reports success"
	deleteAllTakesOne      flaw = "DeleteAll removes the first pair"
	deleteAllTwice         flaw = "duplicates of a DeleteAll report the same pairs"
	deleteAllReportsAbsent flaw = "DeleteAll reports success for keys without pairs"
	applyAddsOne           flaw = "Apply's Put takes the place of the first pair"
	applyLeaves            flaw = "Apply's DeleteAll leaves the last pair"
	losesOrder             flaw = "beyond 1000 pairs a key's order is another after each change"
	capsPairs              flaw = "a key has 2000 pairs at most"
	cancelledChangesRows   flaw = "a GetAll that is cancelled changes the rows"
	onWritesAllOrNone      flaw = "GetAllOn writes nothing if there is no room for all"
	onReadsStale           flaw = "GetAllOn does not see what Sync has not waited for"
	onSkipsCounts          flaw = "On methods leave counts alone"
	iteratesBackwards      flaw = "All has the pairs of a key in reverse"
)

// multiReference is a map of slices that implements the interface of a multimap.
type multiReference[K weft.Key, V weft.Value] struct {
	referenceBase[K, V]
	mu     sync.Mutex
	pairs  map[K][]V
	extra  int
	change int
	closed bool
}

func newMultiReference[K weft.Key, V weft.Value](f flaw, dev device.Device) *multiReference[K, V] {
	m := &multiReference[K, V]{referenceBase: newWhole[K, V](f, dev), pairs: map[K][]V{}}
	m.referenceBase.pairs = m
	return m
}

// begin and prefix do the same as those of a reference map.
func (m *multiReference[K, V]) begin(ctx context.Context) error {
	return m.referenceBase.begin(ctx, m.closed)
}

func (m *multiReference[K, V]) prefix(ctx context.Context, n int) (rows int, err error) {
	return m.referenceBase.prefix(ctx, m.closed, n)
}

func (m *multiReference[K, V]) add(k K, v V) {
	old := m.pairs[k]
	m.change++
	switch {
	case m.flaw == reservesOnes && k == ^K(0):
		return
	case m.flaw == putMerges && slices.ContainsFunc(old, func(x V) bool { return toBits(x) == toBits(v) }):
		return
	case m.flaw == capsPairs && len(old) >= 2000:
		return
	case m.flaw == putReplaces:
		old = nil
	case m.flaw == quietsNaN && v != v:
		v += v
	}
	if m.flaw == putPrepends {
		m.pairs[k] = append([]V{v}, old...)
		return
	}
	m.pairs[k] = append(slices.Clip(old), v)
	if m.flaw == losesOrder && len(old) > 1000 {
		slices.Reverse(m.pairs[k])
	}
}

// remove removes a pair. It returns false if the key has none.
func (m *multiReference[K, V]) remove(k K) bool {
	old := m.pairs[k]
	m.change++
	switch {
	case len(old) == 0:
		return false
	case m.flaw == keepsDeleted:
		return true
	case m.flaw == deletesAllPairs:
		delete(m.pairs, k)
	case m.flaw == deletesLatest:
		m.pairs[k] = old[:len(old)-1]
	default:
		m.pairs[k] = old[1:]
	}
	return true
}

func (m *multiReference[K, V]) Put(ctx context.Context, keys []K, vals []V) (inserted int, err error) {
	m.match(len(keys), len(vals))
	m.mu.Lock()
	defer m.mu.Unlock()
	rows, err := m.prefix(ctx, len(keys))
	for i, k := range keys[:rows] {
		m.add(k, vals[i])
		inserted++
	}
	return inserted, err
}

func (m *multiReference[K, V]) PutNew(ctx context.Context, keys []K, vals []V, ok []bool) (inserted int, err error) {
	m.match(len(keys), len(vals), optional(len(keys), ok))
	m.mu.Lock()
	defer m.mu.Unlock()
	rows, err := m.prefix(ctx, len(keys))
	clear(ok[min(rows, len(ok)):])
	was, at := map[K]bool{}, map[K]int{}
	for i, k := range keys[:rows] {
		if _, seen := at[k]; !seen {
			was[k] = len(m.pairs[k]) > 0
		}
		adds := len(m.pairs[k]) == 0 || m.flaw == putNewAdds || m.flaw == putNewAddsTwice && !was[k]
		if adds {
			m.add(k, vals[i])
			inserted++
		}
		if i < len(ok) {
			ok[i] = adds
			if j, seen := at[k]; seen && m.flaw == putNewMisreports && ok[j] {
				ok[j], ok[i] = false, true
			}
		}
		at[k] = i
	}
	return inserted, err
}

// forEachKey calls body for each key of a batch and adds up the results. If the call is
// interrupted, cut clears the remaining outputs.
func (m *multiReference[K, V]) forEachKey(ctx context.Context, keys []K, cut func(rows int), body func(i int, vals []V) int) (n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rows, err := m.prefix(ctx, len(keys))
	if err != nil && m.flaw != leavesStale {
		cut(rows)
	}
	for i, k := range keys[:rows] {
		n += body(i, m.pairs[k])
	}
	return n, err
}

func clearFrom[T any](s []T, rows int) { clear(s[min(rows, len(s)):]) }

func (m *multiReference[K, V]) Get(ctx context.Context, keys []K, vals []V, found []bool) (hits int, err error) {
	m.match(len(keys), len(vals), optional(len(keys), found))
	return m.forEachKey(ctx, keys, func(rows int) { clearFrom(vals, rows); clearFrom(found, rows) }, func(i int, have []V) (hit int) {
		var v V
		switch {
		case len(have) > 0 && m.flaw == getsLatest:
			v, hit = have[len(have)-1], 1
		case len(have) > 0:
			v, hit = have[0], 1
		}
		if i < len(found) {
			found[i] = hit == 1
		}
		if i < len(vals) && (hit == 1 || m.flaw != leavesOutputs) {
			vals[i] = v
		}
		return hit
	})
}

func (m *multiReference[K, V]) Contains(ctx context.Context, keys []K, found []bool) (hits int, err error) {
	m.match(len(keys), optional(len(keys), found))
	return m.Get(ctx, keys, make([]V, len(keys)), found)
}

func (m *multiReference[K, V]) GetAll(ctx context.Context, keys []K, rows *weft.Rows[V]) error {
	seen := map[K]bool{}
	offsets, vals := append(rows.Offsets[:rows.Len()], uint64(len(rows.Vals))), rows.Vals
	_, err := m.forEachKey(ctx, keys, func(int) {}, func(i int, have []V) int {
		if m.flaw == skipsAbsent && len(have) == 0 {
			return 0
		}
		if m.flaw != repeatsAreEmpty || !seen[keys[i]] {
			vals = append(vals, have...)
		}
		seen[keys[i]] = true
		offsets = append(offsets, uint64(len(vals)))
		return 0
	})
	if m.flaw == offByOne && len(offsets) > 1 {
		offsets[len(offsets)-1] = offsets[len(offsets)-2]
	}
	if err == nil || m.flaw == cancelledChangesRows {
		rows.Offsets, rows.Vals = offsets, vals
	}
	return err
}

func (m *multiReference[K, V]) Count(ctx context.Context, keys []K, counts []uint32) (total int, err error) {
	m.match(len(keys), optional(len(keys), counts))
	return m.forEachKey(ctx, keys, func(rows int) { clearFrom(counts, rows) }, func(i int, have []V) int {
		if i < len(counts) && (len(have) > 0 || m.flaw != leavesCounts) {
			counts[i] = uint32(len(have))
		}
		if m.flaw == countsKeys {
			return min(len(have), 1)
		}
		return len(have)
	})
}

func (m *multiReference[K, V]) Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error) {
	m.match(len(keys), optional(len(keys), deleted))
	seen := map[K]bool{}
	return m.forEachKey(ctx, keys, func(rows int) { clearFrom(deleted, rows) }, func(i int, _ []V) (one int) {
		k := keys[i]
		if (m.flaw != deletesOnce || !seen[k]) && m.remove(k) {
			one = 1
		}
		seen[k] = seen[k] || one == 1
		if i < len(deleted) {
			deleted[i] = one == 1 || m.flaw == deleteReportsMore && seen[k]
		}
		return one
	})
}

func (m *multiReference[K, V]) DeleteAll(ctx context.Context, keys []K, removed []uint32) (n int, err error) {
	m.match(len(keys), optional(len(keys), removed))
	had := map[K]int{}
	return m.forEachKey(ctx, keys, func(rows int) { clearFrom(removed, rows) }, func(i int, have []V) int {
		k, n := keys[i], len(have)
		switch {
		case n > 0 && m.flaw == deleteAllTakesOne:
			n = 1
			m.remove(k)
		default:
			delete(m.pairs, k)
		}
		had[k] += n
		if m.flaw == deleteAllTwice {
			n = had[k]
		}
		if i < len(removed) {
			removed[i] = uint32(n)
		}
		return n
	})
}

func (m *multiReference[K, V]) Apply(ctx context.Context, ops []weft.Op[K, V], res []weft.Result[V]) error {
	m.match(len(ops), optional(len(ops), res))
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, op := range ops {
		if op.Kind > weft.OpDeleteAll && m.flaw != applyTakesAny {
			return errors.New("no such operation")
		}
	}
	rows, err := m.prefix(ctx, len(ops))
	clearFrom(res, rows)
	for i, op := range ops[:rows] {
		r := m.applyOp(op)
		if i < len(res) {
			res[i] = r
		}
	}
	return err
}

func (m *multiReference[K, V]) applyOp(op weft.Op[K, V]) (r weft.Result[V]) {
	old := m.pairs[op.Key]
	r.OK = len(old) > 0
	switch op.Kind {
	case weft.OpGet:
		if r.OK {
			r.Value = old[0]
		}
	case weft.OpPut:
		if r.OK && m.flaw == applyAddsOne {
			m.remove(op.Key)
		}
		m.add(op.Key, op.Value)
		r.OK = true
	case weft.OpPutNew:
		if r.OK && m.flaw != applyHidesValue {
			r.Value = old[0]
		}
		if r.OK = !r.OK; r.OK {
			m.add(op.Key, op.Value)
		}
	case weft.OpDelete:
		m.remove(op.Key)
	case weft.OpDeleteAll:
		delete(m.pairs, op.Key)
		if r.OK && m.flaw == applyLeaves {
			m.pairs[op.Key] = old[len(old)-1:]
		}
		r.OK = r.OK || m.flaw == deleteAllReportsAbsent
	}
	return r
}

func (m *multiReference[K, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0
	}
	if m.flaw == lenOfKeys {
		return len(m.pairs)
	}
	return pairsIn(m.pairs) + m.extra
}

func (m *multiReference[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		m.mu.Lock()
		err := m.begin(context.Background())
		now, version := map[K][]V{}, m.change
		for k, vals := range m.pairs {
			now[k] = slices.Clone(vals)
		}
		m.mu.Unlock()
		if err != nil {
			return
		}
		left := len(now)
		for k, vals := range now {
			if m.flaw == iteratesBackwards {
				slices.Reverse(vals)
			}
			if left--; left == 0 && m.flaw == iteratesTwice && m.change != version {
				vals = append(vals, vals...)
			}
			for _, v := range vals {
				if !yield(k, v) {
					m.endLoop()
					return
				}
			}
		}
	}
}

func (m *multiReference[K, V]) list(ctx context.Context) (keys []K, vals []V, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, have := range m.pairs {
		for _, v := range have {
			keys, vals = append(keys, k), append(vals, v)
		}
	}
	return keys, vals, m.begin(ctx)
}

func (m *multiReference[K, V]) GetAllOn(s *device.Stream, keys device.Slice[K], counts device.Slice[uint32], offsets device.Slice[uint64], vals device.Slice[V]) error {
	m.match(keys.Len(), counts.Len(), offsets.Len()-1)
	return m.submit(s, nil, []device.Device{keys.Device(), counts.Device(), offsets.Device(), vals.Device()}, func() (int, error) {
		var rows weft.Rows[V]
		var err error
		if m.flaw != onReadsStale || !m.pending.Load() {
			err = m.GetAll(context.Background(), m.keysOf(keys), &rows)
		}
		copy(offsets.Host(), rows.Offsets)
		for i := range rows.Len() {
			counts.Host()[i] = uint32(len(rows.Row(i)))
		}
		if m.flaw != onWritesAllOrNone || len(rows.Vals) <= vals.Len() {
			copy(vals.Host(), rows.Vals)
		}
		return 0, err
	})
}

func (m *multiReference[K, V]) CountOn(s *device.Stream, keys device.Slice[K], counts device.Slice[uint32]) error {
	k := m.keysOf(keys)
	return m.submit(s, nil, []device.Device{keys.Device(), counts.Device()}, func() (int, error) {
		return m.Count(context.Background(), k, output(m.flaw, onSkipsCounts, counts, len(k)))
	})
}

func (m *multiReference[K, V]) DeleteAllOn(s *device.Stream, keys device.Slice[K], removed device.Slice[uint32], n ...device.Slice[uint64]) error {
	k := m.keysOf(keys)
	return m.submit(s, n, []device.Device{keys.Device(), removed.Device()}, func() (int, error) {
		return m.DeleteAll(context.Background(), k, output(m.flaw, onSkipsCounts, removed, len(k)))
	})
}

func (m *multiReference[K, V]) Clear(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(ctx); err != nil {
		return err
	}
	if m.flaw == clearForgetsLen {
		m.extra += pairsIn(m.pairs)
	}
	clear(m.pairs)
	return nil
}

func (m *multiReference[K, V]) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
