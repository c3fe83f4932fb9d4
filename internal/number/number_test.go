package number

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// mix spreads small numbers over all keys, and keeps some adjacent.
func mix(k int) uint64 { return uint64(k>>2)*0x9e3779b97f4a7c15 + uint64(k&3) }

// model is a Go map from keys to their numbers.
type model map[uint64]uint32

func (m model) add(keys []uint64) (numbers, first []uint32) {
	for i, key := range keys {
		n, ok := m[key]
		if !ok {
			n = uint32(len(m))
			m[key] = n
			first = append(first, uint32(i))
		}
		numbers = append(numbers, n)
	}
	return numbers, first
}

// Small and large batches have the same numbers as in a Go map, while a table is cut into parts.
func TestNumbers(t *testing.T) {
	dev := devicetest.Open(t)
	for _, capacity := range []int{0, 100, fewKeys + 1} {
		x, err := New(dev, capacity, false)
		if err != nil {
			t.Fatal(err)
		}
		m, rng := make(model), rand.New(rand.NewPCG(1, 2))
		for _, step := range []struct{ n, domain int }{{0, 1}, {1, 1}, {directRows, 1 << 20}, {directRows + 1, 1 << 20}, {dealtRows + 5, 1 << 20}, {100, 1 << 20}, {70_000, 1 << 17}, {30_000, 10}, {20_000, 1 << 12}, {60_000, 1<<12 + 300}} {
			check(t, x, m, rng, step.n, step.domain)
		}
		if h, ok := x.(*inHost); ok && len(h.parts) == manyParts {
			h.cut(mostParts)
			check(t, x, m, rng, 50_000, 1<<17)
			check(t, x, m, rng, 50, 1<<20)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// check assigns and finds a batch.
func check(t *testing.T, x Index, m model, rng *rand.Rand, n, domain int) {
	t.Helper()
	keys, numbers, found := make([]uint64, n), make([]uint32, n), make([]bool, n)
	for i := range keys {
		keys[i] = mix(rng.IntN(domain))
	}
	if err := x.Find(t.Context(), keys, numbers, found); err != nil {
		t.Fatal(err)
	}
	for i, key := range keys {
		if want, ok := m[key]; found[i] != ok || numbers[i] != want {
			t.Fatalf("row %d of %d: %d, %v, want %d, %v", i, n, numbers[i], found[i], want, ok)
		}
	}
	first, done, err := x.Assign(t.Context(), keys, numbers)
	want, wantFirst := m.add(keys)
	if err != nil || done != n || !slices.Equal(numbers, want) || !slices.Equal(first, wantFirst) || x.Len() != len(m) {
		t.Fatalf("%d rows of %d, %v; %d keys, %d new, want %d and %d", done, n, err, x.Len(), len(first), len(m), len(wantFirst))
	}
}

// The map of a GPU assigns the same numbers.
func TestSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev, err := sim.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	x, err := New(dev, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	m, rng := make(model), rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 300, 300} {
		check(t, x, m, rng, n, 400)
	}
}

func TestExtras(t *testing.T) {
	e := Extras{0, 3, 4, 9}
	for number, want := range []uint32{1, 2, 5, 6, 7, 8, 10} {
		if got := e.ID(uint32(number)); got != want {
			t.Errorf("number %d has id %d, want %d", number, got, want)
		}
	}
}

// A host's index takes the estimated memory if Reserve grows its parts one at a time. It then does
// not grow further, and has the same numbers as an index that grows freely.
func TestEstimate(t *testing.T) {
	host, ok := devicetest.Open(t).(device.Host)
	if !ok {
		t.Skip("the index of a host")
	}
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		x, free := newInHost(host.Parallel, 0, true), newInHost(host.Parallel, 0, false)
		for range 4 {
			keys := make([]uint64, rapid.IntRange(1, 10_000).Draw(t, "keys"))
			for i := range keys {
				keys[i] = mix(rng.IntN(20_000))
			}
			numbers, others, found := make([]uint32, len(keys)), make([]uint32, len(keys)), make([]bool, len(keys))
			e, err := x.Estimate(t.Context())
			if err := errors.Join(err, x.Find(t.Context(), keys, numbers, found)); err != nil {
				t.Fatal(err)
			}
			need, most := int64(0), int64(0)
			for i := range x.parts {
				most = max(most, bytesOf(len(x.parts[i].slots)))
			}
			for i, key := range keys {
				if !found[i] {
					need = e.With(key)
				}
			}
			if err := x.Reserve(t.Context(), keys, found, len(keys)); err != nil {
				t.Fatal(err)
			}
			reserved, _ := x.Size(t.Context())
			if need > 0 && (need < reserved || need > reserved+most) {
				t.Fatalf("%d bytes, said to need %d, and the largest part had %d", reserved, need, most)
			}
			first, _, _ := x.Assign(t.Context(), keys, numbers)
			if size, _ := x.Size(t.Context()); size != reserved {
				t.Fatalf("%d bytes were reserved, and now it has %d", reserved, size)
			}
			if want, _, _ := free.Assign(t.Context(), keys, others); !slices.Equal(first, want) || !slices.Equal(numbers, others) || x.Len() != free.Len() {
				t.Fatal("other numbers")
			}
		}
	})
}
