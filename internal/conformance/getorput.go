package conformance

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// GetOrPut does what a loop over a Go map does, with keys that are there, that are
// in a batch often, that were deleted before, or that look like sentinels.
func (s mapSuite[K, V]) getOrPut(t testing.TB, m AnyMap[K, V]) {
	rng, n := s.rng(), s.scale.Rows()
	model := map[K]V{}
	for _, different := range []int{n / 16, n, n, 3} { // of which some were there before
		pool := append(unique[K](different, rng), odd[K]()...)
		keys, vals := make([]K, n), s.values(n, rng)
		want, loaded := slices.Clone(vals), make([]bool, n)
		fresh := 0
		got := make([]bool, n)
		for i := range keys {
			keys[i], got[i] = pool[rng.IntN(len(pool))], rng.IntN(2) == 0
			if old, there := model[keys[i]]; there {
				want[i], loaded[i] = old, true
			} else {
				model[keys[i]] = vals[i]
				fresh++
			}
		}
		inserted, err := m.GetOrPut(ctx(), keys, vals, got)
		must(t, err)
		if inserted != fresh || !slices.Equal(got, loaded) {
			t.Fatalf("GetOrPut inserted %d keys, want %d; flags as of a loop: %v", inserted, fresh, slices.Equal(got, loaded))
		}
		if !sameValues(vals, want) {
			t.Fatal("GetOrPut leaves other values than a loop")
		}
		s.equals(t, m, model)
		vals = s.values(n, rng) // all are there
		inserted, err = m.GetOrPut(ctx(), keys, vals, nil)
		Want(t, "GetOrPut of keys that are there", inserted, 0, err)
		for i, k := range keys {
			if toBits(vals[i]) != toBits(model[k]) {
				t.Fatalf("GetOrPut of a key that is there: %#x, want %#x", toBits(vals[i]), toBits(model[k]))
			}
		}
		gone := keys[:n/8]
		_, err = m.Delete(ctx(), gone, nil)
		must(t, err)
		for _, k := range gone {
			delete(model, k)
		}
	}
}

