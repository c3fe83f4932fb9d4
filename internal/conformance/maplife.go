package conformance

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/weftgo/weft"
)

func (s mapSuite) growsAndShrinks(t testing.TB, m erasedMap) {
	rng, n := s.rng(), s.scale.Rows()
	keys, vals := s.uniqueKeys(n, rng), s.randomValues(n, rng)
	for size, lo := 1, 0; lo < n; size *= 3 { // batches of growing size
		hi := min(lo+size, n)
		s.put(t, m, keys[lo:hi], vals[lo:hi], hi-lo)
		lo = hi
	}
	s.checkPresent(t, m, keys, vals)
	left := n / 50
	if _, err := m.Delete(ctx(), keys[left:], nil); err != nil {
		t.Fatal(err)
	}
	s.checkPresent(t, m, keys[:left], vals[:left])
	s.checkAbsent(t, m, keys[left:])
	s.put(t, m, keys[left:], vals[left:], n-left)
	s.checkPresent(t, m, keys, vals)
}

// A map must work while keys come and go and their number stays the same. (In warpcore, which never
// reuses a slot, the table would fill up.)
func (s mapSuite) churn(t testing.TB, m erasedMap) {
	rng, n := s.rng(), s.scale.Rows()/10
	keys := s.uniqueKeys(20*n, rng)
	vals := s.randomValues(len(keys), rng)
	s.put(t, m, keys[:n], vals[:n], n)
	for lo := 0; lo+2*n <= len(keys); lo += n {
		got, err := m.Delete(ctx(), keys[lo:lo+n], nil)
		must(t, err)
		if got != n {
			t.Fatalf("Delete removed %d of %d", got, n)
		}
		s.put(t, m, keys[lo+n:lo+2*n], vals[lo+n:lo+2*n], n)
		s.checkPresent(t, m, keys[lo+n:lo+2*n], vals[lo+n:lo+2*n])
	}
	s.checkLen(t, m, n)
}

func (s mapSuite) all(t testing.TB, m erasedMap) {
	rng, n := s.rng(), s.scale.Rows()
	keys, vals := s.uniqueKeys(n, rng), s.randomValues(n, rng)
	s.put(t, m, keys, vals, n)
	model := map[uint64]uint64{}
	for i, k := range keys {
		model[k] = vals[i]
	}
	s.checkEqual(t, m, model)
}

// An iteration must see each unchanged pair once, although the table grows meanwhile.
func (s mapSuite) allWhileChanging(t testing.TB, m erasedMap) {
	rng, n := s.rng(), s.scale.Rows()
	keys, vals := s.uniqueKeys(3*n, rng), s.randomValues(3*n, rng)
	s.put(t, m, keys[:n], vals[:n], n)
	seen, steps := map[uint64]int{}, 0
	for k := range m.All() {
		seen[k]++
		if steps++; steps == n/2 {
			s.put(t, m, keys[n:], vals[n:], 2*n)
		}
	}
	for _, k := range keys[:n] {
		if seen[k] != 1 {
			t.Fatalf("key %#x was seen %d times", k, seen[k])
		}
	}
	s.checkPresent(t, m, keys, vals)
}

func (s mapSuite) clear(t testing.TB, m erasedMap) {
	rng := s.rng()
	keys, vals := s.uniqueKeys(500, rng), s.randomValues(500, rng)
	keys = append(keys, s.reservedKeys()[4]) // all ones
	vals = append(vals, vals[0])
	s.put(t, m, keys, vals, len(keys))
	must(t, m.Clear(ctx()))
	s.checkLen(t, m, 0)
	s.checkAbsent(t, m, keys)
	s.put(t, m, keys, vals, len(keys))
	s.checkPresent(t, m, keys, vals)
}

func (s mapSuite) lengths(t testing.TB, m erasedMap) {
	checkLengthPanics(t, m)
	s.checkLen(t, m, 0) // nothing has run, and no lock is held
}

// checkLengthPanics requires a panic for each column that does not have the length of the keys.
func checkLengthPanics(t testing.TB, m erasedPairs) {
	t.Helper()
	k, v, b := make([]uint64, 3), make([]uint64, 2), make([]bool, 4)
	ops, res := make([]weft.Op[uint64, uint64], 2), make([]weft.Result[uint64], 1)
	mustPanic(t, "Put", func() { m.Put(ctx(), k, v) })
	mustPanic(t, "PutNew vals", func() { m.PutNew(ctx(), k, v, nil) })
	mustPanic(t, "PutNew ok", func() { m.PutNew(ctx(), k, make([]uint64, 3), b) })
	mustPanic(t, "Get vals", func() { m.Get(ctx(), k, v, nil) })
	mustPanic(t, "Get nil vals", func() { m.Get(ctx(), k, nil, nil) })
	mustPanic(t, "Get found", func() { m.Get(ctx(), k, make([]uint64, 3), b) })
	mustPanic(t, "Contains", func() { m.Contains(ctx(), k, b) })
	mustPanic(t, "Delete", func() { m.Delete(ctx(), k, b) })
	mustPanic(t, "Apply", func() { m.Apply(ctx(), ops, res) })
}

func (s mapSuite) nilOutputs(t testing.TB, m erasedMap) {
	rng := s.rng()
	keys, vals := s.uniqueKeys(300, rng), s.randomValues(300, rng)
	if n, err := m.PutNew(ctx(), keys, vals, nil); n != 300 || err != nil {
		t.Errorf("PutNew: %d, %v", n, err)
	}
	got := make([]uint64, 300)
	if n, err := m.Get(ctx(), keys, got, nil); n != 300 || err != nil {
		t.Errorf("Get: %d, %v", n, err)
	}
	if n, err := m.Contains(ctx(), keys, nil); n != 300 || err != nil {
		t.Errorf("Contains: %d, %v", n, err)
	}
	if n, err := m.Delete(ctx(), keys, nil); n != 300 || err != nil {
		t.Errorf("Delete: %d, %v", n, err)
	}
}

// Readers that run alongside a writer must see each key with one of its values.
func (s mapSuite) concurrent(t testing.TB, m erasedMap) {
	n := min(s.scale.Rows(), 5000)
	keys := s.uniqueKeys(n, s.rng())
	version := func(i int) []uint64 { return slices.Repeat([]uint64{s.bits(uint64(i))}, n) }
	s.put(t, m, keys, version(0), n)
	rounds := 20
	if s.scale <= Slow {
		rounds = 3
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			vals, found := make([]uint64, n), make([]bool, n)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := m.Get(ctx(), keys, vals, found); err != nil {
					t.Errorf("Get: %v", err)
					return
				}
				for i := range vals {
					if !found[i] || vals[i] > uint64(rounds) {
						t.Errorf("a reader saw %#x %v", vals[i], found[i])
						return
					}
				}
			}
		})
	}
	for i := range rounds {
		if _, err := m.Put(ctx(), keys, version(i+1)); err != nil {
			t.Errorf("Put: %v", err)
		}
	}
	close(stop)
	wg.Wait()
}

func (s mapSuite) againstModel(t testing.TB, m erasedMap) {
	model := map[uint64]uint64{}
	randomBatches(s.scale, s.rng(), func(data []byte) { replayMap(t, m, model, data) })
	s.checkEqual(t, m, model)
}

// randomBatches passes random bytes to replay, which runs them as operations (see replayMap).
func randomBatches(scale Scale, rng *rand.Rand, replay func(data []byte)) {
	rounds := 60
	if scale <= Slow {
		rounds = 12
	}
	data := make([]byte, 4096)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	for range rounds {
		replay(data[rng.IntN(2048):])
	}
}
