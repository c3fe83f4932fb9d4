package conformance

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// The values of a key must be in the order of the batches.
func (s multiSuite) putAppends(t testing.TB, m erasedMultiMap) {
	rng, n, want := s.rng(), s.scale.Rows()/10, values{}
	keys := s.uniqueKeys(n, rng)
	for range 5 {
		s.put(t, m, want, keys, s.randomValues(n, rng))
		rng.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	}
	s.checkEqual(t, m, want)
}

// Put must add a pair again if it is already present.
func (s multiSuite) equalPairs(t testing.TB, m erasedMultiMap) {
	want := values{}
	pair := s.bits(7)
	for _, n := range []int{1, 1, 3, 40} {
		s.put(t, m, want, slices.Repeat(s.numbers(5), n), slices.Repeat([]uint64{pair}, n))
	}
	s.checkEqual(t, m, want)
}

func (s multiSuite) putDuplicates(t testing.TB, m erasedMultiMap) {
	rng, want := s.rng(), values{}
	for range 3 {
		keys, vals := s.withDuplicates(s.scale.Rows(), rng)
		s.put(t, m, want, keys, vals)
	}
	s.checkEqual(t, m, want)
}

func (s multiSuite) putNewOfAbsent(t testing.TB, m erasedMultiMap) {
	rng, n, want := s.rng(), s.scale.Rows(), values{}
	keys, vals := s.uniqueKeys(2*n, rng), s.randomValues(2*n, rng)
	s.put(t, m, want, keys[:n], vals[:n])
	s.put(t, m, want, keys[:n/2], vals[:n/2])
	ok := slices.Repeat([]bool{true}, 2*n)
	vals = s.randomValues(2*n, rng)
	got, err := m.PutNew(ctx(), keys, vals, ok)
	must(t, err)
	if got != n {
		t.Errorf("PutNew added %d pairs, want %d", got, n)
	}
	for i := range ok {
		if ok[i] != (i >= n) {
			t.Fatalf("PutNew of key %d reports %v", i, ok[i])
		}
	}
	s.checkAppended(t, m, want, keys[n:], vals[n:])
	s.checkLookups(t, m, want, keys)
	s.checkLen(t, m, want.pairs())
}

// If several PutNews in a batch have the same absent key, exactly one must add its pair and set its
// flag.
func (s multiSuite) putNewDuplicates(t testing.TB, m erasedMultiMap) {
	rng, want := s.rng(), values{}
	for range 3 {
		keys, vals := s.withDuplicates(s.scale.Rows(), rng)
		ok := make([]bool, len(keys))
		got, err := m.PutNew(ctx(), keys, vals, ok)
		must(t, err)
		n := 0
		for i, k := range keys {
			if !ok[i] {
				continue
			}
			if len(want[k]) > 0 {
				t.Fatalf("PutNew of key %#x reports success twice", k)
			}
			want[k] = vals[i : i+1]
			n++
		}
		if n != got {
			t.Errorf("PutNew added %d pairs and reports %d", n, got)
		}
		s.checkLookups(t, m, want, keys)
	}
	s.checkEqual(t, m, want)
}

// Lookups must work for absent keys, for repeated keys, and without keys.
func (s multiSuite) getAll(t testing.TB, m erasedMultiMap) {
	rng, want := s.rng(), values{}
	keys := s.uniqueKeys(40, rng)
	s.checkLookups(t, m, want, nil)
	for lo := range 30 { // key i has i+1 values
		s.put(t, m, want, keys[lo:30], s.randomValues(30-lo, rng))
	}
	s.checkLookups(t, m, want, nil)
	s.checkLookups(t, m, want, keys)
	s.checkLookups(t, m, want, keys[30:])
	batch := slices.Concat(keys, keys[20:], keys[:5], keys[:5], keys[29:30], keys[29:30], keys[35:])
	s.checkLookups(t, m, want, batch)
	slices.Reverse(batch)
	s.checkLookups(t, m, want, batch)
	large := make([]uint64, s.scale.Rows())
	for i := range large {
		large[i] = keys[rng.IntN(len(keys))]
	}
	s.checkLookups(t, m, want, large)
}

