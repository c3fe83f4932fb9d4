package linear_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// If any device operation fails during New, nothing may leak.
func TestNewFailsCleanly(t *testing.T) {
	conformance.NewFails(t, linear.New[uint64, uint32], devicetest.Open(t), nil)
}

// If any device operation fails once, no stored pair may be lost.
func TestEveryOperationFailsOnce(t *testing.T) {
	dev := devicetest.Open(t)
	for name, scheme := range schemes {
		t.Run(name, func(t *testing.T) {
			conformance.OperationsFail(t, dev, 3000, conformance.MapOf(linear.New[uint64, uint64], &linear.Options{Tombstones: scheme}))
		})
	}
}

// A map that cannot grow must use its remaining capacity, and grow when memory is available.
func TestNoMemoryToGrow(t *testing.T) {
	dev := devicetest.Open(t)
	m := conformance.Open(t, linear.New[uint64, uint64], dev, &linear.Options{Capacity: 100})
	conformance.NoMemoryToGrow(t, dev, m, func(n int) {
		if s := conformance.StatsOf(t, m); float64(n) < .79*float64(s.Slots)-10 {
			t.Fatalf("%d keys went into %v", n, s)
		}
	})
}

// If a fixed map has no memory to drop its dead slots, it must report ErrFull and stay unchanged.
func TestNoMemoryToDropTombstones(t *testing.T) {
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); !ok {
		t.Skip("other allocations come between those of tables")
	}
	m := conformance.Open(t, linear.New[uint64, uint64], dev, &linear.Options{Capacity: 64, MaxLoad: 1, Fixed: true})
	keys := conformance.Sequence[uint64](1, 96)
	if n, err := m.Put(t.Context(), keys[:64], keys[:64]); n != 64 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := m.Delete(t.Context(), keys[:32], nil); n != 32 || err != nil {
		t.Fatal(n, err)
	}
	devicetest.FailNext(dev, devicetest.OpAlloc)
	if n, err := m.Put(t.Context(), keys[64:], keys[64:]); n != 0 || !errors.Is(err, weft.ErrFull) {
		t.Fatalf("Put that finds dead slots only: %d, %v", n, err)
	}
	conformance.WantPairs(t, m, keys[32:64])
	if n, err := m.Put(t.Context(), keys[64:], keys[64:]); n != 32 || err != nil {
		t.Fatalf("with memory again: %d, %v", n, err)
	}
	conformance.WantPairs(t, m, keys[32:])
}

// An iteration must keep the generation with which it began. The generation must be freed with its
// last iteration, and Close must end iterations.
func TestIterationHoldsItsTable(t *testing.T) {
	dev := devicetest.Open(t)
	before := devicetest.Live(dev).Bytes
	m := conformance.Open(t, linear.New[uint64, uint64], dev, nil)
	keys := conformance.Sequence[uint64](1, 600_000) // more than one page
	if _, err := m.Put(t.Context(), keys[:100], keys[:100]); err != nil {
		t.Fatal(err)
	}
	small := conformance.StatsOf(t, m).Bytes
	for range m.All() {
		if _, err := m.Put(t.Context(), keys, keys); err != nil {
			t.Fatal(err)
		}
		if got, both := devicetest.Live(dev).Bytes-before, small+conformance.StatsOf(t, m).Bytes; got < both {
			t.Errorf("%d bytes in use during the iteration, two tables have %d", got, both)
		}
		break
	}
	pages, steps := 0, 0
	var last error
	for p, err := range m.Pages(t.Context()) {
		if pages == 0 {
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		pages++
		steps += len(p.Keys)
		last = err
	}
	if steps == len(keys) || pages != 2 || !errors.Is(last, weft.ErrClosed) {
		t.Errorf("iteration over a map closed meanwhile: %d pairs in %d pages, %v", steps, pages-1, last)
	}
	if left := devicetest.Live(dev).Bytes; left != before {
		t.Errorf("%d bytes are left after Close", left-before)
	}
}
