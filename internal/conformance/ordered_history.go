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

type historyModel map[uint64]uint64

// apply applies the operations of a mixed batch to the model in order.
func (m historyModel) apply(y *types, ops []weft.Op[uint64, uint64]) (res []weft.Result[uint64]) {
	for _, o := range ops {
		v, present := m[o.Key]
		var r weft.Result[uint64]
		switch o.Kind {
		case weft.OpGet:
			r = weft.Result[uint64]{OK: present, Value: v}
		case weft.OpPut:
			r.OK = !present
			m[o.Key] = o.Value
		case weft.OpPutNew:
			if r.OK = !present; present {
				r.Value = v
			} else {
				m[o.Key] = o.Value
			}
		case weft.OpDelete:
			r.OK = present
			delete(m, o.Key)
		case weft.OpSum:
			r.OK = !present
			m[o.Key] = y.combine(weft.Sum, v, o.Value)
		case weft.OpUpdate:
			if r.OK = present; present {
				m[o.Key] = o.Value
			}
		}
		res = append(res, r)
	}
	return res
}

func (m historyModel) deleteRange(lo, hi uint64) (n uint32) {
	for k := range m {
		if lo <= k && k <= hi {
			delete(m, k)
			n++
		}
	}
	return n
}

// OrderedHistory runs batches of all kinds on an ordered map and on a model. After each batch it
// compares the results, lookups by key and by order, and the contents of all open snapshots. It
// also calls Check.
type OrderedHistory[K weft.Key, V weft.Value] struct {
	Map        AnyOrderedMap[K, V]
	MaxOps     int           // maximum number of operations per batch
	ExtraKinds []weft.OpKind // further kinds for mixed batches

	history history
}

// Begin starts a history. The map must be empty.
func (h *OrderedHistory[K, V]) Begin(t testing.TB, seed uint64) {
	h.history = history{types: typesOf[K, V](), m: eraseOrderedMap(h.Map), maxOps: h.MaxOps, extraKinds: h.ExtraKinds}
	h.history.begin(t, seed)
}

// Run starts a history and runs the given number of batches.
func (h *OrderedHistory[K, V]) Run(t testing.TB, seed uint64, rounds int) {
	h.Begin(t, seed)
	h.history.run(rounds)
}

// Put puts pairs into the map and the model.
func (h *OrderedHistory[K, V]) Put(keys []K, vals []V) {
	h.history.put(widened(keys, signBitOf[K]()), widened(vals, 0))
}

// Apply runs a mixed batch on the map and the model.
func (h *OrderedHistory[K, V]) Apply(ops []weft.Op[K, V]) {
	of := make([]weft.Op[uint64, uint64], len(ops))
	for i, op := range ops {
		of[i] = weft.Op[uint64, uint64]{Kind: op.Kind, Key: toBits(op.Key) ^ signBitOf[K](), Value: toBits(op.Value)}
	}
	h.history.apply(of)
}

// DeleteRange deletes ranges from the map and the model.
func (h *OrderedHistory[K, V]) DeleteRange(lo, hi []K) {
	h.history.deleteRange(widened(lo, signBitOf[K]()), widened(hi, signBitOf[K]()))
}

// Seek looks up all pairs, and the given keys by key and by rank. Without keys it selects some. It
// also looks up the ranges from each key to the previous key.
func (h *OrderedHistory[K, V]) Seek(keys ...K) {
	h.history.seek(h.history.m, h.history.want, widened(keys, signBitOf[K]())...)
}

// history implements OrderedHistory for erased types.
type history struct {
	types
	m          erasedOrderedMap
	maxOps     int
	extraKinds []weft.OpKind

	testing.TB
	want          historyModel
	rng           *rand.Rand
	openSnapshots []modeledSnapshot
	nextKey       uint64 // next key of an ascending sequence
}

type modeledSnapshot struct {
	erasedSeeker
	historyModel
}

func (h *history) begin(t testing.TB, seed uint64) {
	h.TB, h.want, h.rng, h.openSnapshots = t, historyModel{}, rand.New(rand.NewPCG(seed, 1)), nil
	h.nextKey = h.types.key(uint64(20 * h.maxOps))
}

func (h *history) run(rounds int) {
	for round := range rounds {
		switch h.rng.IntN(8) {
		case 0:
			h.deleteRandomRanges()
		case 1:
			h.must(h.m.Compact(h.Context()))
		case 2:
			h.putBatch(round)
		case 3:
			h.maybeClear()
		default:
			h.applyBatch(round)
		}
		h.changeSnapshots()
		h.must(h.m.Check(h.Context()))
		if h.m.Len() != len(h.want) {
			h.Fatalf("round %d: %d pairs, want %d", round, h.m.Len(), len(h.want))
		}
		// An iteration takes a snapshot. Without an iteration, two snapshots in a row have none in
		// between.
		if h.rng.IntN(2) == 0 {
			h.seek(h.m, h.want)
		}
		h.readSnapshots()
	}
	for len(h.openSnapshots) > 0 {
		h.closeSnapshot()
		h.readSnapshots()
	}
	h.must(h.m.Compact(h.Context()))
	h.must(h.m.Check(h.Context()))
	h.seek(h.m, h.want)
}

