package conformance

import (
	"context"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// AnyOrderedMap is a map like [weft.OrderedMap]. Its snapshots come by a method Snapshot,
// of a type of its own.
type AnyOrderedMap[K weft.Key, V weft.Value] interface {
	AnyMap[K, V]
	AnySeeker[K, V]
	Build(ctx context.Context, keys []K, vals []V) (int, error)
	BuildOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], n ...device.Slice[uint64]) error
	DeleteRange(ctx context.Context, lo, hi []K, removed []uint32) (int, error)
	DeleteRangeOn(s *device.Stream, lo, hi device.Slice[K], removed device.Slice[uint32], n ...device.Slice[uint64]) error
}

// AnySeeker is what an ordered map and its snapshots have in common.
type AnySeeker[K weft.Key, V weft.Value] interface {
	hostSeeker[K, V]
	Len() int
	Close() error
	GetOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], found device.Slice[bool], n ...device.Slice[uint64]) error
	ContainsOn(s *device.Stream, keys device.Slice[K], found device.Slice[bool], n ...device.Slice[uint64]) error
	RangeOn(s *device.Stream, lo, hi device.Slice[K], limit int, counts device.Slice[uint32], offsets device.Slice[uint64], keys device.Slice[K], vals device.Slice[V]) error
	RangeBackwardOn(s *device.Stream, lo, hi device.Slice[K], limit int, counts device.Slice[uint32], offsets device.Slice[uint64], keys device.Slice[K], vals device.Slice[V]) error
	RangeFirstOn(s *device.Stream, lo, hi device.Slice[K], limit int, counts device.Slice[uint32], keys device.Slice[K], vals device.Slice[V], n ...device.Slice[uint64]) error
	RangeLastOn(s *device.Stream, lo, hi device.Slice[K], limit int, counts device.Slice[uint32], keys device.Slice[K], vals device.Slice[V], n ...device.Slice[uint64]) error
	CountOn(s *device.Stream, lo, hi device.Slice[K], counts device.Slice[uint32]) error
	RankOn(s *device.Stream, keys device.Slice[K], ranks device.Slice[uint64]) error
	SelectOn(s *device.Stream, ranks device.Slice[uint64], keys device.Slice[K], vals device.Slice[V], found device.Slice[bool], n ...device.Slice[uint64]) error
	SuccessorOn(s *device.Stream, keys, next device.Slice[K], vals device.Slice[V], found device.Slice[bool], n ...device.Slice[uint64]) error
	PredecessorOn(s *device.Stream, keys, previous device.Slice[K], vals device.Slice[V], found device.Slice[bool], n ...device.Slice[uint64]) error
}

// hostSeeker are its methods for batches of the host.
type hostSeeker[K weft.Key, V weft.Value] interface {
	Get(ctx context.Context, keys []K, vals []V, found []bool) (int, error)
	Contains(ctx context.Context, keys []K, found []bool) (int, error)
	All() iter.Seq2[K, V]
	Pages(ctx context.Context) iter.Seq2[weft.Page[K, V], error]
	Backward() iter.Seq2[K, V]
	Between(ctx context.Context, lo, hi K) iter.Seq2[weft.Page[K, V], error]
	Range(ctx context.Context, lo, hi []K, limit int, rows *weft.PairRows[K, V]) error
	RangeBackward(ctx context.Context, lo, hi []K, limit int, rows *weft.PairRows[K, V]) error
	RangeFirst(ctx context.Context, lo, hi []K, limit int, counts []uint32, keys []K, vals []V) (int, error)
	RangeLast(ctx context.Context, lo, hi []K, limit int, counts []uint32, keys []K, vals []V) (int, error)
	Count(ctx context.Context, lo, hi []K, counts []uint32) (int, error)
	Rank(ctx context.Context, keys []K, ranks []uint64) error
	Select(ctx context.Context, ranks []uint64, keys []K, vals []V, found []bool) (int, error)
	Successor(ctx context.Context, keys, next []K, vals []V, found []bool) (int, error)
	Predecessor(ctx context.Context, keys, previous []K, vals []V, found []bool) (int, error)
	Min(ctx context.Context) (K, V, bool, error)
	Max(ctx context.Context) (K, V, bool, error)
}

// OrderedMap runs the suite for ordered maps on a device, which has that for maps within,
// but for some cases. For each pair of types the compiler makes the whole suite anew, which takes it seconds: tests of
// a package do with the same few, with all widths, signs and a floating type among them.
func OrderedMap[K weft.Key, V weft.Value](t *testing.T, dev device.Device, scale Scale, open Maker[AnyOrderedMap[K, V]], without ...string) {
	run(t, place[AnyOrderedMap[K, V]]{dev, scale, open}, OrderedMapCases(dev, scale, open), without...)
}

