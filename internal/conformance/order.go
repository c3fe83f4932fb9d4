package conformance

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
	"time"
)

// Keyed has the operations on keys that structures of all kinds share: insert, delete and iterate.
// [MapKeys], [SetKeys] and [MultiMapKeys] make a Keyed of a structure.
type Keyed interface {
	Add(keys []uint64) error
	Delete(keys []uint64) error
	Keys() iter.Seq[uint64]
	Len() int
	Close() error
}

// KeyedSize is the size of a structure for [IterationOrder]. All structures must have the same
// seed, so that their homes are in the same order.
type KeyedSize struct {
	Capacity int
	Fixed    bool
}

// IterationOrder requires inserting or deleting keys in iteration order to cost at most maxSlowdown
// times as much as in random order. The keys come from an iteration over a structure with the same
// seed. A table with homes in hash order easily fails: filling or emptying it region by region
// crowds one region.
func IterationOrder(t *testing.T, scale Scale, open func(t testing.TB, size KeyedSize) Keyed) {
	n := scale.Rows()
	for name, c := range map[string]struct {
		size KeyedSize
		keys int // number of keys to copy
	}{
		"growing":               {KeyedSize{}, n},
		"same capacity":         {KeyedSize{Capacity: n}, n},
		"half capacity":         {KeyedSize{Capacity: n / 2}, n},
		"same capacity, fixed":  {KeyedSize{n, true}, n},
		"half capacity, fixed":  {KeyedSize{n / 2, true}, n / 2},
		"twice capacity, fixed": {KeyedSize{2 * n, true}, n},
	} {
		t.Run("copy/"+name, func(t *testing.T) {
			o := order{t, scale, open}
			o.compare(KeyedSize{}, n, func(from Keyed, keys []uint64) time.Duration { return o.timeCopy(c.size, keys[:c.keys]) })
		})
	}
	for name, size := range map[string]KeyedSize{"growing": {}, "fixed": {n, true}} {
		t.Run("drain/"+name, func(t *testing.T) {
			o := order{t, scale, open}
			o.compare(size, n, o.timeDrain)
		})
		t.Run("refill/"+name, func(t *testing.T) {
			o := order{t, scale, open}
			o.compare(size, n, o.timeRefill)
		})
	}
}

type order struct {
	testing.TB
	scale Scale
	open  func(t testing.TB, size KeyedSize) Keyed
}

// maxSlowdown is the maximum slowdown of the iteration order over a random order, and noise is a
// time that is allowed in addition. A table that iterates in the order of its homes is hundreds of
// times slower, or fails.
const maxSlowdown, noise = 8, 50 * time.Millisecond

// compare measures run on a structure with n keys, with the keys in iteration order and in random
// order.
func (o order) compare(size KeyedSize, n int, run func(s Keyed, keys []uint64) time.Duration) {
	o.Helper()
	rng := rand.New(rand.NewPCG(11, 12))
	all := wide.uniqueKeys(n, rng)
	fastest := func(shuffle bool) time.Duration {
		best := time.Hour
		for range 2 {
			s := o.open(o, size)
			o.timeBatches(all, s.Add)
			keys := o.keys(s, n)
			if shuffle {
				rng.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			}
			best = min(best, run(s, keys))
			must(o, s.Close())
			if o.scale <= Slow { // on an interpreter, only check that it works
				break
			}
		}
		return best
	}
	random, ordered := fastest(true), fastest(false)
	if o.scale > Slow && ordered > maxSlowdown*random+noise {
		o.Errorf("%d keys take %v in the order of an iteration, %v in random order", n, ordered, random)
	}
}

func (o order) keys(s Keyed, n int) []uint64 {
	o.Helper()
	keys := make([]uint64, 0, n)
	for k := range s.Keys() {
		keys = append(keys, k)
	}
	if len(keys) != n || s.Len() != n {
		o.Fatalf("an iteration over %d keys yields %d", s.Len(), len(keys))
	}
	return keys
}