func (h *history) put(keys []uint64, vals []uint64) {
	_, err := h.m.Put(h.Context(), keys, vals)
	h.must(err)
	for i, k := range keys {
		h.want[k] = vals[i]
	}
}

func (h *history) apply(ops []weft.Op[uint64, uint64]) {
	got := make([]weft.Result[uint64], len(ops))
	h.must(h.m.Apply(h.Context(), ops, got))
	if res := h.want.apply(&h.types, ops); !slices.Equal(got, res) {
		h.Fatalf("%d operations return\n%v\nwant\n%v", len(ops), got, res)
	}
}

func (h *history) deleteRange(lo, hi []uint64) {
	got, removed := make([]uint32, len(lo)), make([]uint32, len(lo))
	for i := range lo {
		removed[i] = h.want.deleteRange(lo[i], hi[i])
	}
	if _, err := h.m.DeleteRange(h.Context(), lo, hi, got); err != nil || !slices.Equal(got, removed) {
		h.Fatalf("DeleteRange removes %v, want %v: %v", got, removed, err)
	}
}

func (h *history) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// drawKey returns a random key of one of several kinds: any key, one of a few keys, the next key of
// an ascending sequence, or a key from a dense region.
func (h *history) drawKey() uint64 {
	switch h.rng.IntN(8) {
	case 0:
		return h.key(h.rng.Uint64())
	case 1:
		return h.key(uint64(h.rng.IntN(5) * 1000))
	case 2:
		h.nextKey = h.keyAfter(h.nextKey, 1)
		return h.nextKey
	}
	return h.key(uint64(h.rng.IntN(20 * h.maxOps)))
}

// applyBatch runs a random batch with Apply: only Puts, only Deletes, or mixed.
func (h *history) applyBatch(round int) {
	ops := make([]weft.Op[uint64, uint64], 1+h.rng.IntN(h.maxOps))
	kinds := append([]weft.OpKind{weft.OpGet, weft.OpPut, weft.OpPut, weft.OpPutNew, weft.OpDelete, weft.OpSum}, h.extraKinds...)
	for i := range ops {
		ops[i] = weft.Op[uint64, uint64]{Kind: kinds[h.rng.IntN(len(kinds))], Key: h.drawKey(), Value: h.val(h.rng.IntN(1000))}
		if round%3 < 2 {
			ops[i].Kind = []weft.OpKind{weft.OpPut, weft.OpDelete}[round%3]
		}
	}
	h.apply(ops)
}

// putBatch puts random pairs with a dedicated method: all pairs, or only pairs with absent keys.
func (h *history) putBatch(round int) {
	keys, vals := make([]uint64, 1+h.rng.IntN(h.maxOps)), make([]uint64, 0, h.maxOps)
	for i := range keys {
		keys[i] = h.drawKey()
		vals = append(vals, h.val(h.rng.IntN(1000)))
	}
	before, want := len(h.want), slices.Clone(vals)
	for i, k := range keys {
		if v, present := h.want[k]; present && round%2 == 0 {
			want[i] = v
			continue
		}
		h.want[k] = vals[i]
	}
	put := h.m.Build
	if round%2 == 0 {
		put = func(ctx context.Context, keys []uint64, vals []uint64) (int, error) {
			return h.m.GetOrPut(ctx, keys, vals, nil)
		}
	}
	if n, err := put(h.Context(), keys, vals); err != nil || n != len(h.want)-before || !slices.Equal(vals, want) {
		h.Fatalf("round %d: of %d pairs %d are new, want %d, with values %v, want %v: %v", round, len(keys), n, len(h.want)-before, vals, want, err)
	}
}

func (h *history) maybeClear() {
	if h.rng.IntN(3) == 0 {
		h.must(h.m.Clear(h.Context()))
		clear(h.want)
	}
}

func (h *history) deleteRandomRanges() {
	n := 1 + h.rng.IntN(3)
	lo, hi := make([]uint64, n), make([]uint64, n)
	for i := range lo {
		lo[i], hi[i] = h.drawKey(), h.drawKey()
	}
	h.deleteRange(lo, hi)
}

// changeSnapshots takes a snapshot, closes one, or does neither.
func (h *history) changeSnapshots() {
	switch h.rng.IntN(4) {
	case 0, 1:
		s, err := snapshotOf(h, h.Context(), h.m)
		h.must(err)
		h.openSnapshots = append(h.openSnapshots, modeledSnapshot{s, maps.Clone(h.want)})
		if len(h.openSnapshots) <= maxSnapshots {
			return
		}
		fallthrough
	case 2:
		if len(h.openSnapshots) > 0 {
			h.closeSnapshot()
		}
	}
}

