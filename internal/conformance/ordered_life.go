package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// snapshotOf returns a snapshot of a map. It fails the test if the map has no snapshots.
func snapshotOf(t testing.TB, c context.Context, m erasedOrderedMap) (erasedSeeker, error) {
	at, ok, err := m.snapshot(c)
	if !ok {
		t.Fatal("the map has no snapshots")
	}
	return at, err
}

func (s orderedSuite) takeSnapshot(t testing.TB, m erasedOrderedMap) erasedSeeker {
	t.Helper()
	at, err := snapshotOf(t, ctx(), m)
	must(t, err)
	return at
}

// checkOrder requires iterations in both directions to yield the pairs of a model in order.
func (s orderedSuite) checkOrder(t testing.TB, m erasedSeeker, o *erasedModel) {
	t.Helper()
	check := func(desc string, keys []uint64, vals []uint64, want []uint64) {
		t.Helper()
		if !slices.Equal(keys, want) {
			t.Fatalf("%s has %d keys, want %d, or another order", desc, len(keys), len(want))
		}
		for i, k := range keys {
			if vals[i] != o.pairs[k] {
				t.Fatalf("%s has value %#x for key %#x, want %#x", desc, vals[i], k, o.pairs[k])
			}
		}
	}
	down := slices.Clone(o.keys)
	slices.Reverse(down)
	for desc, of := range map[string]struct {
		all  func(func(uint64, uint64) bool)
		want []uint64
	}{"All": {m.All(), o.keys}, "Backward": {m.Backward(), down}} {
		var keys []uint64
		var vals []uint64
		for k, v := range of.all {
			keys, vals = append(keys, k), append(vals, v)
		}
		check(desc, keys, vals, of.want)
	}
	var keys []uint64
	var vals []uint64
	for p, err := range m.Pages(ctx()) {
		must(t, err)
		keys, vals = append(keys, p.Keys...), append(vals, p.Vals...)
	}
	check("Pages", keys, vals, o.keys)
}

// Range must append to the rows it is given. After an error it must leave them unchanged.
func (s orderedSuite) rangeInto(t testing.TB, m erasedOrderedMap) {
	g := rng()
	o := s.fillRandom(t, m, g, min(s.scale.Rows(), 1000))
	x := s.seeks(g, o, 60, 5)
	want := o.seekResults(x)
	var rows weft.PairRows[uint64, uint64]
	must(t, m.Range(ctx(), x.lo, x.hi, x.limit, &rows))
	must(t, m.RangeBackward(ctx(), x.lo, x.hi, x.limit, &rows))
	for nChecks := range int64(3) {
		was := rows
		if err := m.Range(&countdown{ctx(), newCount(nChecks)}, x.lo, x.hi, 0, &rows); err == nil {
			rows = was
		}
		if !slices.Equal(rows.Offsets, was.Offsets) || len(rows.Keys) != len(was.Keys) || len(rows.Vals) != len(was.Vals) {
			t.Errorf("Range with a context that ends leaves %d rows of %d", rows.Len(), was.Len())
		}
	}
	if rows.Len() != 2*len(x.lo) {
		t.Fatalf("there are %d rows of two batches of %d", rows.Len(), len(x.lo))
	}
	for i := range rows.Len() {
		of := &want.up
		if i >= len(x.lo) {
			of = &want.down
		}
		keys, vals := rows.Row(i)
		if k, v := of.Row(i % len(x.lo)); !slices.Equal(keys, k) || !slices.Equal(vals, v) {
			t.Fatalf("row %d has keys %#x, want %#x; or other values", i, keys, k)
		}
	}
	if rows.Reset(); rows.Len() != 0 {
		t.Errorf("there are %d rows after Reset", rows.Len())
	}
}

// If each range continues where a range with a limit ended, all pairs must be found exactly once.
func (s orderedSuite) rangeCursor(t testing.TB, m erasedOrderedMap) {
	g := rng()
	o := s.fillRandom(t, m, g, 200)
	ends := distinct(s.reservedKeys())
	s.fill(t, m, o, ends)
	minKey, maxKey := uint64(0), s.keyMask
	for _, limit := range []int{1, 7, 64, len(o.keys), len(o.keys) + 1} {
		var up, down []uint64
		var rows weft.PairRows[uint64, uint64]
		for lo, more := minKey, true; more; lo, more = rows.Next(0, limit, maxKey) {
			rows.Reset()
			must(t, m.Range(ctx(), []uint64{lo}, []uint64{maxKey}, limit, &rows))
			up = append(up, rows.Keys...)
		}
		for hi, more := maxKey, true; more; hi, more = rows.NextBackward(0, limit, minKey) {
			rows.Reset()
			must(t, m.RangeBackward(ctx(), []uint64{minKey}, []uint64{hi}, limit, &rows))
			down = append(down, rows.Keys...)
		}
		slices.Reverse(down)
		if !slices.Equal(up, o.keys) || !slices.Equal(down, o.keys) {
			t.Fatalf("limit %d: %d keys upward and %d downward, want %d", limit, len(up), len(down), len(o.keys))
		}
	}
}