// Goroutines bring values for the same keys: each key has one, which all of them get,
// and one of them has inserted it.
func (s mapSuite[K, V]) getOrPutConcurrent(t testing.TB, m AnyMap[K, V]) {
	const workers = 4
	n := min(s.scale.Rows()/4, 2000)
	keys := unique[K](n, s.rng())
	vals, total := make([][]V, workers), 0
	var wg sync.WaitGroup
	var mu sync.Mutex
	for w := range vals {
		vals[w] = make([]V, n)
		for i := range vals[w] {
			vals[w][i] = V(w*n + i)
		}
		wg.Go(func() {
			fresh, err := m.GetOrPut(ctx(), keys, vals[w], nil)
			mu.Lock()
			defer mu.Unlock()
			if total += fresh; err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if total != n {
		t.Errorf("%d calls of GetOrPut inserted %d keys, want %d", workers, total, n)
	}
	for _, got := range vals {
		s.has(t, m, keys, got)
	}
}

// assigned has a map give ids to keys, and wants those of a loop that counts on
// from some number. ids are those that it has given before.
func (s mapSuite[K, V]) assigned(t testing.TB, m AnyMap[K, V], keys []K, ids map[K]V, next int) {
	t.Helper()
	want, fresh := make([]V, len(keys)), 0
	for i, k := range keys {
		id, there := ids[k]
		if !there {
			id = V(next + fresh)
			fresh++
		}
		ids[k], want[i] = id, id
	}
	got := make([]V, len(keys))
	n, err := m.Assign(ctx(), keys, got)
	must(t, err)
	if n != fresh || !sameValues(got, want) {
		t.Fatalf("Assign gave ids to %d keys of %d, want %d from %d on; those of a loop: %v", n, len(keys), fresh, next, sameValues(got, want))
	}
	s.equals(t, m, ids)
}

// drawn are n keys of a pool.
func drawn[K weft.Key](pool []K, n int, rng *rand.Rand) []K {
	keys := make([]K, n)
	for i := range keys {
		keys[i] = pool[rng.IntN(len(pool))]
	}
	return keys
}

// Assign numbers keys in the order in which they come; floats are no ids.
func (s mapSuite[K, V]) assign(t testing.TB, m AnyMap[K, V]) {
	rng, n := s.rng(), s.scale.Rows()
	if fractional[V]() {
		ids := []V{1}
		var p *weft.PartialError
		if _, err := m.Assign(ctx(), []K{1}, ids); !errors.Is(err, device.ErrInvalid) || !errors.As(err, &p) || p.Done != 0 || ids[0] != 0 {
			t.Errorf("Assign of floats: %v, %v", ids, err)
		}
		s.length(t, m, 0)
		return
	}
	mustPanic(t, "Assign ids", func() { m.Assign(ctx(), []K{1, 2}, make([]V, 1)) })
	pool := append(unique[K](n, rng), odd[K]()...)
	ids := map[K]V{}
	for _, size := range []int{1, n / 16, 0, n, n / 2} {
		s.assigned(t, m, drawn(pool, size, rng), ids, len(ids))
	}
	s.assigned(t, m, slices.Collect(func(yield func(K) bool) {
		for k := range ids {
			if !yield(k) {
				return
			}
		}
	}), ids, len(ids))
	s.assigned(t, m, unique[K](n/16, rng), ids, len(ids)) // all are different
	must(t, m.Clear(ctx()))
	s.assigned(t, m, drawn(pool, n/16, rng), map[K]V{}, 0)
}

// No id comes back for a key that is deleted, nor for one that was put; those of a
// map that is saved go on where it was loaded.
func (s mapSuite[K, V]) assignGoesOn(t testing.TB, m AnyMap[K, V]) {
	if fractional[V]() {
		return
	}
	rng := s.rng()
	keys := unique[K](600, rng)
	ids := map[K]V{}
	s.assigned(t, m, keys[:100], ids, 0)
	_, err := m.Delete(ctx(), keys[50:100], nil) // the last ones
	must(t, err)
	for _, k := range keys[50:100] {
		delete(ids, k)
	}
	s.assigned(t, m, keys[75:200], ids, 100)
	s.put(t, m, keys[200:202], []V{1000, 7}, 2)
	ids[keys[200]], ids[keys[201]] = 1000, 7
	s.assigned(t, m, keys[150:300], ids, 1001)
	fresh, err := m.GetOrPut(ctx(), keys[300:301], []V{2000}, nil)
	Want(t, "GetOrPut", fresh, 1, err)
	ids[keys[300]] = 2000
	s.assigned(t, m, keys[300:310], ids, 2001)

	var file bytes.Buffer
	_, err = m.Save(ctx(), &file)
	must(t, err)
	to := s.another(t, s.dev)
	_, err = to.Load(ctx(), &file)
	must(t, err)
	s.assigned(t, to, keys[290:400], ids, 2010)

	must(t, m.Clear(ctx()))
	s.put(t, m, keys[:1], []V{V(0) - 1}, 1) // of signed values, less than any id
	if V(0)-1 < 0 {
		s.assigned(t, m, keys[:10], map[K]V{keys[0]: V(0) - 1}, 0)
	}
}

// A call that is cut short has numbered the keys that it came to, and those of the
// next one follow. No id is left out, wherever that is.
func (s mapSuite[K, V]) assignCutShort(t testing.TB, m AnyMap[K, V]) {
	if fractional[V]() {
		return
	}
	k := mapKind(s.place)
	n := k.manyChunks(t)
	rng := s.rng()
	pool := unique[K](n/2, rng)
	for i := range 40 {
		must(t, m.Clear(ctx()))
		keys, ids, left := drawn(pool, n, rng), make([]V, n), newCount(int64(i))
		given := map[K]V{}
		fresh, err := m.Assign(&countdown{ctx(), left}, keys, ids)
		var p *weft.PartialError
		if err != nil && (!errors.As(err, &p) || !errors.Is(err, context.Canceled)) {
			t.Fatal(err)
		}
		if err == nil {
			p = &weft.PartialError{Done: n}
		}
		for j, key := range keys[:p.Done] {
			if _, there := given[key]; !there {
				given[key] = V(len(given))
			}
			if ids[j] != given[key] {
				t.Fatalf("Assign did %d operations, and number %d has id %v, want %v", p.Done, j, ids[j], given[key])
			}
		}
		if fresh != len(given) || m.Len() != fresh {
			t.Fatalf("Assign did %d operations on %d new keys, and gave ids to %d; Len = %d", p.Done, len(given), fresh, m.Len())
		}
		s.assigned(t, m, keys, given, len(given))
		if err == nil {
			break
		}
	}
}

// Beyond the largest value of their type there are no ids, and nothing is lost.
func (s mapSuite[K, V]) assignToTheLast(t testing.TB, m AnyMap[K, V]) {
	if fractional[V]() {
		return
	}
	last := fromBits[V](math.MaxInt64)
	if toBits(last) == math.MaxUint32 && V(0)-1 < 0 {
		last = fromBits[V](math.MaxInt32)
	}
	keys := unique[K](20, s.rng())
	s.put(t, m, keys[:1], []V{last - 3}, 1)
	batch := []K{keys[1], keys[0], keys[1], keys[2], keys[2], keys[3], keys[0], keys[3], keys[4], keys[0]}
	want := []V{last - 2, last - 3, last - 2, last - 1, last - 1, last, last - 3, last, 0, 0}
	ids := slices.Repeat([]V{9}, len(batch))
	for _, fresh := range []int{3, 0} {
		n, err := m.Assign(ctx(), batch, ids)
		var p *weft.PartialError
		if n != fresh || !errors.Is(err, weft.ErrFull) || !errors.As(err, &p) || p.Done != 8 || p.Failed != 0 {
			t.Fatalf("Assign beyond the last id: %d, %v", n, err)
		}
		if !slices.Equal(ids, want) {
			t.Fatalf("Assign beyond the last id: %v, want %v", ids, want)
		}
	}
	s.has(t, m, keys[:4], []V{last - 3, last - 2, last - 1, last})
	s.length(t, m, 4)
	n, err := m.Assign(ctx(), keys[:4], ids[:4])
	Want(t, "Assign of keys that have ids", n, 0, err)
}

// Goroutines give ids to the same keys, and others look: nobody sees two ids of one
// key, and all together are 0, 1, 2, ….
func (s mapSuite[K, V]) assignConcurrent(t testing.TB, m AnyMap[K, V]) {
	if fractional[V]() {
		return
	}
	const workers, rounds = 3, 8
	n := min(s.scale.Rows()/4, 2000)
	pool := unique[K](rounds*n, s.rng())
	seen := make([]map[K]V, 2*workers)
	var wg sync.WaitGroup
	for w := range seen {
		seen[w] = map[K]V{}
		see := func(keys []K, ids []V, found []bool) {
			for i, k := range keys {
				if old, ok := seen[w][k]; found[i] && ok && old != ids[i] {
					t.Errorf("key %#x had id %v and has %v", k, old, ids[i])
				}
				if found[i] {
					seen[w][k] = ids[i]
				}
			}
		}
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for range rounds {
				keys, ids, found := drawn(pool, n, rng), make([]V, n), make([]bool, n)
				var err error
				if w < workers {
					_, err = m.Assign(ctx(), keys, ids)
					found = slices.Repeat([]bool{true}, n)
				} else {
					_, err = m.Get(ctx(), keys, ids, found)
				}
				if err != nil {
					t.Error(err)
				}
				see(keys, ids, found)
			}
		})
	}
	wg.Wait()
	ids, owner := map[K]V{}, map[V]K{}
	for k, id := range m.All() {
		ids[k], owner[id] = id, k
	}
	for id := range len(ids) {
		if _, ok := owner[V(id)]; !ok {
			t.Fatalf("%d keys have ids, and none has %d", len(ids), id)
		}
	}
	for w := range seen {
		for k, id := range seen[w] {
			if ids[k] != id {
				t.Fatalf("key %#x had id %v and has %v", k, id, ids[k])
			}
		}
	}
}
