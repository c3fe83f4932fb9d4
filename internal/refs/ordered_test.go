package refs

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/ordered"
)

// Kinds of lookups in an ordered map (twins: refs_ordered.cu).
const (
	askFind = uint32(iota)
	askFindWarp
	askNext
	askBefore
	askRank
	askSelect
	askCount
	askRange
	askRangeTile
	askSize
	questionKinds
)

// query is a lookup with its result.
type query[K weft.Key, V weft.Value] struct {
	kind    uint32
	key, to K
	answer  uint64
	keys    []K
	vals    []V
}

// maxPairs is the maximum number of pairs that a lookup lists.
const maxPairs = 40

// queryRunner runs user kernels on ordered maps.
type queryRunner struct {
	s                  *device.Stream
	ask, warps, tiles  device.Kernel
	perTile, threadsOf int
}

func openQueries[K weft.Key, V weft.Value](t testing.TB, dev device.Device) *queryRunner {
	t.Helper()
	w := batch.MapWidths[K, V]()
	return &queryRunner{
		s:   must[*device.Stream](t)(dev.NewStream()),
		ask: kernel(t, dev, refsOrderedImages, w, "ask"), warps: kernel(t, dev, refsOrderedImages, w, "warps"),
		// a 32-bit key has tiles of 4
		tiles: kernel(t, dev, refsOrderedImages, w, "tiles"), perTile: w.Key, threadsOf: 64,
	}
}

// launchQueries runs all lookups on a Ref. It returns a function that reads the results and frees
// their memory.
func launchQueries[K weft.Key, V weft.Value](t testing.TB, x *queryRunner, r ordered.Ref, all []query[K, V]) func() {
	t.Helper()
	s, n := x.s, len(all)
	kinds, keys, to := make([]uint32, n), make([]K, n), make([]K, n)
	for i, q := range all {
		kinds[i], keys[i], to[i] = q.kind, q.key, q.to
	}
	kindsOn, keysOn, toOn := must[device.Slice[uint32]](t)(device.Upload(s, kinds)), must[device.Slice[K]](t)(device.Upload(s, keys)), must[device.Slice[K]](t)(device.Upload(s, to))
	answers := must[device.Slice[uint64]](t)(device.Upload(s, make([]uint64, n)))
	keysOut, valsOut := must[device.Slice[K]](t)(device.Upload(s, make([]K, n*maxPairs))), must[device.Slice[V]](t)(device.Upload(s, make([]V, n*maxPairs)))
	p := orderedParams{ref: r, of: questions{
		kinds: kindsOn.Ptr(), keys: keysOn.Ptr(), to: toOn.Ptr(), answers: answers.Ptr(), keysOut: keysOut.Ptr(), valsOut: valsOut.Ptr(),
		n: uint32(n), most: maxPairs,
	}}
	for k, threads := range map[device.Kernel]int{x.ask: n, x.warps: n, x.tiles: n * x.perTile} {
		check(t, device.Launch(s, k, device.Dim{X: (threads + x.threadsOf - 1) / x.threadsOf}, device.Dim{X: x.threadsOf}, &p))
	}
	return func() {
		t.Helper()
		got, gotKeys, gotVals := make([]uint64, n), make([]K, n*maxPairs), make([]V, n*maxPairs)
		check(t, errors.Join(answers.CopyTo(t.Context(), s, got), keysOut.CopyTo(t.Context(), s, gotKeys), valsOut.CopyTo(t.Context(), s, gotVals)))
		check(t, errors.Join(kindsOn.Free(), keysOn.Free(), toOn.Free(), answers.Free(), keysOut.Free(), valsOut.Free()))
		for i := range all {
			all[i].answer, all[i].keys, all[i].vals = got[i], gotKeys[i*maxPairs:(i+1)*maxPairs], gotVals[i*maxPairs:(i+1)*maxPairs]
		}
	}
}