func (s orderedSuite) fill(t testing.TB, m erasedOrderedMap, o *erasedModel, keys []uint64) {
	t.Helper()
	vals := s.randomValues(len(keys), rng())
	_, err := m.Put(ctx(), keys, vals)
	must(t, err)
	o.put(keys, vals)
}

// Range methods on the device must fill their outputs up to the capacity, and write nothing beyond.
func (s orderedSuite) rangeOnCapacity(t testing.TB, m erasedOrderedMap) {
	g := rng()
	o := s.fillRandom(t, m, g, 500)
	st := devicetest.NewStream(t, s.dev)
	x := s.seeks(g, o, 40, 0)
	want := o.seekResults(x)
	total := len(want.up.Keys)
	for _, capacity := range []int{total, total + 9, total / 2, 1, 0} {
		got, fits := s.seekDevice(t, m, st, x, capacity, capacity), min(capacity, total)
		if !slices.Equal(got.up.Offsets, want.up.Offsets) || !slices.Equal(got.up.Keys[:fits], want.up.Keys[:fits]) || !slices.Equal(got.up.Vals[:fits], want.up.Vals[:fits]) {
			t.Fatalf("with room for %d pairs of %d RangeOn writes other ones", capacity, total)
		}
		if !slices.Equal(got.down.Keys[:fits], want.down.Keys[:fits]) || !slices.Equal(got.down.Vals[:fits], want.down.Vals[:fits]) {
			t.Fatalf("with room for %d pairs of %d RangeBackwardOn writes other ones", capacity, total)
		}
		if rest := got.up.Keys[fits:]; !slices.Equal(rest, s.blankKeys(len(rest))) {
			t.Fatalf("with room for %d pairs RangeOn writes after the last of %d", capacity, total)
		}
	}
}

func (s orderedSuite) ascending(t testing.TB, m erasedOrderedMap) {
	g := rng()
	o := s.fillRandom(t, m, g, s.scale.Rows())
	s.checkOrder(t, m, o)
	steps := 0
	for k := range m.All() { // pairs inserted meanwhile are not seen
		if k != o.keys[steps] {
			t.Fatalf("step %d is at key %#x, want %#x", steps, k, o.keys[steps])
		}
		if steps++; steps == 10 {
			must(t, m.Clear(ctx()))
			s.put(t, m, []uint64{s.keyAfter(k, 1)}, s.randomValues(1, g), 1)
		}
	}
	if steps != len(o.keys) || m.Len() != 1 {
		t.Fatalf("an iteration over %d pairs has %d steps, and leaves %d pairs", len(o.keys), steps, m.Len())
	}
}

func (s orderedSuite) backward(t testing.TB, m erasedOrderedMap) {
	g := rng()
	o := s.fillRandom(t, m, g, s.scale.Rows())
	last := len(o.keys)
	for k := range m.Backward() {
		last--
		if k != o.keys[last] {
			t.Fatalf("Backward is at key %#x, want %#x", k, o.keys[last])
		}
		if last == len(o.keys)-7 {
			break
		}
	}
	s.fill(t, m, o, s.uniqueKeys(30, g)) // would wait if a lock were held
	s.checkOrder(t, m, o)
}

