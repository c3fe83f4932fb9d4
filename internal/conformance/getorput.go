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

// GetOrPut must equal a loop over a Go map, for keys that are present, repeated in a batch, deleted
// before, or similar to sentinels.
func (s mapSuite) getOrPut(t testing.TB, m erasedMap) {
	rng, n := s.rng(), s.scale.Rows()
	model := map[uint64]uint64{}
	// the number of distinct keys in the pool
	for _, different := range []int{n / 16, n, n, 3} {
		pool := append(s.uniqueKeys(different, rng), s.reservedKeys()...)
		keys, vals := make([]uint64, n), s.randomValues(n, rng)
		want, loaded := slices.Clone(vals), make([]bool, n)
		fresh := 0
		got := make([]bool, n)
		for i := range keys {
			keys[i], got[i] = pool[rng.IntN(len(pool))], rng.IntN(2) == 0
			if old, present := model[keys[i]]; present {
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
		if !slices.Equal(vals, want) {
			t.Fatal("GetOrPut leaves other values than a loop")
		}
		s.checkEqual(t, m, model)
		vals = s.randomValues(n, rng) // all keys are present
		inserted, err = m.GetOrPut(ctx(), keys, vals, nil)
		WantCount(t, "GetOrPut of keys that are there", inserted, 0, err)
		for i, k := range keys {
			if vals[i] != model[k] {
				t.Fatalf("GetOrPut of a key that is there: %#x, want %#x", vals[i], model[k])
			}
		}
		deleted := keys[:n/8]
		_, err = m.Delete(ctx(), deleted, nil)
		must(t, err)
		for _, k := range deleted {
			delete(model, k)
		}
	}
}

// Goroutines call GetOrPut with different values for the same keys. Each key must get one value,
// which all goroutines see, and exactly one goroutine must insert the key.
func (s mapSuite) getOrPutConcurrent(t testing.TB, m erasedMap) {
	const workers = 4
	n := min(s.scale.Rows()/4, 2000)
	keys := s.uniqueKeys(n, s.rng())
	vals, total := make([][]uint64, workers), 0
	var wg sync.WaitGroup
	var mu sync.Mutex
	for w := range vals {
		vals[w] = make([]uint64, n)
		for i := range vals[w] {
			vals[w][i] = s.val(w*n + i)
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
		s.checkPresent(t, m, keys, got)
	}
}

// checkAssign runs Assign and requires the same ids as from a loop that assigns ids in ascending
// order; next is the first of them. ids holds the ids assigned before.
func (s mapSuite) checkAssign(t testing.TB, m erasedMap, keys []uint64, ids map[uint64]uint64, next int) {
	t.Helper()
	want, fresh := make([]uint64, len(keys)), 0
	for i, k := range keys {
		id, present := ids[k]
		if !present {
			id = s.val(next + fresh)
			fresh++
		}
		ids[k], want[i] = id, id
	}
	got := make([]uint64, len(keys))
	n, err := m.Assign(ctx(), keys, got)
	must(t, err)
	if n != fresh || !slices.Equal(got, want) {
		t.Fatalf("Assign gave ids to %d keys of %d, want %d from %d on; those of a loop: %v", n, len(keys), fresh, next, slices.Equal(got, want))
	}
	s.checkEqual(t, m, ids)
}

func drawKeys(pool []uint64, n int, rng *rand.Rand) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = pool[rng.IntN(len(pool))]
	}
	return keys
}

// Assign must number keys in batch order, and reject float values.
func (s mapSuite) assign(t testing.TB, m erasedMap) {
	rng, n := s.rng(), s.scale.Rows()
	if s.floats {
		ids := []uint64{s.val(1)}
		var p *weft.PartialError
		if _, err := m.Assign(ctx(), s.numbers(1), ids); !errors.Is(err, device.ErrInvalid) || !errors.As(err, &p) || p.Done != 0 || ids[0] != 0 {
			t.Errorf("Assign of floats: %v, %v", ids, err)
		}
		s.checkLen(t, m, 0)
		return
	}
	mustPanic(t, "Assign ids", func() { m.Assign(ctx(), s.numbers(1, 2), make([]uint64, 1)) })
	pool := append(s.uniqueKeys(n, rng), s.reservedKeys()...)
	ids := map[uint64]uint64{}
	for _, size := range []int{1, n / 16, 0, n, n / 2} {
		s.checkAssign(t, m, drawKeys(pool, size, rng), ids, len(ids))
	}
	s.checkAssign(t, m, slices.Collect(func(yield func(uint64) bool) {
		for k := range ids {
			if !yield(k) {
				return
			}
		}
	}), ids, len(ids))
	s.checkAssign(t, m, s.uniqueKeys(n/16, rng), ids, len(ids)) // all keys are distinct
	must(t, m.Clear(ctx()))
	s.checkAssign(t, m, drawKeys(pool, n/16, rng), map[uint64]uint64{}, 0)
}

// Assign must not reuse the ids of keys that have been deleted or overwritten. A loaded map must
// continue the ids of the saved map.
func (s mapSuite) assignGoesOn(t testing.TB, m erasedMap) {
	if s.floats {
		return
	}
	rng := s.rng()
	keys := s.uniqueKeys(600, rng)
	ids := map[uint64]uint64{}
	s.checkAssign(t, m, keys[:100], ids, 0)
	_, err := m.Delete(ctx(), keys[50:100], nil) // the keys with the largest ids
	must(t, err)
	for _, k := range keys[50:100] {
		delete(ids, k)
	}
	s.checkAssign(t, m, keys[75:200], ids, 100)
	s.put(t, m, keys[200:202], []uint64{1000, 7}, 2)
	ids[keys[200]], ids[keys[201]] = 1000, 7
	s.checkAssign(t, m, keys[150:300], ids, 1001)
	fresh, err := m.GetOrPut(ctx(), keys[300:301], []uint64{2000}, nil)
	WantCount(t, "GetOrPut", fresh, 1, err)
	ids[keys[300]] = 2000
	s.checkAssign(t, m, keys[300:310], ids, 2001)

	var file bytes.Buffer
	_, err = m.Save(ctx(), &file)
	must(t, err)
	to := s.newStructure(t, s.dev)
	_, err = to.Load(ctx(), &file)
	must(t, err)
	s.checkAssign(t, to, keys[290:400], ids, 2010)

	must(t, m.Clear(ctx()))
	s.put(t, m, keys[:1], []uint64{s.val(-1)}, 1) // if values are signed, -1 is less than any id
	if s.signed {
		s.checkAssign(t, m, keys[:10], map[uint64]uint64{keys[0]: s.val(-1)}, 0)
	}
}

// An interrupted call must number the keys that it reached, and the next call must continue from
// there. No id may be skipped, wherever the interruption happens.
func (s mapSuite) assignCutShort(t testing.TB, m erasedMap) {
	if s.floats {
		return
	}
	k := mapKind(s.target)
	n := k.setManyChunks(t)
	rng := s.rng()
	pool := s.uniqueKeys(n/2, rng)
	for i := range 40 {
		must(t, m.Clear(ctx()))
		keys, ids, left := drawKeys(pool, n, rng), make([]uint64, n), newCount(int64(i))
		assigned := map[uint64]uint64{}
		fresh, err := m.Assign(&countdown{ctx(), left}, keys, ids)
		var p *weft.PartialError
		if err != nil && (!errors.As(err, &p) || !errors.Is(err, context.Canceled)) {
			t.Fatal(err)
		}
		if err == nil {
			p = &weft.PartialError{Done: n}
		}
		for j, key := range keys[:p.Done] {
			if _, present := assigned[key]; !present {
				assigned[key] = s.val(len(assigned))
			}
			if ids[j] != assigned[key] {
				t.Fatalf("Assign did %d operations, and number %d has id %v, want %v", p.Done, j, ids[j], assigned[key])
			}
		}
		if fresh != len(assigned) || m.Len() != fresh {
			t.Fatalf("Assign did %d operations on %d new keys, and gave ids to %d; Len = %d", p.Done, len(assigned), fresh, m.Len())
		}
		s.checkAssign(t, m, keys, assigned, len(assigned))
		if err == nil {
			break
		}
	}
}

// Assign must use ids up to the largest value of their type, and then return ErrFull without losing
// a key.
func (s mapSuite) assignToTheLast(t testing.TB, m erasedMap) {
	if s.floats {
		return
	}
	last := s.bits(math.MaxInt64)
	if last == math.MaxUint32 && s.signed {
		last = s.bits(math.MaxInt32)
	}
	keys := s.uniqueKeys(20, s.rng())
	s.put(t, m, keys[:1], []uint64{last - 3}, 1)
	batch := []uint64{keys[1], keys[0], keys[1], keys[2], keys[2], keys[3], keys[0], keys[3], keys[4], keys[0]}
	want := []uint64{last - 2, last - 3, last - 2, last - 1, last - 1, last, last - 3, last, 0, 0}
	ids := slices.Repeat([]uint64{9}, len(batch))
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
	s.checkPresent(t, m, keys[:4], []uint64{last - 3, last - 2, last - 1, last})
	s.checkLen(t, m, 4)
	n, err := m.Assign(ctx(), keys[:4], ids[:4])
	WantCount(t, "Assign of keys that have ids", n, 0, err)
}

// Goroutines assign ids to the same keys while other goroutines look them up. No goroutine may see
// two ids for one key, and the ids must be 0, 1, 2, ….
func (s mapSuite) assignConcurrent(t testing.TB, m erasedMap) {
	if s.floats {
		return
	}
	const workers, rounds = 3, 8
	n := min(s.scale.Rows()/4, 2000)
	pool := s.uniqueKeys(rounds*n, s.rng())
	seen := make([]map[uint64]uint64, 2*workers)
	var wg sync.WaitGroup
	for w := range seen {
		seen[w] = map[uint64]uint64{}
		lookUp := func(keys []uint64, ids []uint64, found []bool) {
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
				keys, ids, found := drawKeys(pool, n, rng), make([]uint64, n), make([]bool, n)
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
				lookUp(keys, ids, found)
			}
		})
	}
	wg.Wait()
	ids, owner := map[uint64]uint64{}, map[uint64]uint64{}
	for k, id := range m.All() {
		ids[k], owner[id] = id, k
	}
	for id := range len(ids) {
		if _, ok := owner[s.val(id)]; !ok {
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
