package conformance

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// Set runs the suite for sets on a device, except the cases with the given names.
func Set[K weft.Key](t *testing.T, dev device.Device, scale Scale, open Maker[AnySet[K]], without ...string) {
	p := setTarget(dev, scale, open)
	run(t, p, setCases(p), without...)
}

func setTarget[K weft.Key](dev device.Device, scale Scale, open Maker[AnySet[K]]) target[erasedSet] {
	return target[erasedSet]{typesOf[K, uint32](), dev, scale, erasing(open, eraseSet[K])}
}

// SetCases returns the cases of the suite for sets.
func SetCases[K weft.Key](dev device.Device, scale Scale, open Maker[AnySet[K]]) []Case[AnySet[K]] {
	return typedCases(setCases(setTarget(dev, scale, open)), eraseSet[K])
}

func setCases(p target[erasedSet]) []Case[erasedSet] {
	s := setSuite{p}
	return append(setKind(p).cases(), []Case[erasedSet]{
		{"RoundTrip", s.roundTrip},
		{"EveryKey", s.everyKey},
		{"FirstAddWins", s.firstAddWins},
		{"Churn", s.churn},
		{"All", s.all},
		{"Clear", s.clear},
		{"Lengths", s.lengths},
		{"Apply", s.apply},
		{"AgainstModel", s.againstModel},
	}...)
}

type setSuite struct{ target[erasedSet] }

func (s setSuite) rng() *rand.Rand { return rand.New(rand.NewPCG(3, 5)) }

func (s setSuite) add(t testing.TB, set erasedSet, keys []uint64, want int) {
	t.Helper()
	n, err := set.Add(ctx(), keys, nil)
	must(t, err)
	if n != want {
		t.Fatalf("Add of %d keys = %d, want %d", len(keys), n, want)
	}
}

// checkKeys requires the set to contain all keys of the first slice and none of the second.
func (s setSuite) checkKeys(t testing.TB, set erasedSet, in, out []uint64) {
	t.Helper()
	found := make([]bool, len(in)+len(out))
	n, err := set.Contains(ctx(), slices.Concat(in, out), found)
	must(t, err)
	if n != len(in) {
		t.Errorf("Contains counts %d, want %d", n, len(in))
	}
	for i, f := range found {
		if f != (i < len(in)) {
			t.Fatalf("key number %d of %d+%d: found is %v", i, len(in), len(out), f)
		}
	}
	if set.Len() != len(in) {
		t.Errorf("Len = %d, want %d", set.Len(), len(in))
	}
}

func (s setSuite) roundTrip(t testing.TB, set erasedSet) {
	n := s.scale.Rows()
	keys := s.uniqueKeys(2*n, s.rng())
	s.add(t, set, keys[:n], n)
	s.checkKeys(t, set, keys[:n], keys[n:])
	s.add(t, set, keys[n/2:n], 0)
	deleted := make([]bool, n)
	got, err := set.Delete(ctx(), keys[n/2:n/2+n], deleted)
	must(t, err)
	if got != n-n/2 || !deleted[0] || deleted[n-1] {
		t.Errorf("Delete removed %d, want %d", got, n-n/2)
	}
	s.checkKeys(t, set, keys[:n/2], keys[n/2:])
}

func (s setSuite) everyKey(t testing.TB, set erasedSet) {
	keys := slices.Compact(slices.Sorted(slices.Values(s.reservedKeys())))
	for range 40 { // more rounds than slots in a line
		s.add(t, set, keys, len(keys))
		s.checkKeys(t, set, keys, nil)
		got, err := set.Delete(ctx(), keys, nil)
		must(t, err)
		if got != len(keys) {
			t.Fatalf("Delete removed %d of %d", got, len(keys))
		}
		s.checkKeys(t, set, nil, keys)
	}
}

func (s setSuite) firstAddWins(t testing.TB, set erasedSet) {
	rng, n := s.rng(), s.scale.Rows()
	pool := s.uniqueKeys(n/4+1, rng)
	keys, want, seen := make([]uint64, n), make([]bool, n), map[uint64]bool{}
	for i := range keys {
		keys[i] = pool[rng.IntN(len(pool))]
		want[i] = !seen[keys[i]]
		seen[keys[i]] = true
	}
	added := make([]bool, n)
	got, err := set.Add(ctx(), keys, added)
	must(t, err)
	if got != len(seen) || !slices.Equal(added, want) {
		t.Errorf("Add inserted %d, want %d; flags of the first: %v", got, len(seen), slices.Equal(added, want))
	}
	got, err = set.Delete(ctx(), keys, added)
	must(t, err)
	if got != len(seen) || !slices.Equal(added, want) {
		t.Errorf("Delete removed %d, want %d; flags of the first: %v", got, len(seen), slices.Equal(added, want))
	}
}