// Between must iterate over a range as it was at the start.
func (s orderedSuite) between(t testing.TB, m erasedOrderedMap) {
	g := rng()
	o := s.fillRandom(t, m, g, min(s.scale.Rows(), 5000))
	lo, hi := o.keys[len(o.keys)/4], o.keys[len(o.keys)/2]
	want, now := o.keysBetween(lo, hi, 0, false), o.clone()
	var keys []uint64
	for p, err := range m.Between(ctx(), lo, hi) {
		must(t, err)
		if len(keys) == 0 {
			s.fill(t, m, now, s.uniqueKeys(200, g))
			n, err := m.DeleteRange(ctx(), []uint64{lo}, []uint64{hi}, nil)
			deleted := now.keysBetween(lo, hi, 0, false)
			WantCount(t, "DeleteRange in a loop over its range", n, len(deleted), err)
			now.remove(deleted)
		}
		for i, k := range p.Keys {
			if p.Vals[i] != o.pairs[k] {
				t.Fatalf("Between has value %#x for key %#x, want %#x", p.Vals[i], k, o.pairs[k])
			}
		}
		keys = append(keys, p.Keys...)
	}
	if !slices.Equal(keys, want) {
		t.Fatalf("Between has %d keys, want %d, or others", len(keys), len(want))
	}
	for range m.Between(ctx(), lo, hi) {
		t.Error("Between has pairs of a range that was deleted")
	}
	for range m.Between(ctx(), hi, lo) {
		t.Error("Between has pairs of an empty range")
	}
	for range m.Between(ctx(), o.keys[0], o.keys[len(o.keys)-1]) {
		break
	}
	s.checkSeeks(t, "after Between", m, now, s.seeks(g, now, 50, 3))
}

func (s orderedSuite) deleteRange(t testing.TB, m erasedOrderedMap) {
	g := rng()
	o := s.fillRandom(t, m, g, s.scale.Rows())
	n := len(o.keys)
	lo := []uint64{o.keys[n/10], s.keyAfter(o.keys[n/2], 1), o.keys[n-1], o.keys[3], o.keys[9]}
	hi := []uint64{o.keys[n/5], s.keyAfter(o.keys[n/2+5], -1), o.keys[n-1], o.keys[2], o.keys[9]}
	removed, want, total := blanks[uint32](len(lo)), make([]uint32, len(lo)), 0
	for i := range lo {
		deleted := o.keysBetween(lo[i], hi[i], 0, false)
		want[i] = uint32(len(deleted))
		total += len(deleted)
		o.remove(deleted)
	}
	got, err := m.DeleteRange(ctx(), lo, hi, removed)
	if WantCount(t, "DeleteRange", got, total, err); !slices.Equal(removed, want) {
		t.Fatalf("DeleteRange removed %v, want %v", removed, want)
	}
	s.checkSeeks(t, "after DeleteRange", m, o, s.seeks(g, o, s.nSeeks(), 0))
	minKey, maxKey := uint64(0), s.keyMask
	got, err = m.DeleteRange(ctx(), []uint64{minKey}, []uint64{maxKey}, nil)
	WantCount(t, "DeleteRange of all", got, len(o.keys), err)
	s.checkSeeks(t, "with nothing left", m, s.newModel(), s.seeks(g, s.newModel(), 20, 0))
	s.fill(t, m, s.newModel(), o.keys[:5])
	if m.Len() != 5 {
		t.Errorf("Len = %d, want 5", m.Len())
	}
}

// A pair inside several ranges must count for the first of them.
func (s orderedSuite) deleteRangeOverlaps(t testing.TB, m erasedOrderedMap) {
	g := rng()
	o := s.fillRandom(t, m, g, 400)
	st := devicetest.NewStream(t, s.dev)
	for round := range 3 {
		x := s.seeks(g, o, 9, 0)
		// Exclude the range of all keys.
		x.lo, x.hi = append(x.lo[:2:2], x.lo[5:]...), append(x.hi[:2:2], x.hi[5:]...)
		x.lo, x.hi = append(x.lo, x.lo...), append(x.hi, x.hi...)
		n := len(x.lo)
		removed, want, total := blanks[uint32](n), make([]uint32, n), 0
		for i := range n {
			deleted := o.keysBetween(x.lo[i], x.hi[i], 0, false)
			want[i] = uint32(len(deleted))
			total += len(deleted)
			o.remove(deleted)
		}
		if round == 0 {
			got, err := m.DeleteRange(ctx(), x.lo, x.hi, removed)
			WantCount(t, "DeleteRange", got, total, err)
		} else {
			out := newOutput(t, st, removed, devicetest.Upload[uint32])
			must(t, m.DeleteRangeOn(st, s.keysOn(t, st, x.lo), s.keysOn(t, st, x.hi), out.inner))
			must(t, m.Sync(ctx()))
			out.download(t, st, removed)
		}
		if !slices.Equal(removed, want) {
			t.Fatalf("round %d: ranges from %#x to %#x removed %v, want %v", round, x.lo, x.hi, removed, want)
		}
		s.checkOrder(t, m, o)
		s.fill(t, m, o, s.uniqueKeys(400, g))
	}
}