// GetAll must append to the rows it is given. After an error it must leave them unchanged.
func (s multiSuite) getAllInto(t testing.TB, m erasedMultiMap) {
	rng, want := s.rng(), values{}
	keys, vals := s.withDuplicates(min(s.scale.Rows(), 1000), rng)
	each := append(distinct(keys), s.uniqueKeys(3, rng)...)
	st := devicetest.NewStream(t, s.dev)
	must(t, m.PutOn(st, s.keysOn(t, st, keys), s.valsOn(t, st, vals)))
	onStream := s.getAllOn(t, m, st, each, len(vals)) // without waiting for the Put
	s.checkAppended(t, m, want, keys, vals)
	reference := s.getAllOf(t, m, each)
	if !slices.Equal(onStream.Vals, reference.Vals) || !slices.Equal(onStream.Offsets, reference.Offsets) {
		t.Errorf("GetAllOn after PutOn has other values, or another order, than GetAll")
	}
	var rows weft.Rows[uint64]
	for range 2 {
		must(t, m.GetAll(ctx(), each, &rows))
	}
	for nChecks := range int64(4) {
		was := rows
		err := m.GetAll(&countdown{ctx(), newCount(nChecks)}, each, &rows)
		switch {
		case err == nil:
			rows = was
		case !slices.Equal(rows.Offsets, was.Offsets) || len(rows.Vals) != len(was.Vals):
			t.Errorf("GetAll with a context that ends leaves %d rows of %d: %v", rows.Len(), was.Len(), err)
		}
		if err == nil && nChecks == 0 {
			t.Error("GetAll with an ended context: no error")
		}
	}
	for i := range rows.Len() {
		if !slices.Equal(rows.Row(i), reference.Row(i%len(each))) {
			t.Fatalf("row %d of %d, appended: %d values, want %d", i, rows.Len(), len(rows.Row(i)), len(reference.Row(i%len(each))))
		}
	}
	for _, capacity := range []int{len(vals), len(vals) + 9, len(vals) / 2, 0} {
		got, fits := s.getAllOn(t, m, st, each, capacity), min(capacity, len(vals))
		if !slices.Equal(got.Offsets, reference.Offsets) || !slices.Equal(got.Vals[:fits], reference.Vals[:fits]) {
			t.Fatalf("GetAllOn with room for %d of %d values: as by GetAll? offsets %v, values %v", capacity, len(vals),
				slices.Equal(got.Offsets, reference.Offsets), slices.Equal(got.Vals[:fits], reference.Vals[:fits]))
		}
	}
}

// getAllOn looks up all values on the device. The device must write the total number of values, and
// values up to the capacity.
func (s multiSuite) getAllOn(t testing.TB, m erasedMultiMap, st *device.Stream, keys []uint64, capacity int) weft.Rows[uint64] {
	t.Helper()
	counts, offsets := devicetest.Upload(t, st, make([]uint32, len(keys))), devicetest.Upload(t, st, make([]uint64, len(keys)+1))
	vals := s.valsOn(t, st, slices.Repeat([]uint64{s.bits(3)}, capacity))
	must(t, m.GetAllOn(st, s.keysOn(t, st, keys), counts, offsets, vals))
	got := weft.Rows[uint64]{Offsets: devicetest.Download(t, st, offsets), Vals: make([]uint64, capacity)}
	must(t, vals.CopyTo(ctx(), st, got.Vals))
	for i, n := range devicetest.Download(t, st, counts) {
		if uint64(n) != got.Offsets[i+1]-got.Offsets[i] {
			t.Fatalf("GetAllOn counts %d values of key %#x, and has %d", n, keys[i], got.Offsets[i+1]-got.Offsets[i])
		}
	}
	return got
}

func (s multiSuite) count(t testing.TB, m erasedMultiMap) {
	rng, want := s.rng(), values{}
	keys, vals := s.withDuplicates(500, rng)
	s.put(t, m, want, keys, vals)
	for _, batch := range [][]uint64{keys, slices.Repeat(keys[:1], 100), s.uniqueKeys(100, rng), nil} {
		total := 0
		for _, k := range batch {
			total += len(want[k])
		}
		counts := slices.Repeat([]uint32{^uint32(0)}, len(batch))
		with, err := m.Count(ctx(), batch, counts)
		must(t, err)
		totalOnly, err := m.Count(ctx(), batch, nil)
		must(t, err)
		if with != total || totalOnly != total {
			t.Errorf("Count of %d keys: %d, without counts %d, want %d", len(batch), with, totalOnly, total)
		}
		for i, k := range batch {
			if int(counts[i]) != len(want[k]) {
				t.Fatalf("Count of key %#x: %d, want %d", k, counts[i], len(want[k]))
			}
		}
	}
}

