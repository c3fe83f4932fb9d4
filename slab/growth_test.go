package slab_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

func rows(dev device.Device) int { return min(conformance.ScaleOf(dev).Rows(), 20_000) }

// TestUtilizationIsKept checks that Capacity keys reach the requested utilization without a rehash.
// A structure that has grown must reach it within the error of growing by doubling.
func TestUtilizationIsKept(t *testing.T) {
	dev := devicetest.Open(t)
	n := rows(dev)
	keys := conformance.Sequence[uint32](0, n)
	for _, want := range []float64{.2, .4, .55, .65, .8} {
		opts := &slab.Options{Capacity: n, MaxLoad: want}
		m := conformance.Open(t, slab.New[uint32, uint32], dev, opts)
		before := conformance.StatsOf(t, m)
		if _, err := m.Put(t.Context(), keys, keys); err != nil {
			t.Fatal(err)
		}
		after := conformance.StatsOf(t, m)
		if math.Abs(after.Utilization-want)*math.Sqrt(float64(n)) > 5 || after.Buckets != before.Buckets {
			t.Errorf("utilization %v was wanted: %v, before %v", want, after, before)
		}
		grown := conformance.Open(t, slab.New[uint32, uint32], dev, &slab.Options{MaxLoad: want})
		for lo := 0; lo < n; lo += n / 50 {
			if _, err := grown.Put(t.Context(), keys[lo:min(lo+n/50, n)], keys[lo:min(lo+n/50, n)]); err != nil {
				t.Fatal(err)
			}
		}
		if s := conformance.StatsOf(t, grown); s.Utilization < .4*want || s.Utilization > 1.2*want {
			t.Errorf("utilization %v was wanted after growth: %v", want, s)
		}
	}
}

// crowd returns n keys that belong in the first buckets of the map.
func crowd(m *slab.Map[uint64, uint64], buckets, n int) []uint64 {
	var keys []uint64
	for k := uint64(0); len(keys) < n; k++ {
		if m.Bucket(k) < buckets {
			keys = append(keys, k)
		}
	}
	return keys
}

// TestCrowdedBuckets checks that no key is lost with any distribution of the keys. Operations that
// find no slab are retried after the pool has grown. This includes batches on the device that write
// results over their values.
func TestCrowdedBuckets(t *testing.T) {
	dev := devicetest.Open(t)
	const n = 8000 // these need at least 1024 slabs, and 100 are expected
	for name, put := range map[string]func(m *slab.Map[uint64, uint64], keys []uint64) error{
		"Put": func(m *slab.Map[uint64, uint64], keys []uint64) error {
			_, err := m.Put(t.Context(), keys, keys)
			return err
		},
		"PutNew twice": func(m *slab.Map[uint64, uint64], keys []uint64) error {
			both, ok := append(keys, keys...), make([]bool, 2*n)
			inserted, err := m.PutNew(t.Context(), both, both, ok)
			for i := range ok {
				if ok[i] != (i < n) {
					t.Fatalf("ok[%d] is %v", i, ok[i])
				}
			}
			if inserted != n {
				t.Errorf("%d keys inserted", inserted)
			}
			return err
		},
		"Apply": func(m *slab.Map[uint64, uint64], keys []uint64) error {
			ops, res := make([]weft.Op[uint64, uint64], n), make([]weft.Result[uint64], n)
			for i, k := range keys {
				ops[i] = weft.Op[uint64, uint64]{Kind: weft.OpPut, Key: k, Value: k}
			}
			err := m.Apply(t.Context(), ops, res)
			for i, r := range res {
				if r != (weft.Result[uint64]{OK: true}) {
					t.Fatalf("result %d is %v", i, r)
				}
			}
			return err
		},
		"PutOn": func(m *slab.Map[uint64, uint64], keys []uint64) error {
			s := devicetest.NewStream(t, dev)
			d := devicetest.Upload(t, s, keys)
			return errors.Join(m.PutOn(s, d, d), m.Sync(t.Context()))
		},
		"ApplyOn": func(m *slab.Map[uint64, uint64], keys []uint64) error {
			s := devicetest.NewStream(t, dev)
			kinds := make([]weft.OpKind, n)
			for i := range kinds {
				kinds[i] = weft.OpPut + weft.OpKind(i%2) // or PutNew
			}
			ok := devicetest.Upload(t, s, make([]bool, n))
			d := devicetest.Upload(t, s, keys)
			v := devicetest.Upload(t, s, keys)
			err := errors.Join(m.ApplyOn(s, devicetest.Upload(t, s, kinds), d, v, ok), m.Sync(t.Context()))
			for i, in := range devicetest.Download(t, s, ok) {
				if !in {
					t.Fatalf("ok[%d] is false", i)
				}
			}
			if out := devicetest.Download(t, s, v); slices.Max(out) != 0 {
				t.Fatalf("values %d", out)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := conformance.Open(t, slab.New[uint64, uint64], dev, &slab.Options{Buckets: 4000})
			keys := crowd(m, 40, n)
			if err := put(m, keys); err != nil {
				t.Fatal(err)
			}
			conformance.WantPairs(t, m, keys)
			if s := conformance.StatsOf(t, m); s.MaxChain < 28 || s.Slabs < 4000+1100 {
				t.Errorf("%v", s)
			}
		})
	}
}