// Build must accept pairs in any order. If several pairs have the same key, the last one must win.
func (s orderedSuite) build(t testing.TB, _ erasedOrderedMap) {
	g, n := rng(), s.scale.Rows()
	shuffled, repeated := s.batch(n, 0), s.batch(n, 0)
	for i := range repeated.Keys {
		repeated.Keys[i] = repeated.Keys[g.IntN(n/3)]
	}
	ascending := s.batch(n, 0)
	slices.Sort(ascending.Keys)
	descending := s.batch(n, 0)
	slices.SortFunc(descending.Keys, func(a, b uint64) int { return -btoi(a > b) + btoi(a < b) })
	equal := s.batch(100, 0)
	for i := range equal.Keys {
		equal.Keys[i] = s.key(5)
	}
	for desc, r := range map[string]weft.Page[uint64, uint64]{"shuffled": shuffled, "repeated": repeated, "ascending": ascending, "descending": descending, "equal": equal, "one": s.batch(1, 3)} {
		m, o := s.newStructure(t, s.dev), s.newModel()
		o.put(r.Keys, r.Vals)
		got, err := m.Build(ctx(), r.Keys, r.Vals)
		WantCount(t, "Build of keys that are "+desc, got, len(o.keys), err)
		s.checkSeeks(t, desc, m, o, s.seeks(g, o, 100, 2))
		s.checkOrder(t, m, o)
	}
}

func (s orderedSuite) batch(n int, seed int) weft.Page[uint64, uint64] {
	g := rng()
	for range seed {
		g.Uint64()
	}
	return weft.Page[uint64, uint64]{Keys: s.uniqueKeys(n, g), Vals: s.randomValues(n, g)}
}

// Build of a nonempty map must have the same effect as Put.
func (s orderedSuite) buildAgain(t testing.TB, m erasedOrderedMap) {
	g := rng()
	o := s.fillRandom(t, m, g, s.scale.Rows()/4)
	st := devicetest.NewStream(t, s.dev)
	for round := range 3 {
		keys := append(s.uniqueKeys(s.scale.Rows()/2, g), o.keys[:len(o.keys)/2]...)
		vals := s.randomValues(len(keys), g)
		before := len(o.keys)
		o.put(keys, vals)
		if round == 1 {
			must(t, m.BuildOn(st, s.keysOn(t, st, keys), s.valsOn(t, st, vals)))
			must(t, m.Sync(ctx()))
		} else {
			got, err := m.Build(ctx(), keys, vals)
			WantCount(t, "Build", got, len(o.keys)-before, err)
		}
		s.checkSeeks(t, "built again", m, o, s.seeks(g, o, 100, 1))
	}
	s.checkOrder(t, m, o)
}

// A snapshot must keep the state of the map during later changes, for all methods that read or save
// it.
func (s orderedSuite) snapshot(t testing.TB, m erasedOrderedMap) {
	g, n := rng(), s.scale.Rows()/2
	o := s.fillRandom(t, m, g, n)
	at := s.takeSnapshot(t, m)
	now := o.clone()
	read := func(where string) {
		t.Helper()
		s.checkSeeks(t, where, at, o, s.seeks(g, o, s.nSeeks()/2, 3))
		s.checkOrder(t, at, o)
		vals, found := make([]uint64, n), make([]bool, n)
		hits, err := at.Get(ctx(), o.keys, vals, found)
		WantCount(t, where+": Get", hits, n, err)
		for i, k := range o.keys {
			if vals[i] != o.pairs[k] || !found[i] {
				t.Fatalf("%s: Get(%#x) = %#x %v, want %#x", where, k, vals[i], found[i], o.pairs[k])
			}
		}
		hits, err = at.Contains(ctx(), o.keys, nil)
		WantCount(t, where+": Contains", hits, n, err)
	}
	read("at once")
	vals := s.randomValues(n/2, g)
	_, err := m.Put(ctx(), o.keys[:n/2], vals)
	must(t, err)
	now.put(o.keys[:n/2], vals)
	read("after Put")
	s.fill(t, m, now, s.uniqueKeys(n, g))
	read("after more keys")
	_, err = m.Delete(ctx(), o.keys[n/4:], nil)
	must(t, err)
	now.remove(o.keys[n/4:])
	read("after Delete")
	s.checkSeeks(t, "the map", m, now, s.seeks(g, now, 50, 0))
	s.snapshotOn(t, at, o)
	must(t, m.Compact(ctx()))
	must(t, m.Clear(ctx()))
	read("after Clear")
	if at := at.saver(); at != nil {
		var file bytes.Buffer
		saved, err := at.Save(ctx(), &file)
		WantCount(t, "Save of a snapshot", saved, n, err)
		loaded := s.newStructure(t, s.dev)
		got, err := loaded.Load(ctx(), &file)
		WantCount(t, "Load of a snapshot", got, n, err)
		s.checkOrder(t, loaded, o)
	}
	must(t, at.Close())
}

