package conformance

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// OrderedMap runs the suites for maps and for ordered maps on a device, except the cases with the
// given names.
func OrderedMap[K weft.Key, V weft.Value](t *testing.T, dev device.Device, scale Scale, open Maker[AnyOrderedMap[K, V]], without ...string) {
	p := orderedMapTarget(dev, scale, open)
	run(t, p, orderedMapCases(p), without...)
}

func orderedMapTarget[K weft.Key, V weft.Value](dev device.Device, scale Scale, open Maker[AnyOrderedMap[K, V]]) target[erasedOrderedMap] {
	return target[erasedOrderedMap]{typesOf[K, V](), dev, scale, erasing(open, eraseOrderedMap[K, V])}
}

func orderedMapCases(p target[erasedOrderedMap]) []Case[erasedOrderedMap] {
	maps := target[erasedMap]{p.types, p.dev, p.scale, func(t testing.TB, dev device.Device) erasedMap { return p.open(t, dev) }}
	return append(typedCases(mapCases(maps), func(m erasedOrderedMap) erasedMap { return m }), seekCases(p)...)
}

// SeekCases returns the cases that only ordered maps have.
func SeekCases[K weft.Key, V weft.Value](dev device.Device, scale Scale, open Maker[AnyOrderedMap[K, V]]) []Case[AnyOrderedMap[K, V]] {
	return typedCases(seekCases(orderedMapTarget(dev, scale, open)), eraseOrderedMap[K, V])
}

func seekCases(p target[erasedOrderedMap]) []Case[erasedOrderedMap] {
	s := orderedSuite{p}
	return []Case[erasedOrderedMap]{
		{"SeekEmpty", s.empty},
		{"Seek", s.seek},
		{"SeekEveryKey", s.everyKey},
		{"SeekDense", s.dense},
		{"SeekChurn", s.churn},
		{"SeekNilOutputs", s.nilOutputs},
		{"SeekLengths", s.lengths},
		{"SeekLimits", s.limits},
		{"SeekCancelled", s.cancelled},
		{"SeekClosed", s.closed},
		{"SeekOnRefuses", s.onRefuses},
		{"SeekOnBehindChanges", s.onBehindChanges},
		{"RangeInto", s.rangeInto},
		{"RangeCursor", s.rangeCursor},
		{"RangeOnRoom", s.rangeOnCapacity},
		{"Ascending", s.ascending},
		{"Backward", s.backward},
		{"Between", s.between},
		{"DeleteRange", s.deleteRange},
		{"DeleteRangeOverlaps", s.deleteRangeOverlaps},
		{"Build", s.build},
		{"BuildAgain", s.buildAgain},
		{"Snapshot", s.snapshot},
		{"Snapshots", s.snapshots},
		{"SnapshotCloses", s.snapshotCloses},
		{"SnapshotConcurrent", s.snapshotConcurrent},
	}
}

type orderedSuite struct{ target[erasedOrderedMap] }

type orderedModel[K weft.Key, V weft.Value] struct {
	pairs map[K]V
	keys  []K // sorted
}

func (o *orderedModel[K, V]) put(keys []K, vals []V) {
	for i, k := range keys {
		o.pairs[k] = vals[i]
	}
	o.sort()
}

func (o *orderedModel[K, V]) remove(keys []K) {
	for _, k := range keys {
		delete(o.pairs, k)
	}
	o.sort()
}

func (o *orderedModel[K, V]) sort() { o.keys = slices.Sorted(maps.Keys(o.pairs)) }

func (o *orderedModel[K, V]) clone() *orderedModel[K, V] {
	return &orderedModel[K, V]{maps.Clone(o.pairs), slices.Clone(o.keys)}
}

func (o *orderedModel[K, V]) rank(k K) int {
	at, _ := slices.BinarySearch(o.keys, k)
	return at
}

