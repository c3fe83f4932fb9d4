package conformance

import (
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// flaw describes a fault of a reference map or set.
type flaw string

const (
	none                flaw = ""
	reservesOnes        flaw = "all ones is not a key"
	reservesZero        flaw = "a value of zero counts as absent"
	firstPutWins        flaw = "the first of duplicate Puts wins"
	countsReplaced      flaw = "Put counts replaced keys as new"
	putNewReplaces      flaw = "PutNew replaces values"
	reportsAll          flaw = "every duplicate of a Delete reports success"
	keepsDeleted        flaw = "Delete counts and removes nothing"
	leavesOutputs       flaw = "Get leaves the values of absent keys alone"
	quietsNaN           flaw = "float values pass through arithmetic"
	skipsLengths        flaw = "lengths of outputs are not checked"
	ignoresContext      flaw = "contexts are not looked at"
	reopens             flaw = "calls work after Close"
	clearForgetsLen     flaw = "Len survives Clear"
	applyHidesValue     flaw = "Apply does not tell what PutNew found"
	iteratesTwice       flaw = "All has a pair twice after a change"
	truncatesBatches    flaw = "only the first 255 rows of a batch are run"
	applyTakesAny       flaw = "Apply accepts unknown operations"
	loadsNoValues       flaw = "GetOrPut leaves the values of keys alone that are there"
	loadsOnce           flaw = "GetOrPut leaves rows alone whose key came with the batch"
	loadsLast           flaw = "the last of duplicates in GetOrPut wins"
	loadsInverted       flaw = "GetOrPut reports what is new"
	loadsForget         flaw = "a cancelled GetOrPut clears the values of rows that it did not come to"
	loadsRace           flaw = "others come between the lookup of GetOrPut and its insertions"
	assignsFromOne      flaw = "ids begin at 1"
	assignsRows         flaw = "Assign counts rows"
	assignsLength       flaw = "the next id is the length"
	assignsIgnoreValues flaw = "Assign does not look at values that others put"
	assignsForever      flaw = "ids go on behind Clear"
	assignsSkipIDs      flaw = "a cancelled Assign has used up the ids of all rows"
	assignsWrap         flaw = "ids begin anew behind the last"
	assignsFloats       flaw = "floats are ids"
	assignsAnew         flaw = "a map that is loaded begins to count anew"
	assignsTwice        flaw = "calls of Assign beside each other count alike"
	assignsDraft        flaw = "lookups see ids that are not final"
	reduceReplaces      flaw = "a reduction replaces the value"
	reduceOnce          flaw = "of the values that a batch has for a key one is combined"
	updatesInsert       flaw = "updates insert keys that are absent"
	reduceBits          flaw = "minima and maxima go by the bits"
)

// reference is a Go map that implements the interface of a map in the simplest form.
type reference[K weft.Key, V weft.Value] struct {
	referenceBase[K, V]
	mu     sync.Mutex
	pairs  map[K]V
	extra  int // amount by which Len is too large
	change int
	closed bool
	next   uint64 // next id
}

func newReference[K weft.Key, V weft.Value](f flaw, dev device.Device) *reference[K, V] {
	m := &reference[K, V]{referenceBase: newWhole[K, V](f, dev), pairs: map[K]V{}}
	m.referenceBase.pairs = m
	return m
}

func (m *reference[K, V]) begin(ctx context.Context) error {
	return m.referenceBase.begin(ctx, m.closed)
}

func (m *reference[K, V]) prefix(ctx context.Context, n int) (rows int, err error) {
	return m.referenceBase.prefix(ctx, m.closed, n)
}

func optional[T any](keys int, s []T) int {
	if s == nil {
		return keys
	}
	return len(s)
}

func (m *reference[K, V]) lookup(k K) (V, bool) {
	v, ok := m.pairs[k]
	if m.flaw == reservesZero && toBits(v) == 0 {
		ok = false
	}
	return v, ok
}

func (m *reference[K, V]) store(k K, v V) {
	if m.flaw == reservesOnes && k == ^K(0) {
		return
	}
	if m.flaw == quietsNaN && v != v {
		v += v
	}
	m.change++
	m.pairs[k] = v
}

func (m *reference[K, V]) Put(ctx context.Context, keys []K, vals []V) (inserted int, err error) {
	m.match(len(keys), len(vals))
	m.mu.Lock()
	defer m.mu.Unlock()
	rows, err := m.prefix(ctx, len(keys))
	seen := map[K]bool{}
	for i, k := range keys[:rows] {
		if m.flaw == firstPutWins && seen[k] {
			continue
		}
		seen[k] = true
		if _, ok := m.lookup(k); !ok || m.flaw == countsReplaced {
			inserted++
		}
		m.store(k, vals[i])
	}
	return inserted, err
}

func (m *reference[K, V]) PutNew(ctx context.Context, keys []K, vals []V, ok []bool) (inserted int, err error) {
	m.match(len(keys), len(vals), optional(len(keys), ok))
	ops, res := make([]weft.Op[K, V], len(keys)), make([]weft.Result[V], len(keys))
	for i := range keys {
		ops[i] = weft.Op[K, V]{Kind: weft.OpPutNew, Key: keys[i], Value: vals[i]}
	}
	err = m.Apply(ctx, ops, res)
	return writeFlags(res, ok), err
}

func (m *reference[K, V]) Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error) {
	m.match(len(keys), optional(len(keys), deleted))
	ops, res := make([]weft.Op[K, V], len(keys)), make([]weft.Result[V], len(keys))
	for i := range keys {
		ops[i] = weft.Op[K, V]{Kind: weft.OpDelete, Key: keys[i]}
	}
	err = m.Apply(ctx, ops, res)
	n = writeFlags(res, deleted)
	if seen := map[K]bool{}; m.flaw == reportsAll && deleted != nil {
		for i, k := range keys {
			seen[k] = seen[k] || deleted[i]
			deleted[i] = seen[k]
		}
	}
	return n, err
}

