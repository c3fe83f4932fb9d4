package conformance

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// withDuplicates returns a batch with n operations on about n/4 distinct keys.
func (y *types) withDuplicates(n int, rng *rand.Rand) (keys, vals []uint64) {
	pool := y.uniqueKeys(n/4+1, rng)
	return drawKeys(pool, n, rng), y.randomValues(n, rng)
}

func (s mapSuite) lastPutWins(t testing.TB, m erasedMap) {
	rng := s.rng()
	last := map[uint64]uint64{}
	for range 3 {
		before := len(last)
		keys, vals := s.withDuplicates(s.scale.Rows(), rng)
		for i, k := range keys {
			last[k] = vals[i]
		}
		s.put(t, m, keys, vals, len(last)-before)
		s.checkLen(t, m, len(last))
		for i, k := range keys {
			vals[i] = last[k]
		}
		s.checkPresent(t, m, keys, vals)
	}
}

func (s mapSuite) firstPutNewWins(t testing.TB, m erasedMap) {
	rng := s.rng()
	keys, vals := s.withDuplicates(s.scale.Rows(), rng)
	first := map[uint64]uint64{}
	want := make([]bool, len(keys))
	for i, k := range keys {
		if _, ok := first[k]; !ok {
			first[k], want[i] = vals[i], true
		}
	}
	ok := make([]bool, len(keys))
	n, err := m.PutNew(ctx(), keys, vals, ok)
	must(t, err)
	if n != len(first) || !slices.Equal(ok, want) {
		t.Errorf("PutNew inserted %d, want %d; flags of the first: %v", n, len(first), slices.Equal(ok, want))
	}
	for i, k := range keys {
		vals[i] = first[k]
	}
	s.checkPresent(t, m, keys, vals)
}

func (s mapSuite) firstDeleteReports(t testing.TB, m erasedMap) {
	rng := s.rng()
	keys, vals := s.withDuplicates(s.scale.Rows(), rng)
	if _, err := m.Put(ctx(), keys[:len(keys)/3], vals[:len(keys)/3]); err != nil {
		t.Fatal(err)
	}
	left := map[uint64]bool{}
	for _, k := range keys[:len(keys)/3] {
		left[k] = true
	}
	want, n := make([]bool, len(keys)), len(left)
	for i, k := range keys {
		want[i] = left[k]
		delete(left, k)
	}
	deleted := make([]bool, len(keys))
	got, err := m.Delete(ctx(), keys, deleted)
	must(t, err)
	if got != n || !slices.Equal(deleted, want) {
		t.Errorf("Delete removed %d, want %d; flags of the first: %v", got, n, slices.Equal(deleted, want))
	}
	s.checkLen(t, m, 0)
}

