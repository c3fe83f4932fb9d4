package linear_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// The cores of a CPU divide a large batch. An operation that finds no slot in its share must be
// reported like any other.
func TestNoRoomInALargeBatch(t *testing.T) {
	dev := devicetest.Open(t)
	large := 1 << 14
	if testing.Short() {
		large = 1 << 11 // each dropped key searches the whole table
	}
	for _, capacity := range []int{8, 100, large} {
		m, err := linear.New[uint64, uint64](dev, &linear.Options{Capacity: capacity, MaxLoad: 1, Fixed: true, Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		keys := make([]uint64, 2*capacity+5000)
		for i := range keys {
			keys[i] = uint64(i)
		}
		n, err := m.Put(context.Background(), keys, keys)
		if !errors.Is(err, weft.ErrFull) || n < capacity || n != m.Len() {
			t.Errorf("capacity %d: Put of %d keys: %d, %v; Len %d", capacity, len(keys), n, err, m.Len())
		}
		if hits, err := m.Contains(context.Background(), keys, nil); hits != n || err != nil {
			t.Errorf("capacity %d: %d inserted, %d found, %v", capacity, n, hits, err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A growing table must take every key, even if paths are crowded beyond their end.
func TestCrowdedTableGrows(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	n := 1 << 19
	if conformance.Raced {
		n = 1 << 17 // still twice the keys that fit on a path
	}
	m, err := linear.New[uint32, uint32](dev, &linear.Options{Capacity: n, MaxLoad: 1, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	keys := make([]uint32, n)
	for i := range keys {
		keys[i] = uint32(i) * 2654435761
	}
	if got, err := m.Put(context.Background(), keys, keys); got != n || err != nil {
		t.Errorf("Put of %d keys: %d, %v", n, got, err)
	}
	if hits, err := m.Contains(context.Background(), keys, nil); hits != n || err != nil {
		t.Errorf("%d of %d keys found, %v", hits, n, err)
	}
}

// Capacity keys must fit without a rehash, regardless of rounding.
func TestCapacityIsEnough(t *testing.T) {
	dev := devicetest.Open(t)
	for _, capacity := range []int{1, 2, 252, 476, 504, 924, 952, 1000} {
		for _, load := range []float64{.3, .7, .8, .97} {
			m, err := linear.New[uint64, uint64](dev, &linear.Options{Capacity: capacity, MaxLoad: load})
			if err != nil {
				t.Fatal(err)
			}
			before := slots(t, m)
			keys := make([]uint64, capacity)
			for i := range keys {
				keys[i] = uint64(i)
			}
			if _, err := m.Put(context.Background(), keys, keys); err != nil {
				t.Fatal(err)
			}
			if after := slots(t, m); after != before {
				t.Errorf("capacity %d, load %v: %d slots became %d", capacity, load, before, after)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Clear must keep the memory for later batches.
func TestClearKeepsTheMemory(t *testing.T) {
	m, err := linear.New[uint64, uint64](devicetest.Open(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	keys := make([]uint64, 1<<15)
	for i := range keys {
		keys[i] = uint64(i)
	}
	for round := range 3 {
		if _, err := m.Put(context.Background(), keys, keys); err != nil {
			t.Fatal(err)
		}
		before := slots(t, m)
		if err := m.Clear(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Put(context.Background(), keys[:1], keys[:1]); err != nil {
			t.Fatal(err)
		}
		if after := slots(t, m); after != before {
			t.Errorf("round %d: %d slots became %d", round, before, after)
		}
	}
}

func slots(t *testing.T, m *linear.Map[uint64, uint64]) int {
	t.Helper()
	s, err := m.Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s.Slots
}
