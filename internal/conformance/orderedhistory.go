package conformance

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
)

// historyModel is what a map should hold.
type historyModel[K weft.Key, V weft.Value] map[K]V

// run runs a mixed batch as a map of Go does, one operation after the other.
func (m historyModel[K, V]) run(ops []weft.Op[K, V]) (res []weft.Result[V]) {
	for _, o := range ops {
		v, there := m[o.Key]
		var r weft.Result[V]
		switch o.Kind {
		case weft.OpGet:
			r = weft.Result[V]{OK: there, Value: v}
		case weft.OpPut:
			r.OK = !there
			m[o.Key] = o.Value
		case weft.OpPutNew:
			if r.OK = !there; there {
				r.Value = v
			} else {
				m[o.Key] = o.Value
			}
		case weft.OpDelete:
			r.OK = there
			delete(m, o.Key)
		case weft.OpSum:
			r.OK = !there
			m[o.Key] = v + o.Value
		case weft.OpUpdate:
			if r.OK = there; there {
				m[o.Key] = o.Value
			}
		}
		res = append(res, r)
	}
	return res
}

// deleteRange removes the pairs of a range.
func (m historyModel[K, V]) deleteRange(lo, hi K) (n uint32) {
	for k := range m {
		if lo <= k && k <= hi {
			delete(m, k)
			n++
		}
	}
	return n
}

// OrderedHistory is batches of all kinds on an ordered map against a model: what operations return, what is
// found by key and by order, and what all snapshots that are held see. Both are checked after each batch, as is
// what Check returns.
type OrderedHistory[K weft.Key, V weft.Value] struct {
	Map  AnyOrderedMap[K, V]
	Most int           // operations of a batch
	Also []weft.OpKind // of mixed batches, beside those that all maps have

	testing.TB
	want historyModel[K, V]
	rng  *rand.Rand
	held []heldSnapshot[K, V]
	next K // of keys in ascending order
}

type heldSnapshot[K weft.Key, V weft.Value] struct {
	AnySeeker[K, V]
	historyModel[K, V]
}

// Begin begins a history with a map without pairs.
func (h *OrderedHistory[K, V]) Begin(t testing.TB, seed uint64) {
	h.TB, h.want, h.rng, h.held = t, historyModel[K, V]{}, rand.New(rand.NewPCG(seed, 1)), nil
	h.next = K(20 * h.Most)
}

// Run begins a history and runs some batches.
func (h *OrderedHistory[K, V]) Run(t testing.TB, seed uint64, rounds int) {
	h.Begin(t, seed)
	for round := range rounds {
		switch h.rng.IntN(8) {
		case 0:
			h.deleteSomeRanges()
		case 1:
			h.must(h.Map.Compact(t.Context()))
		case 2:
			h.putSome(round)
		case 3:
			h.clearSometimes()
		default:
			h.applySome(round)
		}
		h.snapshots()
		h.must(h.Map.Check(t.Context()))
		if h.Map.Len() != len(h.want) {
			t.Fatalf("round %d: %d pairs, want %d", round, h.Map.Len(), len(h.want))
		}
		if h.rng.IntN(2) == 0 { // an iteration takes a snapshot, too: some that are held have none between them
			h.Seek()
		}
		h.readSnapshots()
	}
	for len(h.held) > 0 {
		h.closeSnapshot()
		h.readSnapshots()
	}
	h.must(h.Map.Compact(t.Context()))
	h.must(h.Map.Check(t.Context()))
	h.Seek()
}

// Put puts pairs.
func (h *OrderedHistory[K, V]) Put(keys []K, vals []V) {
	_, err := h.Map.Put(h.Context(), keys, vals)
	h.must(err)
	for i, k := range keys {
		h.want[k] = vals[i]
	}
}

// Apply runs a mixed batch.
func (h *OrderedHistory[K, V]) Apply(ops []weft.Op[K, V]) {
	got := make([]weft.Result[V], len(ops))
	h.must(h.Map.Apply(h.Context(), ops, got))
	if res := h.want.run(ops); !slices.Equal(got, res) {
		h.Fatalf("%d operations return\n%v\nwant\n%v", len(ops), got, res)
	}
}

// DeleteRange deletes ranges.
func (h *OrderedHistory[K, V]) DeleteRange(lo, hi []K) {
	got, removed := make([]uint32, len(lo)), make([]uint32, len(lo))
	for i := range lo {
		removed[i] = h.want.deleteRange(lo[i], hi[i])
	}
	if _, err := h.Map.DeleteRange(h.Context(), lo, hi, got); err != nil || !slices.Equal(got, removed) {
		h.Fatalf("DeleteRange removes %v, want %v: %v", got, removed, err)
	}
}

// Seek asks for all pairs, for those by keys, or by some if there are none, and by their ranks, and for ranges
// from each key to the one before it.
func (h *OrderedHistory[K, V]) Seek(keys ...K) { h.seek(h.Map, h.want, keys...) }