func (s mapSuite) duplicatesAcrossOldAndNew(t testing.TB, m erasedMap) {
	rng := s.rng()
	model := map[uint64]uint64{}
	pool := s.uniqueKeys(64, rng)
	for range 20 {
		keys, vals := make([]uint64, 200), s.randomValues(200, rng)
		for i := range keys {
			keys[i] = pool[rng.IntN(len(pool))]
		}
		fresh := 0
		for i, k := range keys {
			if _, ok := model[k]; !ok {
				fresh++
			}
			model[k] = vals[i]
		}
		s.put(t, m, keys, vals, fresh)
		s.checkEqual(t, m, model)
		deleted := pool[rng.IntN(len(pool))]
		delete(model, deleted)
		if _, err := m.Delete(ctx(), []uint64{deleted, deleted}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func (s mapSuite) allKeysEqual(t testing.TB, m erasedMap) {
	rng, n := s.rng(), s.scale.Rows()
	keys := slices.Repeat(s.numbers(42), n)
	vals := s.randomValues(n, rng)
	s.put(t, m, keys, vals, 1)
	s.checkPresent(t, m, keys[:1], vals[n-1:])
	s.put(t, m, keys, vals, 0)
	s.checkLen(t, m, 1)
	got, err := m.Delete(ctx(), keys, nil)
	if got != 1 || err != nil {
		t.Errorf("Delete of one key %d times: %d, %v", n, got, err)
	}
}

func (s mapSuite) twoKeysAlternate(t testing.TB, m erasedMap) {
	rng, n := s.rng(), s.scale.Rows()
	keys := slices.Repeat(s.numbers(-1, 0), n/2)
	vals := s.randomValues(len(keys), rng)
	s.put(t, m, keys, vals, 2)
	s.checkPresent(t, m, keys[:2], vals[len(vals)-2:])
	s.checkLen(t, m, 2)
}

// A batch with one operation per key must return the single correct result.
func (s mapSuite) apply(t testing.TB, m erasedMap) {
	rng, n := s.rng(), s.scale.Rows()
	model := map[uint64]uint64{}
	keys, vals := s.uniqueKeys(n, rng), s.randomValues(n, rng)
	s.put(t, m, keys[:n/2], vals[:n/2], n/2)
	for i, k := range keys[:n/2] {
		model[k] = vals[i]
	}
	ops, want := make([]weft.Op[uint64, uint64], n), make([]weft.Result[uint64], n)
	for i, j := range rng.Perm(n) {
		k := keys[j]
		op := weft.Op[uint64, uint64]{Kind: s.kindOf(rng), Key: k, Value: s.randomValue(rng)}
		old, present := model[k]
		switch op.Kind {
		case weft.OpGet:
			want[i] = weft.Result[uint64]{Value: old, OK: present}
		case weft.OpPut:
			want[i].OK = !present
			model[k] = op.Value
		case weft.OpPutNew:
			want[i].OK = !present
			if present {
				want[i].Value = old
			} else {
				model[k] = op.Value
			}
		case weft.OpDelete:
			want[i].OK = present
			delete(model, k)
		default:
			want[i].OK = !present
			if model[k] = op.Value; present {
				model[k] = s.combine(weft.Reduction(op.Kind), old, op.Value)
			}
		}
		ops[i] = op
	}
	res := make([]weft.Result[uint64], n)
	must(t, m.Apply(ctx(), ops, res))
	for i := range res {
		if res[i].OK != want[i].OK || res[i].Value != want[i].Value {
			t.Fatalf("%v(%#x) = %#x %v, want %#x %v", ops[i].Kind, ops[i].Key, res[i].Value, res[i].OK, want[i].Value, want[i].OK)
		}
	}
	s.checkEqual(t, m, model)
}

// An update must change present keys only. A map that does not support updates must reject the
// batch and run none of it. In device memory, such a batch must have no effect.
func (s mapSuite) applyUpdates(t testing.TB, m erasedMap) {
	const n = 40
	rng := s.rng()
	keys, vals := s.uniqueKeys(n, rng), s.randomValues(2*n, rng)
	s.put(t, m, keys[:n/2], vals[:n/2], n/2)
	kinds, ops, res := make([]weft.OpKind, n), make([]weft.Op[uint64, uint64], n), make([]weft.Result[uint64], n)
	for i, k := range keys {
		kinds[i] = weft.OpUpdate
		ops[i] = weft.Op[uint64, uint64]{Kind: weft.OpUpdate, Key: k, Value: vals[n+i]}
	}
	err := m.Apply(ctx(), ops, res)
	has := err == nil
	if !has && (!errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "Update")) {
		t.Fatal(err)
	}
	hold := vals[:n/2]
	if has {
		hold = vals[n:][:n/2]
	}
	s.checkPresent(t, m, keys[:n/2], hold)
	for i := range res {
		if want := has && i < n/2; res[i].OK != want || res[i].Value != 0 {
			t.Fatalf("update %d of %d: %v, want OK %v and no value", i, n, res[i], want)
		}
	}
	stream := devicetest.NewStream(t, s.dev)
	on, ok := s.valsOn(t, stream, vals[:n]), devicetest.Upload(t, stream, make([]bool, n))
	must(t, m.ApplyOn(stream, devicetest.Upload(t, stream, kinds), s.keysOn(t, stream, keys), on, ok))
	found := make([]bool, n)
	must(t, errors.Join(ok.CopyTo(ctx(), stream, found), m.Sync(ctx())))
	for i := range found {
		if want := has && i < n/2; found[i] != want {
			t.Fatalf("update %d of %d on the device: %v, want %v", i, n, found[i], want)
		}
	}
	if has {
		hold = vals[:n/2]
	}
	s.checkPresent(t, m, keys[:n/2], hold)
	s.checkLen(t, m, n/2)
}

// The results of many operations on few keys must be consistent with each other.
func (s mapSuite) applyAnswers(t testing.TB, m erasedMap) {
	rng := s.rng()
	pool := s.uniqueKeys(8, rng)
	for range 10 {
		present := map[uint64]int{}
		for k := range m.All() {
			present[k]++
		}
		ops := make([]weft.Op[uint64, uint64], 300)
		for i := range ops {
			ops[i] = weft.Op[uint64, uint64]{Kind: s.kindOf(rng), Key: pool[rng.IntN(len(pool))], Value: s.bits(uint64(i) + 1)}
		}
		res := make([]weft.Result[uint64], len(ops))
		must(t, m.Apply(ctx(), ops, res))
		for i, op := range ops {
			if !res[i].OK {
				continue
			}
			switch {
			case op.Kind.Inserts():
				present[op.Key]++
			case op.Kind == weft.OpDelete:
				present[op.Key]--
			}
		}
		live := map[uint64]int{}
		for k := range m.All() {
			live[k]++
		}
		for _, k := range pool {
			if present[k] != live[k] || live[k] > 1 {
				t.Fatalf("key %#x is there %d times; by the answers %d times", k, live[k], present[k])
			}
		}
		must(t, m.Apply(ctx(), ops, nil))
	}
	err := m.Apply(ctx(), []weft.Op[uint64, uint64]{{Kind: 77}}, nil)
	if err == nil {
		t.Error("Apply of an unknown kind: no error")
	}
}
