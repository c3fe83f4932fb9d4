package slab_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

// TestNewFailsCleanly checks that the constructor frees all memory if any operation of the device
// fails.
func TestNewFailsCleanly(t *testing.T) {
	dev := devicetest.Open(t)
	for _, opts := range []*slab.Options{{Capacity: 5000}, {Capacity: 5000, Fixed: true}} {
		conformance.NewFails(t, slab.New[uint64, uint32], dev, opts)
	}
}

// TestEveryOperationFailsOnce checks that no data is lost if any operation of the device fails
// once.
func TestEveryOperationFailsOnce(t *testing.T) {
	dev := devicetest.Open(t)
	for name, opts := range map[string]*slab.Options{"growing": nil, "chains": {Buckets: 20}} {
		t.Run(name, func(t *testing.T) {
			conformance.OperationsFail(t, dev, 1500, conformance.MapOf(slab.New[uint64, uint64], opts))
		})
	}
}

// TestNoMemoryToGrow checks that a map without memory for a rehash continues with longer chains. If
// the pool cannot grow either, calls return an error and no data is lost. With memory again, the
// map grows.
func TestNoMemoryToGrow(t *testing.T) {
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); !ok {
		t.Skip("other allocations come between those of tables")
	}
	m := conformance.Open(t, slab.New[uint64, uint64], dev, &slab.Options{Capacity: 100})
	keys := conformance.Sequence[uint64](1, 50_000)
	inserted := 0
	for lo := 0; ; lo += 100 {
		for range 20 {
			devicetest.FailNext(dev, devicetest.OpAlloc)
		}
		n, err := m.Put(t.Context(), keys[lo:lo+100], keys[lo:lo+100])
		inserted += n
		devicetest.ClearFailures(dev)
		if err != nil {
			if !errors.Is(err, device.ErrMemory) {
				t.Fatal(err)
			}
			break
		}
	}
	s := conformance.StatsOf(t, m)
	if inserted < 7*1024 || inserted != m.Len() || s.FreeUnits > 10 || s.Buckets > 30 {
		t.Fatalf("%d keys went into %v", inserted, s)
	}
	there := make([]bool, len(keys))
	if n, err := m.Contains(t.Context(), keys, there); n != inserted || err != nil {
		t.Fatalf("%d keys are there, want %d: %v", n, inserted, err)
	}
	n, err := m.Put(t.Context(), keys, keys)
	conformance.WantCount(t, "Put with memory again", n, len(keys)-inserted, err)
	conformance.WantPairs(t, m, keys)
	if s := conformance.StatsOf(t, m); s.Buckets < len(keys)/10 {
		t.Errorf("it has not grown: %v", s)
	}
}

// TestIterationHoldsItsTable checks that an iteration keeps the table with which it began, which
// the end of the last iteration frees. Close ends running iterations.
func TestIterationHoldsItsTable(t *testing.T) {
	dev := devicetest.Open(t)
	before := devicetest.Live(dev)
	m := conformance.Open(t, slab.New[uint64, uint64], dev, nil)
	keys := conformance.Sequence[uint64](1, 1000)
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for k := range m.All() {
		if seen++; seen == 1 {
			more := conformance.Sequence[uint64](10_000, 20_000)
			if _, err := m.Put(t.Context(), more, more); err != nil { // causes a rehash
				t.Fatal(err)
			}
		}
		if k > 1000 {
			t.Fatalf("key %d came later", k)
		}
	}
	if seen != 1000 {
		t.Errorf("%d pairs, want 1000", seen)
	}
	var last error
	for _, last = range m.Pages(t.Context()) {
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !errors.Is(last, weft.ErrClosed) {
		t.Errorf("iteration over a closed map: %v", last)
	}
	if after := devicetest.Live(dev); after != before {
		t.Errorf("%+v is left, was %+v", after, before)
	}
}

// TestIterationOverLongChains checks that a page of an iteration grows with the chains of its
// buckets, and that the pairs of a key are in order.
func TestIterationOverLongChains(t *testing.T) {
	dev := devicetest.Open(t)
	n := min(rows(dev), 5000)
	m := conformance.Open(t, slab.NewMultiMap[uint32, uint32], dev, &slab.Options{Buckets: 3})
	vals := conformance.Sequence[uint32](0, n)
	keys := make([]uint32, n)
	for i := range keys {
		keys[i] = uint32(i % 7)
	}
	for lo := 0; lo < n; lo += n / 4 { // in several batches, so that a GPU keeps the order
		hi := min(lo+n/4, n)
		k, err := m.Put(t.Context(), keys[lo:hi], vals[lo:hi])
		conformance.WantCount(t, "Put", k, hi-lo, err)
	}
	last, seen := map[uint32]uint32{}, 0
	for k, v := range m.All() {
		if v%7 != k {
			t.Fatalf("key %d has the value %d", k, v)
		}
		if v/uint32(n/4) < last[k]/uint32(n/4) {
			t.Fatalf("key %d: %d comes after %d", k, v, last[k])
		}
		last[k] = v
		seen++
	}
	conformance.WantCount(t, "All", seen, n, nil)
}