// pairAt returns the pair with the given rank. ok is false if no pair has that rank.
func (o *orderedModel[K, V]) pairAt(place int) (k K, v V, ok bool) {
	if place < 0 || place >= len(o.keys) {
		return k, v, false
	}
	k = o.keys[place]
	return k, o.pairs[k], true
}

// upperBound returns the number of keys that are not larger than k.
func (o *orderedModel[K, V]) upperBound(k K) int {
	at, found := slices.BinarySearch(o.keys, k)
	return at + btoi(found)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// keysBetween returns the keys in a range, at most limit if limit is positive.
func (o *orderedModel[K, V]) keysBetween(lo, hi K, limit int, backward bool) []K {
	if lo > hi {
		return nil
	}
	keys := slices.Clone(o.keys[o.rank(lo):o.upperBound(hi)])
	if backward {
		slices.Reverse(keys)
	}
	if limit > 0 {
		keys = keys[:min(limit, len(keys))]
	}
	return keys
}

// erasedModel is an orderedModel with keys and values as the suites represent them.
type erasedModel struct {
	types
	orderedModel[uint64, uint64]
}

func (y *types) newModel() *erasedModel {
	return &erasedModel{*y, orderedModel[uint64, uint64]{pairs: map[uint64]uint64{}}}
}

func (o *erasedModel) clone() *erasedModel {
	return &erasedModel{o.types, *o.orderedModel.clone()}
}

// pairAt returns the pair with the given rank. If none has it, k represents the zero key.
func (o *erasedModel) pairAt(place int) (k, v uint64, ok bool) {
	if k, v, ok = o.orderedModel.pairAt(place); !ok {
		k = o.key(0)
	}
	return k, v, ok
}

// seeks holds arguments for all ordered lookups.
type seeks struct {
	lo, hi []uint64
	limit  int
	ranks  []uint64
}

// seeks returns n random ranges. Their bounds are keys of the model, keys next to these, or any
// keys. Some ranges are empty.
func (s orderedSuite) seeks(rng *rand.Rand, o *erasedModel, n, limit int) *seeks {
	x := &seeks{limit: limit}
	bound := func() uint64 {
		k := s.key(rng.Uint64())
		if len(o.keys) > 0 && rng.IntN(4) > 0 {
			k = s.keyAfter(o.keys[rng.IntN(len(o.keys))], rng.IntN(3)-1)
		}
		return k
	}
	nearbyKey := func(k uint64) uint64 {
		at := min(o.rank(k)+rng.IntN(12), len(o.keys)-1)
		if at < 0 {
			return k
		}
		return o.keys[at]
	}
	for i := range n {
		lo := bound()
		hi := nearbyKey(lo)
		switch {
		case i%16 == 0:
			hi = bound()
		case i%16 == 1:
			hi = lo
		case i == 2:
			lo, hi = 0, s.keyMask
		case i == 3:
			lo, hi = s.keyMask, 0
		case i == 4:
			lo = 0
		case i == 5:
			hi = s.keyMask
		}
		x.lo, x.hi = append(x.lo, lo), append(x.hi, hi)
		x.ranks = append(x.ranks, uint64(rng.IntN(len(o.keys)+3)))
	}
	if n > 8 {
		x.ranks[7] = ^uint64(0)
		x.ranks[8] = 1<<32 | 1
	}
	return x
}

// seekResults holds the results that all ordered lookups return for a seeks.
type seekResults struct {
	up, down       weft.PairRows[uint64, uint64]
	first, last    fixedRanges
	counts         []uint32
	total          int
	ranks          []uint64
	picked         foundPairs
	next, previous foundPairs
}

// fixedRanges holds pairs found inside ranges, in arrays with the same number of elements for each
// range.
type fixedRanges struct {
	counts []uint32
	keys   []uint64
	vals   []uint64
	hits   int
}

// foundPairs holds one pair for each lookup.
type foundPairs struct {
	keys []uint64
	vals []uint64
	ok   []bool
	hits int
}

// blank is the initial content of output elements.
const blank = 0x5a5a5a5a5a5a5a5a

func blanks[T weft.Value](n int) []T { return slices.Repeat([]T{fromBits[T](blank)}, n) }

func (y *types) newFoundPairs(n int) foundPairs {
	f := foundPairs{keys: y.blankKeys(n), vals: y.blankVals(n), ok: make([]bool, n)}
	for i := range f.ok {
		f.ok[i] = i%2 == 0
	}
	return f
}

func (y *types) newFixedRanges(n, limit int) fixedRanges {
	return fixedRanges{counts: blanks[uint32](n), keys: y.blankKeys(n * limit), vals: y.blankVals(n * limit)}
}

// stride returns the number of elements per range in a fixedRanges.
func (x *seeks) stride() int { return max(1, x.limit) }

// seekResults returns the results that the model requires.
func (o *erasedModel) seekResults(x *seeks) *seekResults {
	n := len(x.lo)
	a := &seekResults{
		first: o.newFixedRanges(n, x.stride()), last: o.newFixedRanges(n, x.stride()), counts: make([]uint32, n), ranks: make([]uint64, n),
		picked: o.newFoundPairs(n), next: o.newFoundPairs(n), previous: o.newFoundPairs(n),
	}
	a.up.Offsets, a.down.Offsets = []uint64{0}, []uint64{0}
	for i, lo := range x.lo {
		all := o.keysBetween(lo, x.hi[i], 0, false)
		a.counts[i] = uint32(len(all))
		a.total += len(all)
		a.ranks[i] = uint64(o.rank(lo))
		o.appendRow(&a.up, o.keysBetween(lo, x.hi[i], x.limit, false))
		o.appendRow(&a.down, o.keysBetween(lo, x.hi[i], x.limit, true))
		o.setRange(&a.first, i, x.stride(), o.keysBetween(lo, x.hi[i], x.stride(), false))
		o.setRange(&a.last, i, x.stride(), o.keysBetween(lo, x.hi[i], x.stride(), true))
		place := len(o.keys)
		if x.ranks[i] < uint64(place) {
			place = int(x.ranks[i])
		}
		o.setFound(&a.picked, i, place)
		o.setFound(&a.next, i, o.upperBound(lo))
		o.setFound(&a.previous, i, o.rank(lo)-1)
	}
	return a
}

func (o *orderedModel[K, V]) appendRow(r *weft.PairRows[K, V], keys []K) {
	for _, k := range keys {
		r.Keys, r.Vals = append(r.Keys, k), append(r.Vals, o.pairs[k])
	}
	r.Offsets = append(r.Offsets, uint64(len(r.Keys)))
}

func (o *erasedModel) setRange(a *fixedRanges, i, limit int, keys []uint64) {
	a.counts[i] = uint32(len(keys))
	a.hits += btoi(len(keys) > 0)
	for j, k := range keys {
		a.keys[i*limit+j], a.vals[i*limit+j] = k, o.pairs[k]
	}
}

func (o *erasedModel) setFound(f *foundPairs, i, place int) {
	f.keys[i], f.vals[i], f.ok[i] = o.pairAt(place)
	f.hits += btoi(f.ok[i])
}

// RunCases runs the named cases of the suite for ordered maps on a simulated GPU. Under the race
// detector it skips the test.
func RunCases[K weft.Key, V weft.Value](t *testing.T, dev device.Device, scale Scale, open Maker[AnyOrderedMap[K, V]], names ...string) {
	if Raced {
		t.Skip("the simulator has goroutines of its own")
	}
	p := orderedMapTarget(dev, scale, open)
	cases := slices.DeleteFunc(orderedMapCases(p), func(c Case[erasedOrderedMap]) bool { return !slices.Contains(names, c.Name) })
	if len(cases) != len(names) {
		t.Fatalf("there are %d cases of %d: %v", len(cases), len(names), names)
	}
	run(t, p, cases)
}
