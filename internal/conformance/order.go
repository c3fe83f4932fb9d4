package conformance

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
	"time"
)

// Keyed has the operations that structures of all kinds share on keys: insert, delete and iterate.
// [MapKeys], [SetKeys] and [MultiMapKeys] return one.
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

// IterationOrder checks that inserting or deleting keys in the iteration order of a structure with
// the same seed costs no more than in any other order. Homes in the order of the hash make this a
// trap: a table that is filled or emptied region by region is crowded in one region.
func IterationOrder(t *testing.T, scale Scale, open func(t testing.TB, size KeyedSize) Keyed) {
	n := scale.Rows()
	for name, c := range map[string]struct {
		size KeyedSize
		keys int // number of copied keys
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

// order tests the cost of an order.
type order struct {
	testing.TB
	scale Scale
	open  func(t testing.TB, size KeyedSize) Keyed
}

// maxSlowdown bounds the slowdown of the iteration order over a random order; noise is added to the
// bound. Tables with homes in the order of the hash are hundreds of times slower, or fail.
const maxSlowdown, noise = 8, 50 * time.Millisecond

// compare times run on a structure of n keys, with the keys in iteration order and in random order.
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

// keys returns the keys of a structure in iteration order.
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

// timeBatches passes keys on, a sixty-fourth at a time, and returns the time taken.
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

// timeCopy inserts keys into a new structure.
func (o order) timeCopy(size KeyedSize, keys []uint64) time.Duration {
	to := o.open(o, size)
	elapsed := o.timeBatches(keys, to.Add)
	o.keys(to, len(keys))
	must(o, to.Close())
	return elapsed
}

// timeDrain deletes all keys.
func (o order) timeDrain(s Keyed, keys []uint64) time.Duration {
	elapsed := o.timeBatches(keys, s.Delete)
	o.keys(s, 0)
	return elapsed
}

// timeRefill deletes half of the keys and inserts them again, then does the same with the other
// half.
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

// MapKeys returns a map as [Keyed].
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

// MultiMapKeys returns a multimap with one pair per key as [Keyed].
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

// SetKeys returns a set as [Keyed].
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