func (h *OrderedHistory[K, V]) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// key makes up keys: anywhere, few, one behind the other, or crowded.
func (h *OrderedHistory[K, V]) key() K {
	switch h.rng.IntN(8) {
	case 0:
		return K(h.rng.Uint64())
	case 1:
		return K(h.rng.IntN(5) * 1000)
	case 2:
		h.next++
		return h.next
	}
	return K(h.rng.IntN(20 * h.Most))
}

// applySome runs a batch: of Puts, of Deletes, or mixed.
func (h *OrderedHistory[K, V]) applySome(round int) {
	ops := make([]weft.Op[K, V], 1+h.rng.IntN(h.Most))
	kinds := append([]weft.OpKind{weft.OpGet, weft.OpPut, weft.OpPut, weft.OpPutNew, weft.OpDelete, weft.OpSum}, h.Also...)
	for i := range ops {
		ops[i] = weft.Op[K, V]{Kind: kinds[h.rng.IntN(len(kinds))], Key: h.key(), Value: V(h.rng.IntN(1000))}
		if round%3 < 2 {
			ops[i].Kind = []weft.OpKind{weft.OpPut, weft.OpDelete}[round%3]
		}
	}
	h.Apply(ops)
}

// putSome puts pairs by methods of their own: all of them, or those that are new.
func (h *OrderedHistory[K, V]) putSome(round int) {
	keys, vals := make([]K, 1+h.rng.IntN(h.Most)), make([]V, 0, h.Most)
	for i := range keys {
		keys[i] = h.key()
		vals = append(vals, V(h.rng.IntN(1000)))
	}
	before, want := len(h.want), slices.Clone(vals)
	for i, k := range keys {
		if v, there := h.want[k]; there && round%2 == 0 {
			want[i] = v
			continue
		}
		h.want[k] = vals[i]
	}
	put := h.Map.Build
	if round%2 == 0 {
		put = func(ctx context.Context, keys []K, vals []V) (int, error) {
			return h.Map.GetOrPut(ctx, keys, vals, nil)
		}
	}
	if n, err := put(h.Context(), keys, vals); err != nil || n != len(h.want)-before || !slices.Equal(vals, want) {
		h.Fatalf("round %d: of %d pairs %d are new, want %d, with values %v, want %v: %v", round, len(keys), n, len(h.want)-before, vals, want, err)
	}
}

func (h *OrderedHistory[K, V]) clearSometimes() {
	if h.rng.IntN(3) == 0 {
		h.must(h.Map.Clear(h.Context()))
		clear(h.want)
	}
}

func (h *OrderedHistory[K, V]) deleteSomeRanges() {
	n := 1 + h.rng.IntN(3)
	lo, hi := make([]K, n), make([]K, n)
	for i := range lo {
		lo[i], hi[i] = h.key(), h.key()
	}
	h.DeleteRange(lo, hi)
}

// snapshots takes a snapshot, or closes one, or neither.
func (h *OrderedHistory[K, V]) snapshots() {
	switch h.rng.IntN(4) {
	case 0, 1:
		s, err := snapshotOf(h, h.Context(), h.Map)
		h.must(err)
		h.held = append(h.held, heldSnapshot[K, V]{s, maps.Clone(h.want)})
		if len(h.held) <= maxHeld {
			return
		}
		fallthrough
	case 2:
		if len(h.held) > 0 {
			h.closeSnapshot()
		}
	}
}

// maxHeld is the most snapshots that a history holds.
const maxHeld = 5

// closeSnapshot closes any of the snapshots that are held, after a look at all that it has.
func (h *OrderedHistory[K, V]) closeSnapshot() {
	i := h.rng.IntN(len(h.held))
	s := h.held[i]
	h.seek(s, s.historyModel)
	h.must(s.Close())
	h.held = slices.Delete(h.held, i, i+1)
}

// readSnapshots reads all pairs of all snapshots that are held.
func (h *OrderedHistory[K, V]) readSnapshots() {
	for i, s := range h.held {
		h.same(s, s.historyModel)
		if s.Len() != len(s.historyModel) {
			h.Fatalf("snapshot %d of %d has %d pairs, want %d", i, len(h.held), s.Len(), len(s.historyModel))
		}
	}
}

// same wants pairs in ascending order to be those of a model. It returns the keys.
func (h *OrderedHistory[K, V]) same(m hostSeeker[K, V], want historyModel[K, V]) (all []K) {
	h.Helper()
	all = slices.Sorted(maps.Keys(want))
	at := 0
	for k, v := range m.All() {
		if at >= len(all) || k != all[at] || v != want[k] {
			h.Fatalf("pair %d is %v: %v, of %d", at, k, v, len(all))
		}
		at++
	}
	if at != len(all) {
		h.Fatalf("%d pairs, want %d", at, len(all))
	}
	return all
}

