package linear

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// workload inserts, updates and deletes keys that crowd or look like sentinels.
func workload[K, V ~uint32 | ~uint64](t testing.TB, m *Map[K, V]) {
	t.Helper()
	rng := rand.New(rand.NewPCG(6, 6))
	for range 4 {
		keys, vals := make([]K, 5000), make([]V, 5000)
		for i := range keys {
			keys[i], vals[i] = K(rng.IntN(8000))-10, V(rng.Uint64())
		}
		if _, err := m.Put(t.Context(), keys, vals); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Delete(t.Context(), keys[:2500], nil); err != nil {
			t.Fatal(err)
		}
	}
}

// A table written on one device must work on another after its memory is copied unchanged.
func TestTablesMoveBetweenDevices(t *testing.T) {
	dev, other := devicetest.Open(t), devicetest.OpenCPU(t, 1)
	for name, scheme := range map[string]Tombstones{"keep": Keep, "reuse": Reuse} {
		t.Run(name, func(t *testing.T) {
			t.Run("uint32,uint32", func(t *testing.T) { tableMoves[uint32, uint32](t, dev, other, scheme) })
			t.Run("uint32,uint64", func(t *testing.T) { tableMoves[uint32, uint64](t, dev, other, scheme) })
			t.Run("uint64,uint32", func(t *testing.T) { tableMoves[uint64, uint32](t, dev, other, scheme) })
			t.Run("uint64,uint64", func(t *testing.T) { tableMoves[uint64, uint64](t, dev, other, scheme) })
		})
	}
}

func tableMoves[K, V ~uint32 | ~uint64](t *testing.T, dev, other device.Device, scheme Tombstones) {
	opts := &Options{Capacity: 10_000, Fixed: true, Seed: 77, Tombstones: scheme}
	open := func(dev device.Device) *Map[K, V] {
		m, err := New[K, V](dev, opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
		return m
	}
	// Copy to the other device and back.
	first := open(dev)
	workload(t, first)
	for _, to := range []device.Device{other, dev} {
		second := open(to)
		im, err := first.table.image()
		if err != nil {
			t.Fatal(err)
		}
		if err := second.table.restore(im); err != nil {
			t.Fatal(err)
		}
		samePairs(t, first, second)
		// From here on both must behave alike, because dead slots hold the same keys.
		workload(t, first)
		workload(t, second)
		samePairs(t, first, second)
		if err := second.CheckInvariants(); err != nil {
			t.Error(err)
		}
		first = second
	}
}

// samePairs requires two maps to have the same pairs.
func samePairs[K, V ~uint32 | ~uint64](t testing.TB, a, b *Map[K, V]) {
	t.Helper()
	if a.Len() != b.Len() {
		t.Fatalf("one has %d pairs, the other %d", a.Len(), b.Len())
	}
	var keys []K
	var vals []V
	for k, v := range a.All() {
		keys, vals = append(keys, k), append(vals, v)
	}
	got := slices.Clone(vals)
	clear(got)
	hits, err := b.Get(t.Context(), keys, got, nil)
	if err != nil || hits != len(keys) || hits != a.Len() || !slices.Equal(got, vals) {
		t.Fatalf("of %d pairs of one, the other has %d keys: %v", len(keys), hits, err)
	}
}

// On CPUs, the same seed and history must make tables that are equal byte for byte.
func TestOneHistoryOneTable(t *testing.T) {
	for name, test := range map[string]struct {
		workers []int
		batch   int
	}{
		"small batches, whatever the number of cores": {[]int{1, 2, 7}, 200},
		"large batches, on as many cores":             {[]int{3, 3}, 5000},
	} {
		t.Run(name, func(t *testing.T) {
			var first []byte
			for _, workers := range test.workers {
				mem := history(t, devicetest.OpenCPU(t, workers), test.batch)
				if first == nil {
					first = mem
				}
				if !bytes.Equal(mem, first) {
					t.Error("tables of one history differ")
				}
			}
		})
	}
}

func history(t *testing.T, dev device.Device, batch int) []byte {
	m, err := New[uint64, uint32](dev, &Options{Capacity: 10_000, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	for range 40 {
		keys := make([]uint64, batch)
		for j := range keys {
			keys[j] = uint64(rng.IntN(8000))
		}
		if _, err := m.Put(t.Context(), keys, make([]uint32, batch)); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Delete(t.Context(), keys[:batch/4], nil); err != nil {
			t.Fatal(err)
		}
	}
	mem, err := m.Memory()
	if err != nil {
		t.Fatal(err)
	}
	return mem
}

// After any history, a table must satisfy the rules of its layout and hold the same pairs as a Go
// map.
func TestInvariantsAfterAnything(t *testing.T) {
	dev := devicetest.Open(t)
	rapid.Check(t, func(rt *rapid.T) {
		opts := &Options{
			Tombstones: Tombstones(rapid.IntRange(0, 1).Draw(rt, "tombstones")),
			Capacity:   rapid.IntRange(0, 200).Draw(rt, "capacity"),
			MaxLoad:    rapid.SampledFrom([]float64{.3, .8, 1}).Draw(rt, "load"),
			Seed:       rapid.Uint64Range(1, 1<<63).Draw(rt, "seed"),
		}
		conformance.HistoryOf(rt, New[uint32, uint64], dev, opts)
	})
}