func writeFlags[V weft.Value](res []weft.Result[V], flags []bool) (n int) {
	for i, r := range res {
		if flags != nil && i < len(flags) {
			flags[i] = r.OK
		}
		if r.OK {
			n++
		}
	}
	return n
}

func (m *reference[K, V]) Get(ctx context.Context, keys []K, vals []V, found []bool) (hits int, err error) {
	m.match(len(keys), len(vals), optional(len(keys), found))
	m.mu.Lock()
	defer m.mu.Unlock()
	rows, err := m.prefix(ctx, len(keys))
	if err != nil && m.flaw != leavesStale {
		clear(vals[rows:])
		clear(found[min(rows, len(found)):])
	}
	for i, k := range keys[:rows] {
		v, ok := m.lookup(k)
		if ok {
			hits++
		}
		if i < len(found) {
			found[i] = ok
		}
		if i < len(vals) && (ok || m.flaw != leavesOutputs) {
			vals[i] = v
		}
	}
	return hits, err
}

func (m *reference[K, V]) Contains(ctx context.Context, keys []K, found []bool) (hits int, err error) {
	m.match(len(keys), optional(len(keys), found))
	return m.Get(ctx, keys, make([]V, len(keys)), found)
}

func (m *reference[K, V]) Apply(ctx context.Context, ops []weft.Op[K, V], res []weft.Result[V]) error {
	m.match(len(ops), optional(len(ops), res))
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, op := range ops {
		if (op.Kind == weft.OpDeleteAll || op.Kind > weft.OpOr && op.Kind != weft.OpUpdate || isFloat[V]() && (op.Kind == weft.OpAnd || op.Kind == weft.OpOr)) && m.flaw != applyTakesAny {
			clear(res)
			return device.ErrInvalid
		}
	}
	rows, err := m.prefix(ctx, len(ops))
	if m.flaw != leavesStale {
		clear(res[min(rows, len(res)):])
	}
	for i, op := range ops[:rows] {
		r := m.applyOp(op)
		if i < len(res) {
			res[i] = r
		}
	}
	return err
}

func (m *reference[K, V]) applyOp(op weft.Op[K, V]) (r weft.Result[V]) {
	old, ok := m.lookup(op.Key)
	switch op.Kind {
	case weft.OpGet:
		return weft.Result[V]{Value: old, OK: ok}
	case weft.OpPut:
		m.store(op.Key, op.Value)
		r.OK = !ok
	case weft.OpPutNew:
		if !ok || m.flaw == putNewReplaces {
			m.store(op.Key, op.Value)
		}
		if ok && m.flaw != applyHidesValue {
			r.Value = old
		}
		r.OK = !ok
	case weft.OpUpdate:
		if ok || m.flaw == updatesInsert {
			m.store(op.Key, op.Value)
		}
		r.OK = ok
	case weft.OpDelete:
		if m.flaw != keepsDeleted {
			delete(m.pairs, op.Key)
		}
		r.OK = ok
	case weft.OpSum, weft.OpMin, weft.OpMax, weft.OpAnd, weft.OpOr:
		switch {
		case !ok || m.flaw == reduceReplaces:
			m.store(op.Key, op.Value)
		case m.flaw == reduceBits && (op.Kind == weft.OpMin || op.Kind == weft.OpMax):
			m.store(op.Key, fromBits[V](combine(weft.Reduction(op.Kind), toBits(old), toBits(op.Value))))
		default:
			m.store(op.Key, combine(weft.Reduction(op.Kind), old, op.Value))
		}
		r.OK = !ok
	}
	return r
}