// Delete must remove the pairs of a key in their order.
func (s multiSuite) deleteFirst(t testing.TB, m erasedMultiMap) {
	rng, n, want := s.rng(), s.scale.Rows()/10, values{}
	keys := s.uniqueKeys(n, rng)
	for round := range 4 { // a quarter has four pairs each, the next three, …
		part := keys[:n-round*n/4]
		s.put(t, m, want, part, s.randomValues(len(part), rng))
	}
	for range 5 {
		present := make([]bool, n)
		left := 0
		for i, k := range keys {
			if present[i] = want.removeFirst(k); present[i] {
				left++
			}
		}
		deleted := make([]bool, n)
		got, err := m.Delete(ctx(), keys, deleted)
		must(t, err)
		if got != left || !slices.Equal(deleted, present) {
			t.Errorf("Delete removed %d pairs, want %d; flags equal: %v", got, left, slices.Equal(deleted, present))
		}
		s.checkLookups(t, m, want, keys)
		s.checkLen(t, m, want.pairs())
	}
}

// If a batch deletes a key n times, the key must lose n pairs, or all if it has fewer.
func (s multiSuite) deleteDuplicates(t testing.TB, m erasedMultiMap) {
	rng, n, want := s.rng(), s.scale.Rows(), values{}
	keys, vals := s.withDuplicates(n, rng)
	s.put(t, m, want, keys, vals)
	batch := make([]uint64, n)
	for i := range batch {
		batch[i] = keys[rng.IntN(n/2)]
	}
	removed, total := map[uint64]int{}, 0
	for _, k := range batch {
		if want.removeFirst(k) {
			removed[k]++
			total++
		}
	}
	deleted := make([]bool, n)
	got, err := m.Delete(ctx(), batch, deleted)
	must(t, err)
	if got != total {
		t.Errorf("Delete removed %d pairs, want %d", got, total)
	}
	for i, k := range batch {
		if deleted[i] {
			removed[k]--
		}
	}
	for k, n := range removed {
		if n != 0 {
			t.Fatalf("Delete of key %#x, several times: %d reports too few", k, n)
		}
	}
	s.checkEqual(t, m, want)
}

func (s multiSuite) deleteAll(t testing.TB, m erasedMultiMap) {
	rng, n, want := s.rng(), s.scale.Rows(), values{}
	keys, vals := s.withDuplicates(n, rng)
	s.put(t, m, want, keys, vals)
	each := distinct(keys)
	batch := slices.Concat(each[:len(each)/2], s.uniqueKeys(50, rng)) // with some absent keys
	removed := slices.Repeat([]uint32{^uint32(0)}, len(batch))
	total := 0
	for _, k := range batch {
		total += len(want[k])
	}
	got, err := m.DeleteAll(ctx(), batch, removed)
	must(t, err)
	if got != total {
		t.Errorf("DeleteAll removed %d pairs, want %d", got, total)
	}
	for i, k := range batch {
		if int(removed[i]) != len(want[k]) {
			t.Fatalf("DeleteAll of key %#x reports %d pairs, want %d", k, removed[i], len(want[k]))
		}
		delete(want, k)
	}
	s.checkLookups(t, m, want, each)
	s.put(t, m, want, keys, vals)
	s.checkEqual(t, m, want)
}

// If a batch has several DeleteAlls for a key, the counts that they report must add up to the key's
// number of pairs.
func (s multiSuite) deleteAllDuplicates(t testing.TB, m erasedMultiMap) {
	rng, n, want := s.rng(), s.scale.Rows(), values{}
	keys, vals := s.withDuplicates(n, rng)
	s.put(t, m, want, keys, vals)
	removed := make([]uint32, n)
	got, err := m.DeleteAll(ctx(), keys, removed)
	must(t, err)
	if got != n {
		t.Errorf("DeleteAll removed %d pairs, want %d", got, n)
	}
	sums := map[uint64]int{}
	for i, k := range keys {
		sums[k] += int(removed[i])
	}
	for k, sum := range sums {
		if sum != len(want[k]) {
			t.Fatalf("DeleteAll of key %#x, several times, reports %d pairs, want %d", k, sum, len(want[k]))
		}
	}
	s.checkEqual(t, m, nil)
}