func (s orderedSuite) snapshotOn(t testing.TB, at erasedSeeker, o *erasedModel) {
	t.Helper()
	st, n := devicetest.NewStream(t, s.dev), len(o.keys)
	keys, f := s.keysOn(t, st, o.keys), s.newFoundPairs(n)
	vals, ok, hits := newOutput(t, st, f.vals, s.valsOn), newOutput(t, st, f.ok, devicetest.Upload[bool]), newHits(t, st)
	must(t, at.GetOn(st, keys, vals.inner, ok.inner, hits.inner))
	must(t, at.ContainsOn(st, keys, ok.inner, hits.inner))
	vals.download(t, st, f.vals)
	ok.download(t, st, f.ok)
	if got := hitsOn(t, st, hits); got != 2*n || slices.Contains(f.ok, false) {
		t.Fatalf("GetOn and ContainsOn of a snapshot find %d keys twice, want %d", got, n)
	}
	for i, k := range o.keys {
		if f.vals[i] != o.pairs[k] {
			t.Fatalf("GetOn of a snapshot: %#x has %#x, want %#x", k, f.vals[i], o.pairs[k])
		}
	}
}

// Several snapshots must stay valid over many batches, and may be closed in any order.
func (s orderedSuite) snapshots(t testing.TB, m erasedOrderedMap) {
	g, o := rng(), s.newModel()
	type held struct {
		erasedSeeker
		o *erasedModel
	}
	var all []held
	pool := s.uniqueKeys(300, g)
	for round := range 25 {
		batch := make([]uint64, 40)
		for i := range batch {
			batch[i] = pool[g.IntN(len(pool))]
		}
		s.fill(t, m, o, batch)
		_, err := m.Delete(ctx(), batch[30:], nil)
		must(t, err)
		o.remove(batch[30:])
		if round%2 == 0 {
			all = append(all, held{s.takeSnapshot(t, m), o.clone()})
		}
		if len(all) > 5 {
			i := g.IntN(len(all))
			must(t, all[i].Close())
			all = slices.Delete(all, i, i+1)
		}
		for _, at := range all {
			x := s.seeks(g, at.o, 4, round%3)
			s.seekHost(t, at, x).checkEqual(t, "a snapshot that is held", x, at.o.seekResults(x))
			s.checkEnds(t, "a snapshot that is held", at, at.o)
			s.checkOrder(t, at, at.o)
		}
	}
	for _, at := range all {
		s.checkSeeks(t, "a snapshot that was held", at, at.o, s.seeks(g, at.o, 30, 2))
		s.checkOrder(t, at, at.o)
		must(t, at.Close())
	}
	s.checkOrder(t, m, o)
}

// A closed snapshot must return an error, and so must a snapshot of a closed map.
func (s orderedSuite) snapshotCloses(t testing.TB, m erasedOrderedMap) {
	g := rng()
	o := s.fillRandom(t, m, g, 100)
	at := s.takeSnapshot(t, m)
	must(t, errors.Join(at.Close(), at.Close()))
	for name, call := range s.calls(ctx(), at, 5) {
		if err := call(); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("%s of a closed snapshot: %v", name, err)
		}
	}
	s.checkSeeks(t, "the map of a closed snapshot", m, o, s.seeks(g, o, 20, 0))
	other := s.open(t, s.dev)
	s.fillRandom(t, other, g, 50)
	at = s.takeSnapshot(t, other)
	must(t, other.Close())
	for name, call := range s.calls(ctx(), at, 5) {
		if err := call(); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("%s of a snapshot of a closed map: %v", name, err)
		}
	}
	must(t, at.Close())
}