func (m *reference[K, V]) Reduce(ctx context.Context, keys []K, vals []V, by weft.Reduction) (inserted int, err error) {
	m.match(len(keys), len(vals))
	k := weft.OpKind(by)
	if !k.Reduces() || isFloat[V]() && k > weft.OpMax {
		return 0, &weft.PartialError{Err: device.ErrInvalid}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	rows, err := m.prefix(ctx, len(keys))
	seen := map[K]bool{}
	for i := range keys[:rows] {
		if m.flaw == reduceOnce && seen[keys[i]] {
			continue
		}
		seen[keys[i]] = true
		if m.applyOp(weft.Op[K, V]{Kind: k, Key: keys[i], Value: vals[i]}).OK {
			inserted++
		}
	}
	return inserted, err
}

func (m *reference[K, V]) ReduceOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], by weft.Reduction, n ...device.Slice[uint64]) error {
	k := m.keysOf(keys)
	return m.submit(s, n, []device.Device{keys.Device(), vals.Device()}, func() (int, error) {
		return m.Reduce(context.Background(), k, output(m.flaw, "", vals, len(k)), by)
	})
}

func (m *reference[K, V]) GetOrPut(ctx context.Context, keys []K, vals []V, loaded []bool) (inserted int, err error) {
	m.match(len(keys), len(vals), optional(len(keys), loaded))
	m.mu.Lock()
	defer m.mu.Unlock()
	rows, err := m.prefix(ctx, len(keys))
	clear(loaded[min(rows, len(loaded)):])
	if m.flaw == loadsForget {
		clear(vals[rows:])
	}
	mine := map[K]bool{}
	for i := range keys[:rows] {
		_, present := m.lookup(keys[i])
		if m.flaw == loadsRace && !present {
			m.pause()
			m.store(keys[i], vals[i])
			inserted++
			continue
		}
		r := m.applyOp(weft.Op[K, V]{Kind: weft.OpPutNew, Key: keys[i], Value: vals[i]})
		switch {
		case r.OK:
			inserted++
			mine[keys[i]] = true
		case m.flaw == loadsLast && mine[keys[i]]:
			m.store(keys[i], vals[i])
		case m.flaw != loadsNoValues && (m.flaw != loadsOnce || !mine[keys[i]]):
			vals[i], _ = m.lookup(keys[i])
		}
		if i < len(loaded) {
			loaded[i] = r.OK == (m.flaw == loadsInverted)
		}
	}
	return inserted, err
}

func (m *reference[K, V]) GetOrPutOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], loaded device.Slice[bool], n ...device.Slice[uint64]) error {
	k := m.keysOf(keys)
	return m.submit(s, n, []device.Device{keys.Device(), vals.Device(), loaded.Device()}, func() (int, error) {
		v := output(m.flaw, "", vals, len(k))
		if m.flaw == onSkipsValues {
			v = slices.Clone(v)
		}
		return m.inOrder(k, v, output(m.flaw, onSkipsFlags, loaded, len(k)), func(k []K, v []V, ok []bool) (int, error) {
			return m.GetOrPut(context.Background(), k, v, ok)
		})
	})
}