// pairsOf is the model of an ordered map.
type pairsOf[K weft.Key, V weft.Value] struct {
	keys []K
	vals map[K]V
}

func modelOf[K weft.Key, V weft.Value](vals map[K]V) pairsOf[K, V] {
	m := pairsOf[K, V]{vals: vals}
	for k := range vals {
		m.keys = append(m.keys, k)
	}
	slices.Sort(m.keys)
	return m
}

// wrong returns an error if a result differs from the model.
func (m pairsOf[K, V]) wrong(q query[K, V]) error {
	below, has := slices.BinarySearch(m.keys, q.key)
	upto, hasTo := slices.BinarySearch(m.keys, q.to)
	if hasTo {
		upto++
	}
	if q.key > q.to {
		upto = below
	}
	var want uint64
	list := m.keys[:0]
	one := func(i int) {
		if i >= 0 && i < len(m.keys) {
			want, list = 1, m.keys[i:i+1]
		}
	}
	switch q.kind {
	case askFind, askFindWarp:
		if has {
			one(below)
		}
	case askNext:
		if has {
			below++
		}
		one(below)
	case askBefore:
		one(below - 1)
	case askSelect:
		if uint64(q.key) < uint64(len(m.keys)) {
			one(int(uint64(q.key)))
		}
	case askRank:
		want = uint64(below)
	case askCount:
		want = uint64(upto - below)
	case askSize:
		want = uint64(len(m.keys))
	default:
		list = m.keys[below:min(upto, below+maxPairs)]
		want = uint64(len(list))
	}
	if q.answer != want {
		return fmt.Errorf("question %d of %d to %d: %d, want %d", q.kind, q.key, q.to, q.answer, want)
	}
	for i, k := range list {
		find := q.kind == askFind || q.kind == askFindWarp
		if !find && q.keys[i] != k || q.vals[i] != m.vals[k] {
			return fmt.Errorf("question %d of %d to %d: pair %d is %d with %v, want %d with %v", q.kind, q.key, q.to, i, q.keys[i], q.vals[i], k, m.vals[k])
		}
	}
	return nil
}

// queriesOf returns random lookups near the keys.
func queriesOf[K weft.Key, V weft.Value](rng *rand.Rand, m pairsOf[K, V], n int) []query[K, V] {
	near := func() K {
		if len(m.keys) == 0 || rng.IntN(10) == 0 {
			return K(rng.Uint64())
		}
		return m.keys[rng.IntN(len(m.keys))] + K(rng.IntN(3)) - 1
	}
	all := make([]query[K, V], n)
	for i := range all {
		q := &all[i]
		q.kind, q.key, q.to = uint32(i)%questionKinds, near(), near()
		if rng.IntN(3) != 0 && len(m.keys) > 0 { // a short range
			at, _ := slices.BinarySearch(m.keys, q.key)
			q.to = m.keys[min(len(m.keys)-1, at+rng.IntN(90))]
		}
		if q.kind == askSelect {
			q.key = K(rng.IntN(len(m.keys) + 2))
		}
	}
	return append(all, query[K, V]{kind: askNext, key: highest[K]()}, query[K, V]{kind: askBefore, key: lowest[K]()},
		query[K, V]{kind: askCount, key: lowest[K](), to: highest[K]()}, query[K, V]{kind: askRangeTile, key: lowest[K](), to: highest[K]()})
}

// lowest and highest return the smallest and largest key of a type.
func lowest[K weft.Key]() K {
	var zero K
	if zero-1 > zero {
		return zero
	}
	return highest[K]() + 1
}

func highest[K weft.Key]() K {
	top := K(1)
	for top<<1 > top {
		top <<= 1
	}
	return top - 1 + top
}

func put[K weft.Key, V weft.Value](t testing.TB, m *ordered.Map[K, V], want map[K]V, keys []K, round int) {
	t.Helper()
	vals := make([]V, len(keys))
	for i, k := range keys {
		vals[i] = V(k) + V(round)
		want[k] = vals[i]
	}
	must[int](t)(m.Put(t.Context(), keys, vals))
}