// OrderedMapCases are the tests of the suite for ordered maps: those of maps, and
// [SeekCases].
func OrderedMapCases[K weft.Key, V weft.Value](dev device.Device, scale Scale, open Maker[AnyOrderedMap[K, V]]) []Case[AnyOrderedMap[K, V]] {
	var cases []Case[AnyOrderedMap[K, V]]
	asMap := func(t testing.TB, dev device.Device) AnyMap[K, V] { return open(t, dev) }
	for _, c := range MapCases(dev, scale, asMap) {
		cases = append(cases, Case[AnyOrderedMap[K, V]]{c.Name, func(t testing.TB, m AnyOrderedMap[K, V]) { c.test(t, m) }})
	}
	return append(cases, SeekCases(dev, scale, open)...)
}

// SeekCases are those that only ordered maps have.
func SeekCases[K weft.Key, V weft.Value](dev device.Device, scale Scale, open Maker[AnyOrderedMap[K, V]]) []Case[AnyOrderedMap[K, V]] {
	s := orderedSuite[K, V]{place[AnyOrderedMap[K, V]]{dev, scale, open}}
	return []Case[AnyOrderedMap[K, V]]{
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
		{"RangeOnRoom", s.rangeOnRoom},
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

type orderedSuite[K weft.Key, V weft.Value] struct{ place[AnyOrderedMap[K, V]] }

// orderedModel is what an ordered map should hold.
type orderedModel[K weft.Key, V weft.Value] struct {
	pairs map[K]V
	keys  []K // sorted
}

func newModel[K weft.Key, V weft.Value]() *orderedModel[K, V] {
	return &orderedModel[K, V]{pairs: map[K]V{}}
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

// rank is how many keys are smaller.
func (o *orderedModel[K, V]) rank(k K) int {
	at, _ := slices.BinarySearch(o.keys, k)
	return at
}

// at is the pair at a place, or zero.
func (o *orderedModel[K, V]) at(place int) (k K, v V, ok bool) {
	if place < 0 || place >= len(o.keys) {
		return k, v, false
	}
	k = o.keys[place]
	return k, o.pairs[k], true
}

// behind is the place of the first pair with a larger key.
func (o *orderedModel[K, V]) behind(k K) int {
	at, found := slices.BinarySearch(o.keys, k)
	return at + btoi(found)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// between are the keys of a range, as far as a limit goes.
func (o *orderedModel[K, V]) between(lo, hi K, limit int, backward bool) []K {
	if lo > hi {
		return nil
	}
	keys := slices.Clone(o.keys[o.rank(lo):o.behind(hi)])
	if backward {
		slices.Reverse(keys)
	}
	if limit > 0 {
		keys = keys[:min(limit, len(keys))]
	}
	return keys
}

// seeks is a batch of what may be asked.
type seeks[K weft.Key] struct {
	lo, hi []K
	limit  int
	ranks  []uint64
}

// seeks are n ranges around the keys of a model: they begin and end at keys, beside them
// and anywhere, and some are empty.
func (s orderedSuite[K, V]) seeks(rng *rand.Rand, o *orderedModel[K, V], n, limit int) *seeks[K] {
	x := &seeks[K]{limit: limit}
	least, most := extremes[K]()
	bound := func() K {
		k := K(rng.Uint64())
		if len(o.keys) > 0 && rng.IntN(4) > 0 {
			k = o.keys[rng.IntN(len(o.keys))] + K(rng.IntN(3)) - 1
		}
		return k
	}
	near := func(k K) K {
		at := min(o.rank(k)+rng.IntN(12), len(o.keys)-1)
		if at < 0 {
			return k
		}
		return o.keys[at]
	}
	for i := range n {
		lo := bound()
		hi := near(lo)
		switch {
		case i%16 == 0:
			hi = bound()
		case i%16 == 1:
			hi = lo
		case i == 2:
			lo, hi = least, most
		case i == 3:
			lo, hi = most, least
		case i == 4:
			lo = least
		case i == 5:
			hi = most
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

// extremes are the smallest and the largest key.
func extremes[K weft.Key]() (least, most K) {
	all := odd[K]()
	return slices.Min(append(all, fromBits[K](1<<31), fromBits[K](1<<63))), slices.Max(append(all, fromBits[K](1<<31-1), fromBits[K](1<<63-1)))
}

// answers are what a batch of seeks comes to, in all ways to ask.
type answers[K weft.Key, V weft.Value] struct {
	up, down       weft.PairRows[K, V]
	first, last    some[K, V]
	counts         []uint32
	total          int
	ranks          []uint64
	picked         found[K, V]
	next, previous found[K, V]
}

// some are pairs of ranges with a fixed number of places for each.
type some[K weft.Key, V weft.Value] struct {
	counts []uint32
	keys   []K
	vals   []V
	hits   int
}

// found are pairs, one for each question.
type found[K weft.Key, V weft.Value] struct {
	keys []K
	vals []V
	ok   []bool
	hits int
}

// blank is what outputs hold before.
const blank = 0x5a5a5a5a5a5a5a5a

func blanks[T weft.Value](n int) []T { return slices.Repeat([]T{fromBits[T](blank)}, n) }

func newFound[K weft.Key, V weft.Value](n int) found[K, V] {
	f := found[K, V]{keys: blanks[K](n), vals: blanks[V](n), ok: make([]bool, n)}
	for i := range f.ok {
		f.ok[i] = i%2 == 0
	}
	return f
}

func newSome[K weft.Key, V weft.Value](n, limit int) some[K, V] {
	return some[K, V]{counts: blanks[uint32](n), keys: blanks[K](n * limit), vals: blanks[V](n * limit)}
}

// stride is the number of places of a range where the number is fixed.
func (x *seeks[K]) stride() int { return max(1, x.limit) }

// answers are those of the model.
func (o *orderedModel[K, V]) answers(x *seeks[K]) *answers[K, V] {
	n := len(x.lo)
	a := &answers[K, V]{
		first: newSome[K, V](n, x.stride()), last: newSome[K, V](n, x.stride()), counts: make([]uint32, n), ranks: make([]uint64, n),
		picked: newFound[K, V](n), next: newFound[K, V](n), previous: newFound[K, V](n),
	}
	a.up.Offsets, a.down.Offsets = []uint64{0}, []uint64{0}
	for i, lo := range x.lo {
		all := o.between(lo, x.hi[i], 0, false)
		a.counts[i] = uint32(len(all))
		a.total += len(all)
		a.ranks[i] = uint64(o.rank(lo))
		o.rows(&a.up, o.between(lo, x.hi[i], x.limit, false))
		o.rows(&a.down, o.between(lo, x.hi[i], x.limit, true))
		o.some(&a.first, i, x.stride(), o.between(lo, x.hi[i], x.stride(), false))
		o.some(&a.last, i, x.stride(), o.between(lo, x.hi[i], x.stride(), true))
		place := len(o.keys)
		if x.ranks[i] < uint64(place) {
			place = int(x.ranks[i])
		}
		o.found(&a.picked, i, place)
		o.found(&a.next, i, o.behind(lo))
		o.found(&a.previous, i, o.rank(lo)-1)
	}
	return a
}

func (o *orderedModel[K, V]) rows(r *weft.PairRows[K, V], keys []K) {
	for _, k := range keys {
		r.Keys, r.Vals = append(r.Keys, k), append(r.Vals, o.pairs[k])
	}
	r.Offsets = append(r.Offsets, uint64(len(r.Keys)))
}

func (o *orderedModel[K, V]) some(a *some[K, V], i, limit int, keys []K) {
	a.counts[i] = uint32(len(keys))
	a.hits += btoi(len(keys) > 0)
	for j, k := range keys {
		a.keys[i*limit+j], a.vals[i*limit+j] = k, o.pairs[k]
	}
}

func (o *orderedModel[K, V]) found(f *found[K, V], i, place int) {
	f.keys[i], f.vals[i], f.ok[i] = o.at(place)
	f.hits += btoi(f.ok[i])
}

// Some runs some cases of the suite for ordered maps on a simulated GPU; with the race detector, none, so that nothing of the suite is
// compiled for types that only kernels are tried with.
func Some[K weft.Key, V weft.Value](t *testing.T, dev device.Device, scale Scale, open Maker[AnyOrderedMap[K, V]], names ...string) {
	if Raced {
		t.Skip("the simulator has goroutines of its own")
		return
	}
	cases := slices.DeleteFunc(OrderedMapCases(dev, scale, open), func(c Case[AnyOrderedMap[K, V]]) bool { return !slices.Contains(names, c.Name) })
	if len(cases) != len(names) {
		t.Fatalf("there are %d cases of %d: %v", len(cases), len(names), names)
	}
	run(t, place[AnyOrderedMap[K, V]]{dev, scale, open}, cases)
}