func (m *reference[K, V]) Assign(ctx context.Context, keys []K, ids []V) (inserted int, err error) {
	m.match(len(keys), len(ids))
	m.mu.Lock()
	defer m.mu.Unlock()
	if isFloat[V]() && m.flaw != assignsFloats {
		clear(ids)
		return 0, &weft.PartialError{Err: device.ErrInvalid}
	}
	rows, err := m.prefix(ctx, len(keys))
	clear(ids[rows:])
	last := fromBits[V](math.MaxInt64)
	if last < 0 {
		last = fromBits[V](math.MaxInt32)
	}
	for _, v := range m.pairs {
		if v >= 0 && m.flaw != assignsIgnoreValues && (m.flaw != assignsAnew || m.next > 0) {
			m.next = max(m.next, uint64(v)+1)
		}
	}
	if m.flaw == assignsLength {
		m.next = uint64(len(m.pairs))
	}
	if m.flaw == assignsFromOne {
		m.next = max(m.next, 1)
	}
	first := m.next
	for i, k := range keys[:rows] {
		id, present := m.lookup(k)
		if !present {
			if m.next > uint64(last) && m.flaw != assignsWrap {
				clear(ids[i:])
				return inserted, &weft.PartialError{Done: i, Err: weft.ErrFull}
			}
			id = V(m.next)
			m.next++
			inserted++
			if m.flaw == assignsDraft {
				m.store(k, id+1)
				m.pause()
			}
			m.store(k, id)
		}
		if m.flaw == assignsRows && present {
			m.next++
		}
		if ids[i] = id; m.flaw == assignsTwice && i%64 == 0 {
			next := m.next
			m.pause()
			m.next = next
		}
	}
	if m.flaw == assignsSkipIDs && err != nil {
		m.next = first + uint64(len(keys))
	}
	return inserted, err
}

// pause unlocks the map so that other goroutines can run.
func (m *reference[K, V]) pause() {
	m.mu.Unlock()
	time.Sleep(time.Microsecond)
	m.mu.Lock()
}

func (m *reference[K, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0
	}
	return len(m.pairs) + m.extra
}

func (m *reference[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		m.mu.Lock()
		err := m.begin(context.Background())
		keys, version := slices.Collect(maps.Keys(m.pairs)), m.change
		m.mu.Unlock()
		if err != nil {
			return
		}
		for i, k := range keys {
			m.mu.Lock()
			v, ok := m.pairs[k]
			repeat := m.flaw == iteratesTwice && m.change != version && i == len(keys)-1
			m.mu.Unlock()
			if ok && !yield(k, v) || repeat && !yield(k, v) {
				m.endLoop()
				return
			}
		}
	}
}

func (m *reference[K, V]) list(ctx context.Context) (keys []K, vals []V, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, v := range m.pairs {
		keys, vals = append(keys, k), append(vals, v)
	}
	return keys, vals, m.begin(ctx)
}

func (m *reference[K, V]) Clear(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(ctx); err != nil {
		if m.flaw == clearsHalf {
			clear(m.pairs)
		}
		return err
	}
	if m.flaw == clearForgetsLen {
		m.extra += len(m.pairs)
	}
	clear(m.pairs)
	if m.flaw != assignsForever {
		m.next = 0
	}
	return nil
}

func (m *reference[K, V]) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

type referenceSet[K weft.Key] struct{ *reference[K, uint32] }

func (s referenceSet[K]) Add(ctx context.Context, keys []K, added []bool) (int, error) {
	return s.PutNew(ctx, keys, make([]uint32, len(keys)), added)
}

func (s referenceSet[K]) AddOn(to *device.Stream, keys device.Slice[K], added device.Slice[bool], n ...device.Slice[uint64]) error {
	k := s.keysOf(keys)
	return s.submit(to, n, []device.Device{keys.Device(), added.Device()}, func() (int, error) {
		return s.inOrder(k, nil, output(s.flaw, onSkipsFlags, added, len(k)), func(k []K, _ []uint32, ok []bool) (int, error) {
			return s.Add(context.Background(), k, ok)
		})
	})
}

func (s referenceSet[K]) ApplyOn(to *device.Stream, kinds device.Slice[weft.OpKind], keys device.Slice[K], ok device.Slice[bool]) error {
	for i, k := range keys.Host() {
		if kind := kinds.Host()[i]; !kind.Reduces() {
			ok.Host()[i] = s.applyOp(weft.Op[K, uint32]{Kind: kind, Key: k}).OK
		}
	}
	return nil
}

func (s referenceSet[K]) Pages(ctx context.Context) iter.Seq2[[]K, error] {
	return func(yield func([]K, error) bool) {
		s.reference.Pages(ctx)(func(p weft.Page[K, uint32], err error) bool { return yield(p.Keys, err) })
	}
}

func (s referenceSet[K]) All() iter.Seq[K] {
	return func(yield func(K) bool) {
		for k := range s.reference.All() {
			if !yield(k) {
				return
			}
		}
	}
}
