package linear

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/hash"
)

// fixed is a fixed map or set in which new keys replace old keys.
type fixed struct {
	put, drop func(keys []uint64) error
	stats     func() Stats
}

func fixedMap(t testing.TB, dev device.Device, o Options) fixed {
	m, err := New[uint64, uint64](dev, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.CheckInvariants(), m.Close()); err != nil {
			t.Error(err)
		}
	})
	return fixed{
		func(keys []uint64) error { _, err := m.Put(t.Context(), keys, keys); return err },
		func(keys []uint64) error { _, err := m.Delete(t.Context(), keys, nil); return err },
		func() Stats { return statistics(t, &m.table) },
	}
}

func fixedSet(t testing.TB, dev device.Device, o Options) fixed {
	s, err := NewSet[uint64](dev, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.CheckInvariants(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return fixed{
		func(keys []uint64) error { _, err := s.Add(t.Context(), keys, nil); return err },
		func(keys []uint64) error { _, err := s.Delete(t.Context(), keys, nil); return err },
		func() Stats { return statistics(t, &s.table) },
	}
}

// fixedMapOn returns a map that is changed only by On methods, with occasional Syncs.
func fixedMapOn(t testing.TB, dev device.Device, o Options) fixed {
	m, err := New[uint64, uint64](dev, &o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	d, err := device.Make[uint64](dev, o.Capacity)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.CheckInvariants(), m.Close(), d.Free(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return fixed{
		func(keys []uint64) error {
			part := d.Sub(0, len(keys))
			return errors.Join(part.CopyFrom(s, keys), m.PutOn(s, part, part), s.Sync(t.Context()))
		},
		func(keys []uint64) error {
			part := d.Sub(0, len(keys))
			return errors.Join(part.CopyFrom(s, keys), m.DeleteOn(s, part, device.Slice[bool]{}), s.Sync(t.Context()))
		},
		func() Stats {
			if err := m.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			return statistics(t, &m.table)
		},
	}
}

func statistics(t testing.TB, table *table) Stats {
	t.Helper()
	s, err := table.Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// If keys of a fixed table are replaced, all at once or a few at a time, the number of used slots
// must stay about the same as with Capacity keys. So searches stay short, whatever the number of
// replacements.
func TestFixedTablesStayClean(t *testing.T) {
	dev := devicetest.Open(t)
	capacity, turnovers := 3000, 60
	if k := dev.Properties().Kind; conformance.Raced || k != device.CPU && k != device.CUDA {
		capacity, turnovers = 300, 4
	}
	for name, open := range map[string]func(testing.TB, device.Device, Options) fixed{"map": fixedMap, "set": fixedSet, "on": fixedMapOn} {
		for scheme, s := range map[string]Tombstones{"keep": Keep, "reuse": Reuse} {
			for _, parts := range []int{1, 2, 20} {
				t.Run(name+"/"+scheme, func(t *testing.T) {
					checkUpkeep(t, open(t, dev, Options{Capacity: capacity, Fixed: true, Tombstones: s, Seed: 8}), capacity, turnovers, parts)
				})
			}
		}
	}
}

func checkUpkeep(t *testing.T, f fixed, capacity, turnovers, parts int) {
	keys := make([]uint64, capacity)
	for i := range keys {
		keys[i] = uint64(i)
	}
	if err := f.put(keys); err != nil {
		t.Fatal(err)
	}
	// A batch may run between the time at which a rehash becomes due and the rehash.
	most := defaultMaxLoad + (1-defaultMaxLoad)*maxDeadShare + 0.002
	if parts > 1 {
		most += 0.8 / float64(parts)
	}
	fresh := f.stats()
	for turn := range turnovers * parts {
		part := keys[turn%parts*capacity/parts:][:capacity/parts]
		if err := f.drop(part); err != nil {
			t.Fatal(err)
		}
		for i := range part {
			part[i] += uint64(capacity)
		}
		if err := f.put(part); err != nil {
			t.Fatalf("turn %d: %v", turn, err)
		}
		if s := f.stats(); s.Load > min(most, 0.999) || s.Len != capacity {
			t.Fatalf("turn %d of 1/%d: %v; fresh it was %v", turn, parts, s, fresh)
		}
	}
	if s := f.stats(); s.MeanProbe > 3*fresh.MeanProbe {
		t.Errorf("after %d turnovers: %v; fresh it was %v", turnovers, s, fresh)
	}
}

// If a key finds no slot because keys with the same home block it, the table must not grow in vain.
// Other keys must be inserted as before.
func TestCrowdMakesNothingGrow(t *testing.T) {
	dev := devicetest.Open(t)
	if dev.Properties().Kind != device.CPU && dev.Properties().Kind != device.CUDA {
		t.Skip("a path of 32,768 slots")
	}
	if testing.Short() {
		t.Skip("searches the longest path on one core")
	}
	const seed, fits = 99, maxPath * lineBytes / 16
	keys := conformance.Colliding(fits+10, seed)
	m, err := New[uint64, uint64](dev, &Options{Seed: seed, Capacity: 2 * fits})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	im, err := m.table.image()
	if err != nil {
		t.Fatal(err)
	}
	slot := 0 // fill slots directly, because inserting that many crowded keys takes quadratic time
	for i := range im.path(false, keys[0]) {
		if im.put(i, keys[slot], keys[slot]); slot == fits-1 {
			break
		}
		slot++
	}
	im.setCounters(fits, fits)
	if err := m.table.restore(im); err != nil {
		t.Fatal(err)
	}
	before := statistics(t, &m.table).Bytes
	for i, k := range keys[fits:] {
		n, err := m.Put(t.Context(), []uint64{k}, []uint64{k})
		if n != 0 || !errors.Is(err, weft.ErrFull) {
			t.Fatalf("key %d beyond the path: %d, %v", i, n, err)
		}
		if now := statistics(t, &m.table).Bytes; now != before {
			t.Fatalf("key %d beyond the path: the table had %d bytes, now %d", i, before, now)
		}
	}
	others := make([]uint64, 2*fits)
	for i := range others {
		others[i] = conformance.Unhash(1<<62+uint64(i)<<47, seed)
	}
	if n, err := m.Put(t.Context(), others, others); n != len(others) || err != nil {
		t.Fatalf("others: %d of %d, %v", n, len(others), err)
	}
	if hits, err := m.Contains(t.Context(), keys, nil); hits != fits || err != nil {
		t.Fatalf("%d of the crowd are there: %v", hits, err)
	}
}

// Keys that are deleted in hash order leave a table in which the others crowd. No call may fail, or
// take more than a few times as long as in random order. The table must be small in the end.
func TestDrainByHash(t *testing.T) {
	dev := devicetest.Open(t)
	n := 200_000
	if dev.Properties().Kind != device.CPU && dev.Properties().Kind != device.CUDA {
		n = 2000
	}
	const seed = 5
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = uint64(i)
	}
	drain := func() time.Duration {
		m, err := New[uint64, uint64](dev, &Options{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if _, err := m.Put(t.Context(), keys, keys); err != nil {
			t.Fatal(err)
		}
		large := statistics(t, &m.table).Bytes
		begin := time.Now()
		for lo := 0; lo < n; lo += n / 100 {
			if got, err := m.Delete(t.Context(), keys[lo:lo+n/100], nil); got != n/100 || err != nil {
				t.Fatalf("keys %d and on: %d, %v", lo, got, err)
			}
		}
		elapsed := time.Since(begin)
		if s := statistics(t, &m.table); m.Len() != 0 || s.Bytes > large/16 {
			t.Errorf("drained: %v; it had %d bytes", s, large)
		}
		return elapsed
	}
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	random := drain()
	slices.SortFunc(keys, func(a, b uint64) int {
		if hash.Uint64(a, seed) < hash.Uint64(b, seed) {
			return -1
		}
		return 1
	})
	if ordered := drain(); ordered > 20*random+time.Second {
		t.Errorf("%v by the hash, %v in random order", ordered, random)
	}
}

// If keys do not fit at a new size, the rehash must end soon, and also when its context ends. The
// table must stay unchanged, and Compact must report no error.
func TestRehashThatDoesNotFit(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	const seed = 5
	n, apart := 200_000, 42
	if conformance.Raced {
		n, apart = 40_000, 44 // still more keys than a path has slots
	}
	keys := make([]uint64, n)
	for i := range keys { // all homes in the last sixteenth of the table
		keys[i] = conformance.Unhash(15<<60+uint64(i)<<apart, seed)
	}
	m, err := New[uint64, uint64](dev, &Options{Seed: seed, Capacity: 32 * n})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if got, err := m.Put(t.Context(), keys, keys); got != n || err != nil {
		t.Fatal(got, err)
	}
	m.policy.minLines = 1 // as if the table had grown
	before := devicetest.Live(dev)
	lines, _ := linesFor(uint64(n), defaultMaxLoad, 16)
	begin := time.Now()
	if err := m.policy.engine.rehash(t.Context(), lines, false); !errors.Is(err, weft.ErrFull) {
		t.Fatalf("%d keys of one sixteenth of the hash in %d lines: %v", n, lines, err)
	}
	limit := 2 * time.Second
	if testing.Short() { // under the race detector it takes thirty times as long
		limit *= 30
	}
	if elapsed := time.Since(begin); elapsed > limit {
		t.Errorf("giving up took %v", elapsed)
	}
	if err := m.policy.engine.rehash(cancelAfter(t, 2), 8*lines, true); !errors.Is(err, context.Canceled) {
		t.Errorf("a rehash whose context has ended: %v", err)
	}
	if now := devicetest.Live(dev); now != before {
		t.Errorf("%+v is left, was %+v", now, before)
	}
	if err := errors.Join(m.Compact(t.Context()), m.CheckInvariants()); err != nil {
		t.Error(err)
	}
	if hits, err := m.Contains(t.Context(), keys, nil); hits != n || err != nil {
		t.Errorf("%d keys are left: %v", hits, err)
	}
}

// In a table that may be full to the last slot, Compact may find no slots for all keys at the
// smallest size. Then it must use a larger size.
func TestCompactAtLoadOne(t *testing.T) {
	dev := devicetest.Open(t)
	if dev.Properties().Kind != device.CPU && dev.Properties().Kind != device.CUDA {
		t.Skip("a table of more lines than a path")
	}
	growing, full := 300_000, 100_000
	if conformance.Raced {
		growing, full = 50_000, 50_000
	}
	t.Run("growing", func(t *testing.T) { compactFull(t, dev, 0, growing) })
	t.Run("full", func(t *testing.T) { compactFull(t, dev, full, full) }) // no size fits
}

func compactFull(t *testing.T, dev device.Device, capacity, n int) {
	m, err := New[uint64, uint64](dev, &Options{MaxLoad: 1, Capacity: capacity, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = uint64(i)
	}
	for range 2 {
		if _, err := m.Put(t.Context(), keys, keys); err != nil {
			t.Fatal(err)
		}
		if err := m.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		if hits, err := m.Contains(t.Context(), keys, nil); hits != len(keys) || err != nil {
			t.Fatalf("%d of %d keys: %v", hits, len(keys), err)
		}
		if _, err := m.Delete(t.Context(), keys[:100], nil); err != nil {
			t.Fatal(err)
		}
		if err := m.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