// orderedModel compares all lookups with the model, on maps of several sizes.
func orderedModel[K weft.Key, V weft.Value](t *testing.T, dev device.Device) {
	rng := rand.New(rand.NewPCG(3, 4))
	x := openQueries[K, V](t, dev)
	m := must[*ordered.Map[K, V]](t)(ordered.New[K, V](dev, nil))
	want := map[K]V{}
	for round, n := range []int{0, 1, 50, 700} {
		keys := make([]K, n)
		for i := range keys {
			keys[i] = K(rng.IntN(4000)) - 2000 // negative keys wrap around in unsigned types
		}
		if n == 50 {
			keys = append(keys, lowest[K](), highest[K]())
		}
		put(t, m, want, keys, round)
		is := modelOf(want)
		all := queriesOf(rng, is, 100)
		var answers func()
		check(t, m.View(t.Context(), x.s, func(r ordered.Ref) error { answers = launchQueries(t, x, r, all); return nil }))
		answers()
		for _, q := range all {
			if err := is.wrong(q); err != nil {
				t.Fatalf("%d pairs: %v", len(want), err)
			}
		}
	}
	check(t, errors.Join(m.Check(t.Context()), m.Close(), x.s.Close()))
}

// User kernels find the content of an ordered map, for all types.
func TestOrdered(t *testing.T) {
	t.Run("uint32,uint32", func(t *testing.T) { t.Parallel(); onGPUs(t, 1, orderedModel[uint32, uint32]) })
	t.Run("int64,int32", func(t *testing.T) { t.Parallel(); onGPUs(t, 0, orderedModel[int64, int32]) })
	t.Run("uint64,float32", func(t *testing.T) { t.Parallel(); onGPUs(t, 0, orderedModel[uint64, float32]) })
}

// During changes, a Ref of a snapshot shows the snapshot, and a Ref of the map shows the present
// content. The snapshot may be closed before the kernels end.
func TestOrderedSnapshots(t *testing.T) {
	onGPUs(t, 2, func(t *testing.T, dev device.Device) {
		rng := rand.New(rand.NewPCG(5, 6))
		x := openQueries[uint32, uint32](t, dev)
		m := must[*ordered.Map[uint32, uint32]](t)(ordered.New[uint32, uint32](dev, nil))
		now := map[uint32]uint32{}
		keys := keysOf[uint32](rng, 300, 900)
		put(t, m, now, keys, 0)
		then := modelOf(maps.Clone(now))
		at := must[*weft.Snapshot[uint32, uint32]](t)(m.Snapshot(t.Context()))
		for round := range 2 {
			put(t, m, now, keysOf[uint32](rng, 60, 900), round+1)
			is := modelOf(maps.Clone(now))
			old, cur := queriesOf(rng, then, 40), queriesOf(rng, is, 40)
			var oldAnswers, answers func()
			check(t, m.ViewAt(t.Context(), at, x.s, func(r ordered.Ref) error { oldAnswers = launchQueries(t, x, r, old); return nil }))
			check(t, m.View(t.Context(), x.s, func(r ordered.Ref) error { answers = launchQueries(t, x, r, cur); return nil }))
			if round == 1 {
				check(t, at.Close())
			}
			gone := keysOf[uint32](rng, 100, 900) // deleted while the kernels run
			must[int](t)(m.Delete(t.Context(), gone, nil))
			for _, k := range gone {
				delete(now, k)
			}
			put(t, m, now, keysOf[uint32](rng, 200, 900), 10+round)
			if round%2 == 1 {
				check(t, m.Compact(t.Context()))
			}
			oldAnswers()
			answers()
			for i := range old {
				if err := errors.Join(then.wrong(old[i]), is.wrong(cur[i])); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
			}
		}
		err := m.ViewAt(t.Context(), at, x.s, nil)
		if !errors.Is(err, weft.ErrClosed) {
			t.Errorf("a View of a snapshot that is closed: %v", err)
		}
		check(t, errors.Join(m.Check(t.Context()), m.Close(), x.s.Close()))
	})
}

