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

// Whatever operation of the device fails while a structure is made, nothing
// stays behind.
func TestNewFailsCleanly(t *testing.T) {
	dev := devicetest.Open(t)
	for name, opts := range map[string]*slab.Options{"growing": {Capacity: 5000}, "fixed": {Capacity: 5000, Fixed: true}} {
		before := devicetest.Live(dev)
		for n := 0; ; n++ {
			fired := devicetest.FailAfter(dev, n)
			m, err := slab.New[uint64, uint32](dev, opts)
			if !fired() {
				devicetest.Heal(dev)
				if n == 0 || err != nil {
					t.Fatalf("%s: New asks for %d operations: %v", name, n, err)
				}
				if err := m.Close(); err != nil {
					t.Fatal(err)
				}
				break
			}
			if !errors.Is(err, device.ErrMemory) {
				t.Fatalf("%s: operation %d of New failed: %v", name, n, err)
			}
			if live := devicetest.Live(dev); live != before {
				t.Fatalf("%s: operation %d of New failed; %+v is left, was %+v", name, n, live, before)
			}
		}
	}
}

// Whatever operation of the device fails, once, during a life of growing,
// deleting, compacting and reading: the call says so or does without, nothing
// that was there is lost, and everything works once the failure has gone.
func TestEveryOperationFailsOnce(t *testing.T) {
	dev := devicetest.Open(t)
	steps := 100
	if dev.Properties().Kind == device.CPU {
		steps = 1 << 30 // until nothing fails any more
	}
	for name, opts := range map[string]*slab.Options{"growing": nil, "chains": {Buckets: 20}} {
		t.Run(name, func(t *testing.T) {
			for n := 0; n < steps; n++ {
				m := conformance.Open(t, slab.New[uint64, uint64], dev, opts)
				fired := devicetest.FailAfter(dev, n)
				live(t, m)
				devicetest.Heal(dev)
				live(t, m)
				if err := m.CheckInvariants(); err != nil {
					t.Fatalf("operation %d failed: %v", n, err)
				}
				if !fired() {
					if n == 0 {
						t.Fatal("a life asks nothing of the device")
					}
					break
				}
			}
		})
	}
}

// live puts a map through its life. Calls may fail for lack of memory; the
// model follows what they report.
func live(t *testing.T, m *slab.Map[uint64, uint64]) {
	t.Helper()
	ctx := t.Context()
	fine := func(err error) bool {
		t.Helper()
		if err != nil && !errors.Is(err, device.ErrMemory) {
			t.Fatal(err)
		}
		return err == nil
	}
	again := func(what string, f func() error) { // until it has worked
		t.Helper()
		for range 10 {
			if fine(f()) {
				return
			}
		}
		t.Fatalf("%s fails again and again", what)
	}
	const n, left = 1500, 100
	keys := conformance.Sequence[uint64](1, n)
	fine(m.Clear(ctx))
	for lo := 0; lo < n; lo += n / 3 {
		part := keys[lo : lo+n/3]
		again("Put", func() error { _, err := m.Put(ctx, part, part); return err })
	}
	again("Delete", func() error { _, err := m.Delete(ctx, keys[left:], nil); return err })
	fine(m.Compact(ctx))
	vals, found := make([]uint64, n), make([]bool, n)
	again("Get", func() error { _, err := m.Get(ctx, keys, vals, found); return err })
	for i, k := range keys {
		if want := i < left; found[i] != want || want && vals[i] != k {
			t.Fatalf("key %d: %d, %v", k, vals[i], found[i])
		}
	}
	again("Pages", func() error {
		seen := 0
		for p, err := range m.Pages(ctx) {
			if err != nil {
				return err
			}
			seen += len(p.Keys)
		}
		if seen != left {
			t.Fatalf("Pages have %d pairs, want %d", seen, left)
		}
		return nil
	})
}

// A map without memory for a rehash goes on with longer chains; when the pool
// cannot grow either, calls say so and nothing is lost; when there is memory
// again, it grows.
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
		devicetest.Heal(dev)
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
	conformance.Want(t, "Put with memory again", n, len(keys)-inserted, err)
	conformance.WantPairs(t, m, keys)
	if s := conformance.StatsOf(t, m); s.Buckets < len(keys)/10 {
		t.Errorf("it has not grown: %v", s)
	}
}

// An iteration keeps the table it began with; it is freed with the last of
// them, and Close in the middle ends them.
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
			if _, err := m.Put(t.Context(), more, more); err != nil { // rehashes
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

// A page of an iteration grows with the chains of its buckets, and the pairs
// of a key come in their order.
func TestIterationOverLongChains(t *testing.T) {
	dev := devicetest.Open(t)
	n := min(rows(dev), 5000)
	m := conformance.Open(t, slab.NewMultiMap[uint32, uint32], dev, &slab.Options{Buckets: 3})
	vals := conformance.Sequence[uint32](0, n)
	keys := make([]uint32, n)
	for i := range keys {
		keys[i] = uint32(i % 7)
	}
	for lo := 0; lo < n; lo += n / 4 { // batch by batch, for a GPU to keep the order
		hi := min(lo+n/4, n)
		k, err := m.Put(t.Context(), keys[lo:hi], vals[lo:hi])
		conformance.Want(t, "Put", k, hi-lo, err)
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
	conformance.Want(t, "All", seen, n, nil)
}