// timeBatches calls a function with a sixty-fourth of the keys at a time, and returns the total
// time.
func (o order) timeBatches(keys []uint64, to func(keys []uint64) error) time.Duration {
	o.Helper()
	begin := time.Now()
	step := len(keys)/64 + 1
	for lo := 0; lo < len(keys); lo += step {
		if err := to(keys[lo:min(lo+step, len(keys))]); err != nil {
			o.Fatalf("keys %d to %d of %d: %v", lo, lo+step, len(keys), err)
		}
	}
	return time.Since(begin)
}

// timeCopy measures the insertion of keys into a new structure.
func (o order) timeCopy(size KeyedSize, keys []uint64) time.Duration {
	to := o.open(o, size)
	elapsed := o.timeBatches(keys, to.Add)
	o.keys(to, len(keys))
	must(o, to.Close())
	return elapsed
}

func (o order) timeDrain(s Keyed, keys []uint64) time.Duration {
	elapsed := o.timeBatches(keys, s.Delete)
	o.keys(s, 0)
	return elapsed
}

// timeRefill measures the deletion and insertion of half of the keys, and then of the other half.
func (o order) timeRefill(s Keyed, keys []uint64) (elapsed time.Duration) {
	for _, half := range [][]uint64{keys[:len(keys)/2], keys[len(keys)/2:]} {
		elapsed += o.timeBatches(half, s.Delete)
		elapsed += o.timeBatches(half, s.Add)
	}
	o.keys(s, len(keys))
	return elapsed
}

// ---- the kinds ----------------------------------------------------------------

type mapKeys struct{ AnyMap[uint64, uint64] }

// MapKeys returns a Keyed for a map.
func MapKeys(m AnyMap[uint64, uint64]) Keyed { return mapKeys{m} }

func (m mapKeys) Keys() iter.Seq[uint64] { return firsts(m.All()) }
func (m mapKeys) Add(keys []uint64) error {
	n, err := m.Put(ctx(), keys, keys)
	return checkAll("Put", n, len(keys), err)
}
func (m mapKeys) Delete(keys []uint64) error {
	n, err := m.AnyMap.Delete(ctx(), keys, nil)
	return checkAll("Delete", n, len(keys), err)
}

type multiMapKeys struct {
	AnyMultiMap[uint64, uint64]
}

// MultiMapKeys returns a Keyed for a multimap with one pair per key.
func MultiMapKeys(m AnyMultiMap[uint64, uint64]) Keyed { return multiMapKeys{m} }

func (m multiMapKeys) Keys() iter.Seq[uint64] { return firsts(m.All()) }
func (m multiMapKeys) Add(keys []uint64) error {
	n, err := m.Put(ctx(), keys, keys)
	return checkAll("Put", n, len(keys), err)
}
func (m multiMapKeys) Delete(keys []uint64) error {
	n, err := m.DeleteAll(ctx(), keys, nil)
	return checkAll("DeleteAll", n, len(keys), err)
}

type setKeys struct{ AnySet[uint64] }

// SetKeys returns a Keyed for a set.
func SetKeys(s AnySet[uint64]) Keyed { return setKeys{s} }

func (s setKeys) Keys() iter.Seq[uint64] { return s.All() }
func (s setKeys) Add(keys []uint64) error {
	n, err := s.AnySet.Add(ctx(), keys, nil)
	return checkAll("Add", n, len(keys), err)
}
func (s setKeys) Delete(keys []uint64) error {
	n, err := s.AnySet.Delete(ctx(), keys, nil)
	return checkAll("Delete", n, len(keys), err)
}

func firsts(pairs iter.Seq2[uint64, uint64]) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for k := range pairs {
			if !yield(k) {
				return
			}
		}
	}
}

func checkAll(desc string, n, want int, err error) error {
	if err == nil && n != want {
		err = fmt.Errorf("%s: %d of %d", desc, n, want)
	}
	return err
}