func (h *OrderedHistory[K, V]) seek(m hostSeeker[K, V], want historyModel[K, V], keys ...K) {
	all := h.same(m, want)
	for more := len(keys) == 0; more; more = len(keys) < 8 {
		keys = append(keys, h.key())
	}
	ranks := make([]uint64, len(keys))
	for i, k := range keys {
		at, _ := slices.BinarySearch(all, k)
		ranks[i] = uint64(at)
	}
	h.bySeveral(m, want, all, keys, ranks)
	h.ranges(m, all, keys)
}

// bySeveral asks for pairs by keys, whose ranks are known, and by those.
func (h *OrderedHistory[K, V]) bySeveral(m hostSeeker[K, V], want historyModel[K, V], all, keys []K, ranks []uint64) {
	vals, ok, got, next := make([]V, len(keys)), make([]bool, len(keys)), make([]uint64, len(keys)), make([]K, len(keys))
	_, err := m.Get(h.Context(), keys, vals, ok)
	h.must(err)
	h.must(m.Rank(h.Context(), keys, got))
	for i, k := range keys {
		if v, there := want[k]; vals[i] != v || ok[i] != there || got[i] != ranks[i] {
			h.Fatalf("key %v has %v, %v and rank %d, want %v, %v and %d", k, vals[i], ok[i], got[i], v, there, ranks[i])
		}
	}
	check := func(what string, err error, place func(i int) int) {
		h.must(err)
		for i := range keys {
			at := place(i)
			if there := at >= 0 && at < len(all); ok[i] != there || there && (next[i] != all[at] || vals[i] != want[all[at]]) {
				h.Fatalf("%s of %v, rank %d, is %v: %v, %v, of %d", what, keys[i], ranks[i], next[i], vals[i], ok[i], len(all))
			}
		}
	}
	_, err = m.Select(h.Context(), ranks, next, vals, ok)
	check("Select", err, func(i int) int { return int(ranks[i]) })
	_, err = m.Predecessor(h.Context(), keys, next, vals, ok)
	check("Predecessor", err, func(i int) int { return int(ranks[i]) - 1 })
	_, err = m.Successor(h.Context(), keys, next, vals, ok)
	check("Successor", err, func(i int) int {
		if _, there := want[keys[i]]; there {
			return int(ranks[i]) + 1
		}
		return int(ranks[i])
	})
}

// ranges asks for ranges between neighbors of keys, both ways, with a limit and without.
func (h *OrderedHistory[K, V]) ranges(m hostSeeker[K, V], all, keys []K) {
	lo, hi := keys[1:], keys[:len(keys)-1]
	between := func(i int) []K {
		from, _ := slices.BinarySearch(all, lo[i])
		to, found := slices.BinarySearch(all, hi[i])
		if found {
			to++
		}
		return slices.Clone(all[min(from, to):to])
	}
	for _, limit := range []int{0, 1, 2, 3, math.MaxInt} {
		var up, down weft.PairRows[K, V]
		h.must(m.Range(h.Context(), lo, hi, limit, &up))
		h.must(m.RangeBackward(h.Context(), lo, hi, limit, &down))
		for i := range lo {
			want := between(i)
			first := want
			if limit > 0 {
				first = want[:min(limit, len(want))]
			}
			if got, _ := up.Row(i); !slices.Equal(got, first) {
				h.Fatalf("limit %d: from %v to %v there are %v, want %v", limit, lo[i], hi[i], got, first)
			}
			slices.Reverse(want)
			if limit > 0 {
				want = want[:min(limit, len(want))]
			}
			if got, _ := down.Row(i); !slices.Equal(got, want) {
				h.Fatalf("limit %d: from %v down to %v there are %v, want %v", limit, hi[i], lo[i], got, want)
			}
		}
		if limit > 0 && limit < math.MaxInt {
			h.fixed(m, lo, hi, limit, &up)
		}
	}
}

// fixed asks for the same with a fixed number of places.
func (h *OrderedHistory[K, V]) fixed(m hostSeeker[K, V], lo, hi []K, limit int, want *weft.PairRows[K, V]) {
	counts, keys, vals := make([]uint32, len(lo)), make([]K, len(lo)*limit), make([]V, len(lo)*limit)
	_, err := m.RangeFirst(h.Context(), lo, hi, limit, counts, keys, vals)
	h.must(err)
	for i := range lo {
		k, v := want.Row(i)
		if n := int(counts[i]); !slices.Equal(keys[i*limit:i*limit+n], k) || !slices.Equal(vals[i*limit:i*limit+n], v) {
			h.Fatalf("RangeFirst from %v to %v has %v, want %v", lo[i], hi[i], keys[i*limit:i*limit+n], k)
		}
	}
}