// TestFixedMap checks that a fixed map stores Capacity keys in any distribution. Keys beyond
// Capacity may return ErrFull. Dead slots are reclaimed when no other slot is free.
func TestFixedMap(t *testing.T) {
	dev := devicetest.Open(t)
	capacity, more := 1000, 40_000
	if conformance.Raced {
		more = 20_000 // more than the memory holds
	}
	for name, keysFor := range map[string]func(*slab.Map[uint64, uint64]) []uint64{
		"spread":  func(m *slab.Map[uint64, uint64]) []uint64 { return conformance.Sequence[uint64](1, capacity+more) },
		"crowded": func(m *slab.Map[uint64, uint64]) []uint64 { return crowd(m, 2, capacity+more) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "crowded" && (conformance.Raced || conformance.ScaleOf(dev) == conformance.Slow) {
				t.Skip("chains of five hundred slabs, which are one core's")
			}
			m := conformance.Open(t, slab.New[uint64, uint64], dev, &slab.Options{Capacity: capacity, Fixed: true, MaxTombstones: -1})
			before := conformance.StatsOf(t, m)
			keys := keysFor(m)
			n, err := m.Put(t.Context(), keys[:capacity], keys[:capacity])
			conformance.WantCount(t, "Put of Capacity keys", n, capacity, err)
			ok := make([]bool, more)
			n, err = m.PutNew(t.Context(), keys[capacity:], keys[capacity:], ok)
			if n >= more || !errors.Is(err, weft.ErrFull) {
				t.Fatalf("PutNew of %d more keys: %d, %v", more, n, err)
			}
			there := keys[:capacity:capacity]
			for i, in := range ok {
				if in {
					there = append(there, keys[capacity+i])
				}
			}
			conformance.WantPairs(t, m, there)
			if s := conformance.StatsOf(t, m); s.Bytes != before.Bytes || s.Buckets != before.Buckets || s.FreeUnits != 0 {
				t.Errorf("the map was %v and is %v", before, s)
			}
			testFull(t, m, there)
		})
	}
}

// testFull checks a table without a free slab: updates work, absent keys are not found, and deleted
// keys free their slots.
func testFull(t *testing.T, m *slab.Map[uint64, uint64], present []uint64) {
	n, err := m.Put(t.Context(), present, present)
	conformance.WantCount(t, "updates", n, 0, err)
	absent := conformance.Sequence[uint64](1<<40, 100)
	n, err = m.Contains(t.Context(), absent, nil)
	conformance.WantCount(t, "Contains of absent keys", n, 0, err)
	n, err = m.Delete(t.Context(), present, nil)
	conformance.WantCount(t, "Delete", n, len(present), err)
	// A mixed batch reuses only the dead slots of its own keys.
	ops := make([]weft.Op[uint64, uint64], len(present))
	for i, k := range present {
		ops[len(present)-1-i] = weft.Op[uint64, uint64]{Kind: weft.OpPut, Key: k + 1<<41, Value: k + 1<<41}
	}
	if err := m.Apply(t.Context(), ops[:500], nil); err != nil {
		t.Fatalf("Apply in a table of dead slots: %v", err)
	}
	if m.Len() != 500 {
		t.Errorf("Len is %d", m.Len())
	}
	if err := m.Clear(t.Context()); err != nil || m.Len() != 0 {
		t.Fatalf("Clear: %v", err)
	}
	n, err = m.Put(t.Context(), present[:1000], present[:1000])
	conformance.WantCount(t, "Put after Clear", n, 1000, err)
	conformance.WantPairs(t, m, present[:1000])
}

// TestSyncReportsFull checks that Sync reports the overflow of batches on the device once.
func TestSyncReportsFull(t *testing.T) {
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); !ok {
		t.Skip("a chain of a thousand slabs")
	}
	m := conformance.Open(t, slab.New[uint64, uint64], dev, &slab.Options{Capacity: 64, Buckets: 1, Fixed: true})
	conformance.ReportsFull(t, dev, m, 9000) // a pool has at least one memory block
	if m.Len() < 64 {
		t.Errorf("%d keys", m.Len())
	}
}

// TestUpdatesNeedNoRoom checks that updates never grow a map.
func TestUpdatesNeedNoRoom(t *testing.T) {
	dev := devicetest.Open(t)
	n := rows(dev)
	keys := conformance.Sequence[uint64](0, n)
	m := conformance.Open(t, slab.New[uint64, uint64], dev, nil)
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		t.Fatal(err)
	}
	before := conformance.StatsOf(t, m)
	s := devicetest.NewStream(t, dev)
	d := devicetest.Upload(t, s, keys)
	for range 5 {
		n, err := m.Put(t.Context(), keys, keys)
		conformance.WantCount(t, "Put", n, 0, err)
		if err := m.PutOn(s, d, d); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := conformance.StatsOf(t, m); after.Buckets != before.Buckets || after.Slabs != before.Slabs {
		t.Errorf("before %v, after %v", before, after)
	}
	conformance.WantPairs(t, m, keys)
}

