package conformance

import (
	"slices"
	"sync"
	"testing"

	"github.com/weftgo/weft"
)

func (s multiSuite) growsAndShrinks(t testing.TB, m erasedMultiMap) {
	rng, n, want := s.rng(), s.scale.Rows(), values{}
	keys, vals := s.withDuplicates(n, rng)
	for size, lo := 1, 0; lo < n; size *= 3 { // batches of growing size
		hi := min(lo+size, n)
		s.put(t, m, want, keys[lo:hi], vals[lo:hi])
		lo = hi
	}
	s.checkEqual(t, m, want)
	each := distinct(keys)
	left := len(each) / 50
	if _, err := m.DeleteAll(ctx(), each[left:], nil); err != nil {
		t.Fatal(err)
	}
	for _, k := range each[left:] {
		delete(want, k)
	}
	s.checkEqual(t, m, want)
	s.checkLookups(t, m, want, each)
	s.put(t, m, want, keys, vals)
	s.checkEqual(t, m, want)
}

// A multimap must work while keys come and go and their number stays the same.
func (s multiSuite) churn(t testing.TB, m erasedMultiMap) {
	rng, n, want := s.rng(), s.scale.Rows()/10, values{}
	keys := s.uniqueKeys(20*n, rng)
	doubled := func(keys []uint64) []uint64 { return slices.Concat(keys, keys) }
	s.put(t, m, want, doubled(keys[:n]), s.randomValues(2*n, rng))
	for lo := 0; lo+2*n <= len(keys); lo += n {
		got, err := m.Delete(ctx(), doubled(keys[lo:lo+n]), nil)
		must(t, err)
		if got != 2*n {
			t.Fatalf("Delete removed %d of %d pairs", got, 2*n)
		}
		for _, k := range keys[lo : lo+n] {
			delete(want, k)
		}
		s.put(t, m, want, doubled(keys[lo+n:lo+2*n]), s.randomValues(2*n, rng))
		s.checkLookups(t, m, want, keys[lo:lo+2*n])
	}
	s.checkEqual(t, m, want)
}

// A multimap must work if each key has a queue of pairs: its first pairs are removed and new pairs
// are appended, repeatedly.
func (s multiSuite) queue(t testing.TB, m erasedMultiMap) {
	rng, want := s.rng(), values{}
	keys := slices.Repeat(s.uniqueKeys(4, rng), 20)
	for range 30 {
		s.put(t, m, want, keys, s.randomValues(len(keys), rng))
		if want.pairs() < 3*len(keys) {
			continue
		}
		got, err := m.Delete(ctx(), keys, nil)
		must(t, err)
		for _, k := range keys {
			want.removeFirst(k)
		}
		if got != len(keys) {
			t.Fatalf("Delete removed %d of %d pairs", got, len(keys))
		}
	}
	s.checkEqual(t, m, want)
}

func (s multiSuite) all(t testing.TB, m erasedMultiMap) {
	rng, n, want := s.rng(), s.scale.Rows(), values{}
	keys, vals := s.withDuplicates(n, rng)
	for _, part := range [][2]int{{0, n / 3}, {n / 3, n / 2}, {n / 2, n}} {
		s.put(t, m, want, keys[part[0]:part[1]], vals[part[0]:part[1]])
	}
	s.checkEqual(t, m, want)
}

// An iteration must see each unchanged pair once, and the pairs of a key in order, although the
// table grows meanwhile.
func (s multiSuite) allWhileChanging(t testing.TB, m erasedMultiMap) {
	rng, n, want := s.rng(), s.scale.Rows(), values{}
	keys := s.uniqueKeys(n, rng)
	for i := range 2 {
		vals := make([]uint64, n)
		for j := range vals {
			vals[j] = s.bits(uint64(i*n + j))
		}
		s.put(t, m, want, keys, vals)
	}
	before, seen, steps := values{}, values{}, 0
	for k, vals := range want {
		before[k] = vals
	}
	for k, v := range m.All() {
		if v < uint64(2*n) {
			seen[k] = append(seen[k], v)
		}
		if steps++; steps == n {
			more := slices.Concat(keys, keys)
			s.put(t, m, want, more, slices.Repeat([]uint64{s.bits(uint64(2 * n))}, 2*n))
		}
	}
	for _, k := range keys {
		if !slices.Equal(seen[k], before[k]) {
			t.Fatalf("of key %#x, which has %d values, %d were seen, or in another order", k, len(before[k]), len(seen[k]))
		}
	}
	s.checkEqual(t, m, want)
}

func (s multiSuite) clear(t testing.TB, m erasedMultiMap) {
	rng, want := s.rng(), values{}
	keys := append(s.uniqueKeys(200, rng), s.reservedKeys()[4]) // all ones
	more := slices.Concat(keys, keys, keys[:1], keys[:1])
	s.put(t, m, want, more, s.randomValues(len(more), rng))
	must(t, m.Clear(ctx()))
	s.checkEqual(t, m, nil)
	s.checkLookups(t, m, nil, keys)
	clear(want)
	s.put(t, m, want, more, s.randomValues(len(more), rng))
	s.checkEqual(t, m, want)
}

func (s multiSuite) lengths(t testing.TB, m erasedMultiMap) {
	checkLengthPanics(t, m)
	k, n := make([]uint64, 3), make([]uint32, 2)
	mustPanic(t, "Count", func() { m.Count(ctx(), k, n) })
	mustPanic(t, "DeleteAll", func() { m.DeleteAll(ctx(), k, n) })
	s.checkLen(t, m, 0) // nothing has run, and no lock is held
}