func (s setSuite) churn(t testing.TB, set erasedSet) {
	n := s.scale.Rows() / 10
	keys := s.uniqueKeys(20*n, s.rng())
	s.add(t, set, keys[:n], n)
	for lo := 0; lo+2*n <= len(keys); lo += n {
		if _, err := set.Delete(ctx(), keys[lo:lo+n], nil); err != nil {
			t.Fatal(err)
		}
		s.add(t, set, keys[lo+n:lo+2*n], n)
		s.checkKeys(t, set, keys[lo+n:lo+2*n], keys[lo:lo+n])
	}
}

func (s setSuite) all(t testing.TB, set erasedSet) {
	keys := append(s.uniqueKeys(s.scale.Rows(), s.rng()), s.key(^uint64(1)))
	n := len(slices.Compact(slices.Sorted(slices.Values(keys))))
	s.add(t, set, keys, n)
	got := slices.Sorted(set.All())
	slices.Sort(keys)
	if !slices.Equal(got, slices.Compact(keys)) {
		t.Errorf("All has %d keys, want %d", len(got), n)
	}
}

func (s setSuite) clear(t testing.TB, set erasedSet) {
	keys := s.uniqueKeys(300, s.rng())
	s.add(t, set, keys, 300)
	must(t, set.Clear(ctx()))
	s.checkKeys(t, set, nil, keys)
	s.add(t, set, keys, 300)
}

func (s setSuite) lengths(t testing.TB, set erasedSet) {
	keys := s.uniqueKeys(10, s.rng())
	mustPanic(t, "Add", func() { set.Add(ctx(), keys, make([]bool, 9)) })
	mustPanic(t, "Contains", func() { set.Contains(ctx(), keys, make([]bool, 11)) })
	mustPanic(t, "Delete", func() { set.Delete(ctx(), keys, []bool{}) })
}

// A mixed batch in device memory must add, remove and find keys.
func (s setSuite) apply(t testing.TB, set erasedSet) {
	rng, n := s.rng(), min(s.scale.Rows(), 2000)
	keys := s.uniqueKeys(n, rng)
	s.add(t, set, keys[:n/2], n/2)
	kinds, want, left := make([]weft.OpKind, n), make([]bool, n), 0
	for i := range kinds {
		kinds[i] = weft.OpKind(rng.IntN(6))
		present := i < n/2
		inserts := kinds[i] == weft.OpPut || kinds[i] == weft.OpPutNew
		want[i] = present != inserts && kinds[i] <= weft.OpDelete
		if inserts || present && kinds[i] != weft.OpDelete {
			left++
		}
	}
	st := devicetest.NewStream(t, s.dev)
	on, kindsOn, ok := s.keysOn(t, st, keys), devicetest.Upload(t, st, kinds), devicetest.Upload(t, st, make([]bool, n))
	must(t, set.ApplyOn(st, kindsOn, on, ok))
	must(t, set.Sync(ctx()))
	got := make([]bool, n)
	must(t, ok.CopyTo(ctx(), st, got))
	if !slices.Equal(got, want) || set.Len() != left {
		t.Errorf("%d keys are left, want %d; the flags are right: %v", set.Len(), left, slices.Equal(got, want))
	}
}

func (s setSuite) againstModel(t testing.TB, set erasedSet) {
	rng, model := s.rng(), map[uint64]bool{}
	for range 40 {
		keys := make([]uint64, rng.IntN(200))
		for i := range keys {
			keys[i] = s.collidingKey(byte(rng.Uint32()))
		}
		flags, want := make([]bool, len(keys)), make([]bool, len(keys))
		var err error
		switch rng.IntN(3) {
		case 0:
			for i, k := range keys {
				want[i] = !model[k]
				model[k] = true
			}
			_, err = set.Add(ctx(), keys, flags)
		case 1:
			for i, k := range keys {
				want[i] = model[k]
				delete(model, k)
			}
			_, err = set.Delete(ctx(), keys, flags)
		case 2:
			for i, k := range keys {
				want[i] = model[k]
			}
			_, err = set.Contains(ctx(), keys, flags)
		}
		must(t, err)
		if !slices.Equal(flags, want) {
			t.Fatal("answers differ from the model's")
		}
		if set.Len() != len(model) {
			t.Fatalf("Len = %d, want %d", set.Len(), len(model))
		}
	}
}