// Readers of ranges run alongside a writer, on the map and on snapshots. They must see what was
// written before they began, and nothing that was written after they ended. Readers of snapshots
// must see whole batches, never parts of two.
func (s orderedSuite) snapshotConcurrent(t testing.TB, m erasedOrderedMap) {
	n := min(s.scale.Rows(), 2000)
	keys := s.uniqueKeys(n, rng())
	version := func(i int64) []uint64 { return slices.Repeat([]uint64{s.bits(uint64(i))}, n) }
	s.put(t, m, keys, version(0), n)
	const reads = 6 // minimum for all readers together
	minKey, maxKey := uint64(0), s.keyMask
	var wg sync.WaitGroup
	var done, begun, returned atomic.Int64
	read := func(m erasedSeeker, since int64, until func() int64) error {
		var rows weft.PairRows[uint64, uint64]
		if err := m.Range(ctx(), []uint64{minKey, minKey}, []uint64{maxKey, maxKey}, 0, &rows); err != nil || rows.Offsets[2] != uint64(2*n) {
			return fmt.Errorf("a range has %v of %d pairs: %w", rows.Offsets, n, err)
		}
		last := until()
		for _, v := range rows.Vals {
			if at := int64(v); at < since || at > last {
				return fmt.Errorf("a range has a value of batch %d; %d had returned before it began, and %d had begun when it ended", at, since, last)
			}
		}
		return nil
	}
	for range 2 {
		wg.Go(func() {
			defer done.Add(reads) // also after an error, so that the writer ends
			for done.Load() < reads {
				err := read(m, returned.Load(), begun.Load)
				since := returned.Load()
				at, e := snapshotOf(t, ctx(), m)
				until := begun.Load()
				if err = errors.Join(err, e); err == nil {
					err = errors.Join(read(at, since, func() int64 { return until }), s.checkSingleBatch(at), at.Close())
				}
				if err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	for i := int64(1); done.Load() < reads || i < 5; i++ {
		begun.Store(i)
		if _, err := m.Put(ctx(), keys, version(i)); err != nil {
			t.Errorf("Put: %v", err)
			break
		}
		returned.Store(i)
	}
	wg.Wait()
}

// checkSingleBatch requires all values of a snapshot to come from one batch.
func (s orderedSuite) checkSingleBatch(at erasedSeeker) error {
	var first uint64
	seen := 0
	for _, v := range at.All() {
		if seen++; seen == 1 {
			first = v
		} else if v != first {
			return fmt.Errorf("a snapshot has values of two batches: %#x and %#x", v, first)
		}
	}
	return nil
}

// SmokeOrderedMap calls each method of an ordered map once. It runs the steps of [SmokeMap], and
// methods that only ordered maps have.
func SmokeOrderedMap[K, V ~uint32 | ~uint64](t testing.TB, dev device.Device, m AnyOrderedMap[K, V]) {
	t.Helper()
	smokeOrderedMap(t, dev, eraseOrderedMap[K, V](m))
}

func smokeOrderedMap(t testing.TB, dev device.Device, m erasedOrderedMap) {
	t.Helper()
	smokeMap(t, dev, m, func() {})
	s, g := orderedSuite{target[erasedOrderedMap]{types: *m.types(), dev: dev}}, rng()
	o := s.newModel()
	keys, vals := s.smokePairs()
	n, err := m.Build(ctx(), keys, vals)
	WantCount(t, "Build", n, SmokeKeys, err)
	o.put(keys, vals)
	at := s.takeSnapshot(t, m)
	deleted := o.keysBetween(10, 30, 0, false)
	n, err = m.DeleteRange(ctx(), []uint64{10}, []uint64{30}, nil)
	WantCount(t, "DeleteRange", n, len(deleted), err)
	s.checkSeeks(t, "a snapshot", at, o, s.seeks(g, o, 20, 2))
	must(t, at.Close())
	o.remove(deleted)
	s.checkSeeks(t, "the map", m, o, s.seeks(g, o, 20, 0))
	s.checkOrder(t, m, o)
	st := devicetest.NewStream(t, dev)
	must(t, m.BuildOn(st, s.keysOn(t, st, keys[:9]), s.valsOn(t, st, vals[:9]), devicetest.Upload(t, st, make([]uint64, 1))))
	must(t, m.GetOrPutOn(st, s.keysOn(t, st, keys), s.valsOn(t, st, vals), devicetest.Upload(t, st, make([]bool, len(keys)))))
	must(t, m.Sync(ctx()))
	checkPairs(t, m, keys, vals)
	must(t, m.Check(ctx()))
}
