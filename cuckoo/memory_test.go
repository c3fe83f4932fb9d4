package cuckoo_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// A map that cannot grow uses its remaining capacity. It grows once memory is available.
func TestNoMemoryToGrow(t *testing.T) {
	dev := devicetest.Open(t)
	for _, slots := range []int{1, 4, 8} {
		m := conformance.Open(t, cuckoo.New[uint64, uint64], dev, &cuckoo.Options{Capacity: 100, Slots: slots, Seed: 1})
		conformance.NoMemoryToGrow(t, dev, m, func(int) {})
	}
}

// A fixed table in which too many keys share buckets, without memory to try another seed, reports
// that it is full and is unchanged.
func TestNoMemoryForAnotherSeed(t *testing.T) {
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); !ok {
		t.Skip("other allocations come between those of tables")
	}
	m := conformance.Open(t, cuckoo.New[uint32, uint32], dev, &cuckoo.Options{Slots: 4, Capacity: 60, MaxLoad: .5, Fixed: true, Seed: 1})
	keys := m.KeysOf(0, 1, 1, 12)
	devicetest.FailNext(dev, devicetest.OpAlloc)
	n, err := m.Put(t.Context(), keys, keys)
	devicetest.ClearFailures(dev)
	if n != 8 || !errors.Is(err, weft.ErrFull) {
		t.Fatalf("12 keys of two buckets: %d, %v", n, err)
	}
	if n, err := m.Put(t.Context(), keys, keys); n != 4 || err != nil {
		t.Fatalf("with memory again: %d, %v", n, err)
	}
	conformance.WantPairs(t, m, keys)
}
