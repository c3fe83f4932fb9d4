package horton_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
)

// A map that cannot grow uses its remaining capacity. It grows once memory is available.
func TestNoMemoryToGrow(t *testing.T) {
	dev := devicetest.Open(t)
	for _, slots := range []int{1, 4, 8} {
		m := conformance.Open(t, horton.New[uint64, uint64], dev, &horton.Options{Capacity: 100, Slots: slots, Seed: 1})
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
	m := conformance.Open(t, horton.New[uint32, uint32], dev, &horton.Options{Slots: 8, Capacity: 120, MaxLoad: .5, Fixed: true, Seed: 1})
	var keys []uint32 // too many for one entry
	for _, k := range m.KeysOf(0, 1, 1000) {
		if m.TagOf(k) == 0 {
			keys = append(keys, k)
		}
	}
	devicetest.FailNext(dev, devicetest.OpAlloc)
	n, err := m.Put(t.Context(), keys, keys)
	devicetest.ClearFailures(dev)
	if n == 0 || n == len(keys) || n != m.Len() || !errors.Is(err, weft.ErrFull) {
		t.Fatalf("%d keys of an entry: %d, %v", len(keys), n, err)
	}
	if more, err := m.Put(t.Context(), keys, keys); more != len(keys)-n || err != nil {
		t.Fatalf("with memory again: %d, %v", more, err)
	}
	conformance.WantPairs(t, m, keys)
}
