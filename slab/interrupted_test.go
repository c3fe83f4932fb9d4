package slab

import (
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
)

// devices returns the devices on which to test engines. With -short it returns no simulated GPU.
func devices(t *testing.T) map[string]device.Device {
	all := map[string]device.Device{"cpu": devicetest.OpenCPU(t, 2)}
	if !testing.Short() {
		all["sim"] = devicetest.OpenSim(t, nil)
	}
	return all
}

// TestCancelledAtAnyLook checks that a call completes what it has begun, at whatever point its
// context ends.
func TestCancelledAtAnyLook(t *testing.T) {
	for on, dev := range devices(t) {
		t.Run(on, func(t *testing.T) {
			conformance.InterruptMaintenance(t, dev, conformance.MapOf(New[uint32, uint32], &Options{Buckets: 2, Seed: 1, MaxTombstones: -1}))
		})
	}
}

// TestLookupsMakeNothingGrow checks that lookups and deletions in a mixed batch do not grow a
// structure.
func TestLookupsMakeNothingGrow(t *testing.T) {
	for _, dev := range devices(t) {
		m := conformance.Open(t, New[uint32, uint32], dev, nil)
		conformance.LookupsDoNotGrow(t, dev, m, func() int {
			if got := m.policy.engine.geometry().buckets; got != 1 {
				t.Errorf("%d buckets", got)
			}
			return conformance.StatsOf(t, m).Bytes
		})
	}
}

// TestPoolAlmostFull checks that a batch on the device finds the free units of a pool with just
// enough of them, at any place.
func TestPoolAlmostFull(t *testing.T) {
	const buckets, free = 200, 210
	ctx := t.Context()
	for on, dev := range devices(t) {
		t.Run(on, func(t *testing.T) {
			m := conformance.Open(t, New[uint32, uint32], dev, &Options{Buckets: buckets, Seed: 1})
			// Each bucket is full and gets one more key.
			count := make([]int, buckets)
			var full, more []uint32
			for k := uint32(1); len(more) < buckets; k++ {
				b := bucketOf(m.policy.engine.geometry(), k)
				switch count[b]++; {
				case count[b] <= 15:
					full = append(full, k)
				case count[b] == 16:
					more = append(more, k)
				}
			}
			if _, err := m.Put(ctx, full, full); err != nil {
				t.Fatal(err)
			}
			pool := m.policy.engine.units()
			s, err := m.policy.countPool(ctx)
			if err != nil {
				t.Fatal(err)
			}
			taken := make([]uint32, s.Units-s.Used-free)
			if _, err := pool.Allocate(ctx, taken); err != nil {
				t.Fatal(err)
			}
			if _, err := m.policy.countPool(ctx); err != nil {
				t.Fatal(err)
			}
			stream, err := dev.NewStream()
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			keys, err := device.Upload(stream, more)
			if err != nil {
				t.Fatal(err)
			}
			defer keys.Free()
			if err := errors.Join(m.PutOn(stream, keys, keys), m.Sync(ctx)); err != nil {
				t.Error(err)
			}
			if m.Len() != len(full)+len(more) {
				t.Errorf("%d keys of %d", m.Len(), len(full)+len(more))
			}
			if _, err := pool.Free(ctx, taken); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFailureWhileResolving checks that a failure while duplicates are resolved does not break a
// later, smaller batch.
func TestFailureWhileResolving(t *testing.T) {
	keys, vals := make([]uint32, 256), make([]uint32, 256)
	for i := range keys {
		keys[i], vals[i] = uint32(i%128)*7919, uint32(i)
	}
	for n, fired := 0, true; fired; n++ {
		simulated, err := sim.Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		dev := devicetest.Checked(t, simulated)
		m, err := New[uint32, uint32](dev, &Options{Capacity: 4000, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		s, err := dev.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		few, err := device.Upload(s, keys[120:136])
		if _, perr := m.Put(t.Context(), conformance.Sequence[uint32](5000, 256), vals); err != nil || perr != nil {
			t.Fatal(err, perr)
		}
		hit := devicetest.FailAfter(dev, n)
		_, _ = m.Put(t.Context(), keys, vals) // may fail at any point
		fired = hit()
		devicetest.ClearFailures(dev)
		if err := errors.Join(m.PutOn(s, few, few), m.Sync(t.Context()), few.Free(), s.Close(), m.Close()); err != nil {
			t.Errorf("failure %d: %v", n, err)
		}
		simulated.Close()
	}
}