const maxSnapshots = 5

// closeSnapshot compares the contents of a random open snapshot with its model and closes it.
func (h *history) closeSnapshot() {
	i := h.rng.IntN(len(h.openSnapshots))
	s := h.openSnapshots[i]
	h.seek(s, s.historyModel)
	h.must(s.Close())
	h.openSnapshots = slices.Delete(h.openSnapshots, i, i+1)
}

// readSnapshots compares all pairs of all open snapshots with their models.
func (h *history) readSnapshots() {
	for i, s := range h.openSnapshots {
		h.checkPairs(s, s.historyModel)
		if s.Len() != len(s.historyModel) {
			h.Fatalf("snapshot %d of %d has %d pairs, want %d", i, len(h.openSnapshots), s.Len(), len(s.historyModel))
		}
	}
}

// checkPairs requires an iteration to yield exactly the pairs of a model, in ascending order. It
// returns the keys.
func (h *history) checkPairs(m erasedSeeker, want historyModel) (all []uint64) {
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

func (h *history) seek(m erasedSeeker, want historyModel, keys ...uint64) {
	all := h.checkPairs(m, want)
	for more := len(keys) == 0; more; more = len(keys) < 8 {
		keys = append(keys, h.drawKey())
	}
	ranks := make([]uint64, len(keys))
	for i, k := range keys {
		at, _ := slices.BinarySearch(all, k)
		ranks[i] = uint64(at)
	}
	h.checkPointLookups(m, want, all, keys, ranks)
	h.checkRanges(m, all, keys)
}

// checkPointLookups looks up keys, their ranks, and the pairs with these ranks.
func (h *history) checkPointLookups(m erasedSeeker, want historyModel, all, keys []uint64, ranks []uint64) {
	vals, ok, got, next := make([]uint64, len(keys)), make([]bool, len(keys)), make([]uint64, len(keys)), make([]uint64, len(keys))
	_, err := m.Get(h.Context(), keys, vals, ok)
	h.must(err)
	h.must(m.Rank(h.Context(), keys, got))
	for i, k := range keys {
		if v, present := want[k]; vals[i] != v || ok[i] != present || got[i] != ranks[i] {
			h.Fatalf("key %v has %v, %v and rank %d, want %v, %v and %d", k, vals[i], ok[i], got[i], v, present, ranks[i])
		}
	}
	check := func(desc string, err error, place func(i int) int) {
		h.must(err)
		for i := range keys {
			at := place(i)
			if present := at >= 0 && at < len(all); ok[i] != present || present && (next[i] != all[at] || vals[i] != want[all[at]]) {
				h.Fatalf("%s of %v, rank %d, is %v: %v, %v, of %d", desc, keys[i], ranks[i], next[i], vals[i], ok[i], len(all))
			}
		}
	}
	_, err = m.Select(h.Context(), ranks, next, vals, ok)
	check("Select", err, func(i int) int { return int(ranks[i]) })
	_, err = m.Predecessor(h.Context(), keys, next, vals, ok)
	check("Predecessor", err, func(i int) int { return int(ranks[i]) - 1 })
	_, err = m.Successor(h.Context(), keys, next, vals, ok)
	check("Successor", err, func(i int) int {
		if _, present := want[keys[i]]; present {
			return int(ranks[i]) + 1
		}
		return int(ranks[i])
	})
}

// checkRanges looks up the ranges between adjacent keys, in both directions, with and without a
// limit.
func (h *history) checkRanges(m erasedSeeker, all, keys []uint64) {
	lo, hi := keys[1:], keys[:len(keys)-1]
	between := func(i int) []uint64 {
		from, _ := slices.BinarySearch(all, lo[i])
		to, found := slices.BinarySearch(all, hi[i])
		if found {
			to++
		}
		return slices.Clone(all[min(from, to):to])
	}
	for _, limit := range []int{0, 1, 2, 3, math.MaxInt} {
		var up, down weft.PairRows[uint64, uint64]
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
			h.checkRangeFirst(m, lo, hi, limit, &up)
		}
	}
}

// checkRangeFirst looks up ranges with RangeFirst and requires the pairs in want.
func (h *history) checkRangeFirst(m erasedSeeker, lo, hi []uint64, limit int, want *weft.PairRows[uint64, uint64]) {
	counts, keys, vals := make([]uint32, len(lo)), make([]uint64, len(lo)*limit), make([]uint64, len(lo)*limit)
	_, err := m.RangeFirst(h.Context(), lo, hi, limit, counts, keys, vals)
	h.must(err)
	for i := range lo {
		k, v := want.Row(i)
		if n := int(counts[i]); !slices.Equal(keys[i*limit:i*limit+n], k) || !slices.Equal(vals[i*limit:i*limit+n], v) {
			h.Fatalf("RangeFirst from %v to %v has %v, want %v", lo[i], hi[i], keys[i*limit:i*limit+n], k)
		}
	}
}