func (s multiSuite) nilOutputs(t testing.TB, m erasedMultiMap) {
	rng := s.rng()
	keys, vals := s.uniqueKeys(300, rng), s.randomValues(300, rng)
	for name, call := range map[string]func() (int, error){
		"PutNew":   func() (int, error) { return m.PutNew(ctx(), keys, vals, nil) },
		"Get":      func() (int, error) { return m.Get(ctx(), keys, make([]uint64, 300), nil) },
		"Count":    func() (int, error) { return m.Count(ctx(), keys, nil) },
		"Contains": func() (int, error) { return m.Contains(ctx(), keys, nil) },
		"Delete":   func() (int, error) { return m.Delete(ctx(), keys, nil) },
	} {
		must(t, m.Clear(ctx()))
		if name != "PutNew" {
			s.put(t, m, values{}, keys, vals)
		}
		if n, err := call(); n != 300 || err != nil {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	must(t, m.Clear(ctx()))
	ops := make([]weft.Op[uint64, uint64], 300)
	for i := range ops {
		ops[i] = weft.Op[uint64, uint64]{Kind: weft.OpPut, Key: keys[i], Value: vals[i]}
	}
	must(t, m.Apply(ctx(), ops, nil))
	if n, err := m.DeleteAll(ctx(), keys, nil); n != 300 || err != nil {
		t.Errorf("DeleteAll: %d, %v", n, err)
	}
}

// Readers that run alongside a writer must see a prefix of each key's values, in order.
func (s multiSuite) concurrent(t testing.TB, m erasedMultiMap) {
	n := min(s.scale.Rows(), 2000)
	keys := s.uniqueKeys(n, s.rng())
	version := func(i int) []uint64 { return slices.Repeat([]uint64{s.bits(uint64(i + 1))}, n) }
	if _, err := m.Put(ctx(), keys, version(0)); err != nil {
		t.Fatal(err)
	}
	rounds := 12
	if s.scale <= Slow {
		rounds = 3
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for last := false; !last; { // one more time after the writer has ended
				select {
				case <-stop:
					last = true
				default:
				}
				last = !s.checkAscendingValues(t, m, keys) || last
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

// checkAscendingValues requires the values of each key to be 1, 2, …, and Get to return 1.
func (s multiSuite) checkAscendingValues(t testing.TB, m erasedMultiMap, keys []uint64) bool {
	var rows weft.Rows[uint64]
	if err := m.GetAll(ctx(), keys, &rows); err != nil || !partition(rows, len(keys)) {
		t.Errorf("GetAll of %d keys: %d offsets, %d values, %v", len(keys), len(rows.Offsets), len(rows.Vals), err)
		return false
	}
	for i := range keys {
		part := rows.Row(i)
		for j, v := range part {
			if v != uint64(j)+1 {
				t.Errorf("a reader saw %#x as value %d of %d", v, j, len(part))
				return false
			}
		}
	}
	first, found := make([]uint64, len(keys)), make([]bool, len(keys))
	if _, err := m.Get(ctx(), keys, first, found); err != nil {
		t.Errorf("Get: %v", err)
		return false
	}
	for i := range keys {
		if !found[i] || first[i] != 1 {
			t.Errorf("a reader saw %#x %v as the first value", first[i], found[i])
			return false
		}
	}
	return true
}

func (s multiSuite) againstModel(t testing.TB, m erasedMultiMap) {
	want := values{}
	randomBatches(s.scale, s.rng(), func(data []byte) { replayMultiMap(t, m, want, data) })
	s.checkEqual(t, m, want)
}

// replayMultiMap runs a batch that data describes on a multimap and on a model, in the format of
// [replayMap]. The order of pairs within a batch depends on the device, and the model adopts it.
func replayMultiMap(t testing.TB, m erasedMultiMap, want values, data []byte) (rest []byte) {
	t.Helper()
	if len(data) < 2 {
		return nil
	}
	s := multiSuite{target[erasedMultiMap]{types: *m.types()}}
	kind, n := data[0]%6, min(int(data[1]), len(data)-2)
	rows, rest := data[2:2+n], data[2+n:]
	keys, vals := make([]uint64, n), make([]uint64, n)
	for i, b := range rows {
		keys[i] = s.collidingKey(b)
		vals[i] = s.bits(uint64(b)<<56 ^ uint64(i)*0x9e3779b97f4a7c15)
	}
	count, got := 0, 0
	var err error
	switch kind {
	case 0, 1:
		s.put(t, m, want, keys, vals)
	case 2:
		ok := make([]bool, n)
		got, err = m.PutNew(ctx(), keys, vals, ok)
		for i, k := range keys {
			if ok[i] && len(want[k]) == 0 {
				want[k] = []uint64{vals[i]}
				count++
			}
		}
	case 3:
		got, err = m.Delete(ctx(), keys, nil)
		for _, k := range keys {
			if want.removeFirst(k) {
				count++
			}
		}
	case 4:
		got, err = m.DeleteAll(ctx(), keys, nil)
		for _, k := range keys {
			count += len(want[k])
			delete(want, k)
		}
	}
	must(t, err)
	if got != count {
		t.Fatalf("operation %d on %d keys: %d, want %d", kind, n, got, count)
	}
	s.checkLookups(t, m, want, keys)
	s.checkLen(t, m, want.pairs())
	return rest
}