// A View sees the batches submitted before it on any stream.
func TestOrderedViewBehindChanges(t *testing.T) {
	onGPUs(t, 3, func(t *testing.T, dev device.Device) {
		x := openQueries[uint32, uint32](t, dev)
		m := must[*ordered.Map[uint32, uint32]](t)(ordered.New[uint32, uint32](dev, nil))
		s := must[*device.Stream](t)(dev.NewStream())
		keys := make([]uint32, 200)
		for i := range keys {
			keys[i] = uint32(3 * i)
		}
		on := must[device.Slice[uint32]](t)(device.Upload(s, keys))
		want := map[uint32]uint32{}
		for _, k := range keys {
			want[k] = k
		}
		is := modelOf(want)
		all := queriesOf(rand.New(rand.NewPCG(1, 2)), is, 60)
		check(t, m.PutOn(s, on, on))
		var answers func()
		check(t, m.View(t.Context(), x.s, func(r ordered.Ref) error { answers = launchQueries(t, x, r, all); return nil }))
		answers()
		for _, q := range all {
			if err := is.wrong(q); err != nil {
				t.Fatal(err)
			}
		}
		check(t, errors.Join(s.Sync(t.Context()), on.Free(), m.Check(t.Context()), m.Close(), s.Close(), x.s.Close()))
	})
}

// View refuses snapshots of other maps, streams of other devices, and CPUs.
func TestOrderedRefusals(t *testing.T) {
	host := must[device.Device](t)(cpu.Open(nil))
	defer host.Close()
	onHost := must[*ordered.Map[int64, int64]](t)(ordered.New[int64, int64](host, nil))
	hs := must[*device.Stream](t)(host.NewStream())
	at := must[*weft.Snapshot[int64, int64]](t)(onHost.Snapshot(t.Context()))
	for _, err := range []error{onHost.View(t.Context(), hs, nil), onHost.ViewAt(t.Context(), at, hs, nil)} {
		if !errors.Is(err, device.ErrNoKernels) {
			t.Errorf("on a CPU: %v", err)
		}
	}
	dev := must[*sim.Device](t)(sim.Open(nil))
	defer dev.Close()
	m := must[*ordered.Map[int64, int64]](t)(ordered.New[int64, int64](dev, nil))
	s := must[*device.Stream](t)(dev.NewStream())
	for what, err := range map[string]error{
		"no snapshot": m.ViewAt(t.Context(), nil, s, nil), "one of another map": m.ViewAt(t.Context(), at, s, nil), "another device": m.View(t.Context(), hs, nil),
	} {
		if !errors.Is(err, device.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	check(t, errors.Join(at.Close(), onHost.Close(), hs.Close(), m.Close(), s.Close()))
}

// A kernel traps if the map has other widths.
func TestOrderedOtherWidths(t *testing.T) {
	faults(t, "trap", func(dev device.Device) error {
		x := openQueries[uint32, uint32](t, dev)
		m := must[*ordered.Map[uint64, uint32]](t)(ordered.New[uint64, uint32](dev, nil))
		words := must[device.Slice[uint64]](t)(device.Upload(x.s, make([]uint64, 64)))
		return errors.Join(m.View(t.Context(), x.s, func(r ordered.Ref) error {
			w := words.Ptr()
			p := orderedParams{ref: r, of: questions{kinds: w, keys: w, to: w, answers: w, keysOut: w, valsOut: w, n: 1, most: 1}}
			return device.Launch(x.s, x.ask, device.Dim{X: 1}, device.Dim{X: 32}, &p)
		}), x.s.Sync(t.Context()))
	})
}