// A key must be able to have more pairs than all other keys together.
func (s multiSuite) manyPairs(t testing.TB, m erasedMultiMap) {
	rng, want := s.rng(), values{}
	n := min(4*s.scale.Rows(), 20_000)
	pool := s.uniqueKeys(100, rng)
	hot := pool[0]
	for range 4 {
		keys := slices.Repeat([]uint64{hot}, n/4)
		for i := range 100 {
			keys[rng.IntN(len(keys))] = pool[i]
		}
		s.put(t, m, want, keys, s.randomValues(len(keys), rng))
	}
	s.checkEqual(t, m, want)
	s.checkLookups(t, m, want, slices.Concat(pool, pool[:1]))
	got, err := m.Delete(ctx(), slices.Repeat([]uint64{hot}, 300), nil)
	must(t, err)
	want[hot] = want[hot][300:]
	if got != 300 {
		t.Errorf("Delete of one key 300 times removed %d", got)
	}
	s.checkLookups(t, m, want, pool)
	if n, err := m.PutNew(ctx(), []uint64{hot}, make([]uint64, 1), nil); n != 0 || err != nil {
		t.Errorf("PutNew of a key with many pairs: %d, %v", n, err)
	}
	removed := make([]uint32, 3)
	got, err = m.DeleteAll(ctx(), []uint64{pool[1], hot, pool[2]}, removed)
	must(t, err)
	if int(removed[1]) != len(want[hot]) || got != int(removed[0]+removed[1]+removed[2]) {
		t.Errorf("DeleteAll removed %d pairs, by key %d; the one in the middle had %d", got, removed, len(want[hot]))
	}
	for _, k := range []uint64{pool[1], hot, pool[2]} {
		delete(want, k)
	}
	s.put(t, m, want, []uint64{hot}, make([]uint64, 1))
	s.checkEqual(t, m, want)
}

// A batch with one operation per key must return the single correct result.
func (s multiSuite) apply(t testing.TB, m erasedMultiMap) {
	rng, n, want := s.rng(), s.scale.Rows(), values{}
	keys := s.uniqueKeys(n, rng)
	for round := range 3 { // keys with three pairs, with two, with one, with none
		part := keys[:n-(round+1)*n/4]
		s.put(t, m, want, part, s.randomValues(len(part), rng))
	}
	ops, answers := make([]weft.Op[uint64, uint64], n), make([]weft.Result[uint64], n)
	for i, j := range rng.Perm(n) {
		k := keys[j]
		op := weft.Op[uint64, uint64]{Kind: weft.OpKind(rng.IntN(5)), Key: k, Value: s.randomValue(rng)}
		present := len(want[k]) > 0
		answers[i].OK = present
		switch {
		case op.Kind == weft.OpPut, op.Kind == weft.OpPutNew && !present:
			want[k] = append(slices.Clip(want[k]), op.Value)
			answers[i].OK = true
		case op.Kind == weft.OpGet && present, op.Kind == weft.OpPutNew:
			answers[i] = weft.Result[uint64]{Value: want[k][0], OK: op.Kind == weft.OpGet}
		case op.Kind == weft.OpDelete:
			want.removeFirst(k)
		case op.Kind == weft.OpDeleteAll:
			delete(want, k)
		}
		ops[i] = op
	}
	res := make([]weft.Result[uint64], n)
	must(t, m.Apply(ctx(), ops, res))
	for i, r := range res {
		if r.OK != answers[i].OK || r.Value != answers[i].Value {
			t.Fatalf("%v(%#x) = %#x %v, want %#x %v", ops[i].Kind, ops[i].Key, r.Value, r.OK, answers[i].Value, answers[i].OK)
		}
	}
	s.checkEqual(t, m, want)
	if err := m.Apply(ctx(), []weft.Op[uint64, uint64]{{Kind: weft.OpDeleteAll + 1}}, nil); err == nil {
		t.Error("Apply of an unknown kind: no error")
	}
}