// TestShrinks checks that an almost empty map shrinks, and that a map with a few changing keys does
// not.
func TestShrinks(t *testing.T) {
	dev := devicetest.Open(t)
	n := rows(dev)
	keys := conformance.Sequence[uint64](0, n)
	m := conformance.Open(t, slab.New[uint64, uint64], dev, nil)
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		t.Fatal(err)
	}
	before := conformance.StatsOf(t, m)
	if _, err := m.Delete(t.Context(), keys[n/20:], nil); err != nil {
		t.Fatal(err)
	}
	after := conformance.StatsOf(t, m)
	if after.Buckets > before.Buckets/4 || after.Bytes > before.Bytes {
		t.Errorf("before %v, after %v", before, after)
	}
	conformance.WantPairs(t, m, keys[:n/20])
	for range 5 {
		if _, err := m.Put(t.Context(), keys[n/20:n/18], keys[n/20:n/18]); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Delete(t.Context(), keys[n/20:n/18], nil); err != nil {
			t.Fatal(err)
		}
	}
	if s := conformance.StatsOf(t, m); s.Buckets != after.Buckets {
		t.Errorf("before %v, after keys came and went %v", after, s)
	}
}

// TestTombstonesGo checks that a structure flushes itself when the share MaxTombstones of its slots
// is dead, and not before. Compact always flushes.
func TestTombstonesGo(t *testing.T) {
	dev := devicetest.Open(t)
	n := rows(dev)
	keys := conformance.Sequence[uint64](0, n)
	for _, most := range []float64{0, .1, .9, -1} {
		m := conformance.Open(t, slab.New[uint64, uint64], dev, &slab.Options{Buckets: n / 10, MaxTombstones: most})
		if _, err := m.Put(t.Context(), keys, keys); err != nil {
			t.Fatal(err)
		}
		full := conformance.StatsOf(t, m)
		for gone := 0; gone < n/2; gone += n / 20 {
			k, err := m.Delete(t.Context(), keys[gone:gone+n/20], nil)
			conformance.WantCount(t, "Delete", k, n/20, err)
			s := conformance.StatsOf(t, m)
			limit := map[float64]float64{0: .25, .1: .1, .9: 1, -1: 1}[most]
			if share := float64(s.Tombstones) / float64(s.Len+s.Tombstones); share > limit+.02 {
				t.Errorf("MaxTombstones %v: %v", most, s)
			}
			if most < 0 && s.Tombstones != gone+n/20 {
				t.Errorf("flushed, and was not to: %v", s)
			}
		}
		if err := m.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := conformance.StatsOf(t, m); s.Tombstones != 0 || s.Slabs >= full.Slabs || s.Bytes > full.Bytes {
			t.Errorf("Compact made %v of %v", s, full)
		}
		conformance.WantPairs(t, m, keys[n/2:])
	}
}

// TestCompact checks that Compact restores the size that the options determine.
func TestCompact(t *testing.T) {
	dev := devicetest.Open(t)
	for name, test := range map[string]struct {
		opts    slab.Options
		shrinks bool
	}{
		"growing":       {slab.Options{}, true},
		"with capacity": {slab.Options{Capacity: 4000}, false},
		"buckets":       {slab.Options{Buckets: 100}, false},
		"fixed":         {slab.Options{Capacity: 4000, Fixed: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			test.opts.MaxTombstones = -1
			m := conformance.Open(t, slab.New[uint64, uint64], dev, &test.opts)
			slabs := 0
			conformance.CompactDropsDead(t, m, test.shrinks, func() (live, dead, size int) {
				s := conformance.StatsOf(t, m)
				if slabs > 0 && s.Slabs > slabs {
					t.Errorf("there were %d slabs: %v", slabs, s)
				}
				slabs = s.Slabs
				return s.Len, s.Tombstones, s.Buckets
			})
		})
	}
}

// TestPoolOfMaximalSize checks that a pool with the maximum of super blocks is replaced.
func TestPoolOfMaximalSize(t *testing.T) {
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); !ok {
		t.Skip("a few million pairs")
	}
	if testing.Short() {
		t.Skip("fills memory on one core")
	}
	// A list begins with super blocks of one memory block: 255 * 1024 slabs of 30 slots.
	s := conformance.Open(t, slab.NewSet[uint32], dev, &slab.Options{Buckets: 1 << 17})
	const n = 1 << 22
	for lo := 0; lo < 2*n; lo += n {
		got, err := s.Add(t.Context(), conformance.Sequence[uint32](lo, n), nil)
		conformance.WantCount(t, "Add", got, n, err)
	}
}

// TestAnswersWhenFull checks that keys that overflow get no result and no id.
func TestAnswersWhenFull(t *testing.T) {
	conformance.SkipRaced(t, "one bucket is one core's")
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); !ok {
		t.Skip("a chain of a thousand slabs")
	}
	m := conformance.Open(t, slab.New[uint64, uint64], dev, &slab.Options{Capacity: 64, Buckets: 1, Fixed: true})
	conformance.ResultsWhenFull(t, dev, m, 9000)
}