// mixedBatch returns operations on few keys, each with a distinct value. kinds is the number of
// kinds to draw from.
func (s multiSuite) mixedBatch(pool []uint64, kinds, round int) []weft.Op[uint64, uint64] {
	rng := rand.New(rand.NewPCG(7, uint64(round)))
	ops := make([]weft.Op[uint64, uint64], 300)
	for i := range ops {
		kind := weft.OpKind(rng.IntN(kinds))
		ops[i] = weft.Op[uint64, uint64]{Kind: kind, Key: pool[rng.IntN(len(pool))], Value: s.bits(uint64(round*len(ops) + i + 1))}
	}
	return ops
}

// The results of many operations on few keys must be consistent with each other.
func (s multiSuite) applyAnswers(t testing.TB, m erasedMultiMap) {
	pool := s.uniqueKeys(8, s.rng())
	counts, before := make([]uint32, len(pool)), make([]uint32, len(pool))
	for round := range 10 {
		copy(before, counts)
		ops := s.mixedBatch(pool, 4, round)
		res := make([]weft.Result[uint64], len(ops))
		must(t, m.Apply(ctx(), ops, res))
		added := values{}
		for i, op := range ops {
			at := slices.Index(pool, op.Key)
			switch {
			case op.Kind == weft.OpPut && !res[i].OK:
				t.Fatalf("%v(%#x) reports that its pair is not new", op.Kind, op.Key)
			case res[i].OK && (op.Kind == weft.OpPut || op.Kind == weft.OpPutNew):
				before[at]++
				added[op.Key] = append(added[op.Key], op.Value)
			case res[i].OK && op.Kind == weft.OpDelete:
				before[at]--
			}
		}
		total, err := m.Count(ctx(), pool, counts)
		must(t, err)
		if !slices.Equal(counts, before) || m.Len() != total {
			t.Fatalf("the keys have %d values, by the answers %d; Len = %d, want %d", counts, before, m.Len(), total)
		}
		s.checkAppendedLast(t, m, pool, added)
		must(t, m.Apply(ctx(), ops, nil))
		_, err = m.Count(ctx(), pool, counts)
		must(t, err)
	}
}

// checkAppendedLast requires the values that a batch added to follow all earlier values of their
// keys. The batch may also have removed some of the added values.
func (s multiSuite) checkAppendedLast(t testing.TB, m erasedMultiMap, keys []uint64, added values) {
	t.Helper()
	rows := s.getAllOf(t, m, keys)
	for i, k := range keys {
		old := true
		for _, v := range rows.Row(i) {
			fresh := slices.ContainsFunc(added[k], func(a uint64) bool { return a == v })
			if !fresh && !old {
				t.Fatalf("key %#x has the value %#x after those of a later batch", k, v)
			}
			old = !fresh
		}
	}
}

// A DeleteAll must remove pairs that are present when it runs, from earlier batches or its own. It
// must never remove a pair of another key.
func (s multiSuite) applyDeleteAll(t testing.TB, m erasedMultiMap) {
	pool := s.uniqueKeys(12, s.rng())
	for round := range 10 {
		was := s.getAllOf(t, m, pool)
		ops := s.mixedBatch(pool, 5, round)
		res := make([]weft.Result[uint64], len(ops))
		must(t, m.Apply(ctx(), ops, res))
		maxPairs, minDeleted, allowed := map[uint64]int{}, map[uint64]int{}, values{}
		for i, k := range pool {
			maxPairs[k] = len(was.Row(i))
			allowed[k] = slices.Clone(was.Row(i))
		}
		for i, op := range ops {
			if !res[i].OK {
				continue
			}
			switch op.Kind {
			case weft.OpPut, weft.OpPutNew:
				maxPairs[op.Key]++
				allowed[op.Key] = append(allowed[op.Key], op.Value)
			case weft.OpDelete, weft.OpDeleteAll: // at least one
				minDeleted[op.Key]++
			}
		}
		now := s.getAllOf(t, m, pool)
		for i, k := range pool {
			if n := len(now.Row(i)); n > maxPairs[k]-minDeleted[k] {
				t.Fatalf("key %#x has %d values; by the answers %d at most", k, n, maxPairs[k]-minDeleted[k])
			}
			for _, v := range now.Row(i) {
				if !slices.ContainsFunc(allowed[k], func(a uint64) bool { return a == v }) {
					t.Fatalf("key %#x has the value %#x, which no call stored", k, v)
				}
			}
		}
		s.checkLen(t, m, len(now.Vals))
	}
}
