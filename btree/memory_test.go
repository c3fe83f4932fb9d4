package btree_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
)

// TestOperationsFail lets each device operation fail once. If New fails, nothing may be left over.
// If a call of a map on the host fails, no pair may be lost.
func TestOperationsFail(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	conformance.OperationsFail(t, devicetest.Open(t), 3000, conformance.MapOf(btree.New[uint64, uint64], nil))
	for _, v := range []btree.Versions{btree.Whole, btree.InPlace, btree.OutOfPlace} {
		conformance.NewFails(t, btree.New[uint64, uint32], devicetest.OpenSim(t, nil), &btree.Options{Versions: v})
	}
}

// TestOperationsFailSimulated repeats TestOperationsFail for a map with snapshots on a simulated
// GPU. In each round, another operation fails; only every 17th is tried.
func TestOperationsFailSimulated(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	const stride = 17
	for v := range 3 {
		t.Run(fmt.Sprintf("versions=%d", v), func(t *testing.T) {
			t.Parallel()
			dev := devicetest.OpenSim(t, nil)
			failing(t, dev, btree.Versions(v), -1)
			before := devicetest.Live(dev)
			for step := v * stride / 3; failing(t, dev, btree.Versions(v), step); step += stride {
				if now := devicetest.Live(dev); now != before {
					t.Fatalf("operation %d failed; %+v is left, was %+v", step, now, before)
				}
			}
		})
	}
}

// failing uses a map while the operation at a step fails. It reports whether an operation failed.
func failing(t *testing.T, dev device.Device, v btree.Versions, step int) bool {
	t.Helper()
	m, err := btree.New[uint32, uint32](dev, &btree.Options{Versions: v})
	must(t, err)
	fired := func() bool { return false }
	if step >= 0 {
		fired = devicetest.FailAfter(dev, step)
	}
	retry := func(name string, do func() error) {
		t.Helper()
		for range 3 {
			if err = do(); err == nil {
				return
			}
			if !errors.Is(err, device.ErrMemory) {
				t.Fatalf("versions %d, operation %d failed: %s: %v", v, step, name, err)
			}
		}
		t.Fatalf("versions %d, operation %d failed: %s fails again and again: %v", v, step, name, err)
	}
	keys := conformance.Sequence[uint32](0, 90)
	put := func(lo, hi int, val uint32) func() error {
		vals := make([]uint32, hi-lo)
		for i := range vals {
			vals[i] = val
		}
		return func() error { _, err := m.Put(t.Context(), keys[lo:hi], vals); return err }
	}
	retry("Put", put(0, 20, 1))
	retry("Put", put(10, 60, 2))
	var at *weft.Snapshot[uint32, uint32]
	retry("Snapshot", func() (err error) { at, err = m.Snapshot(t.Context()); return err })
	retry("Put", put(30, 90, 3))
	retry("Delete", func() error { _, err := m.Delete(t.Context(), keys[:45], nil); return err })
	counts := make([]uint32, 2)
	lo, hi := []uint32{0, 30}, []uint32{^uint32(0), 60}
	is := func(name string, a, b uint32) {
		t.Helper()
		if counts[0] != a || counts[1] != b {
			t.Fatalf("versions %d, operation %d failed: %s counts %v, want %d and %d", v, step, name, counts, a, b)
		}
	}
	retry("Count of a snapshot", func() error { _, err := at.Count(t.Context(), lo, hi, counts); return err })
	is("the snapshot", 60, 30)
	retry("Count", func() error { _, err := m.Count(t.Context(), lo, hi, counts); return err })
	is("the map", 45, 16)
	if err := at.Close(); err != nil && !errors.Is(err, device.ErrMemory) {
		t.Fatal(err)
	}
	retry("Put", put(0, 90, 4))
	devicetest.ClearFailures(dev)
	must(t, m.Check(t.Context()))
	vals := make([]uint32, 90)
	hits, err := m.Get(t.Context(), keys, vals, nil)
	must(t, err)
	if hits != 90 || vals[0] != 4 || vals[89] != 4 {
		t.Fatalf("versions %d, operation %d failed: %d keys, %v", v, step, hits, vals)
	}
	must(t, m.Close())
	return step < 0 || fired()
}

// TestFailsWhole uses a map with snapshots while memory runs out twice in a row. Each change must
// then happen as a whole or not at all, and report which.
func TestFailsWhole(t *testing.T) {
	for _, v := range []btree.Versions{btree.Whole, btree.InPlace, btree.OutOfPlace} {
		conformance.OrderedFailsOnDevices(t, conformance.OrderedMapOf(btree.New[uint32, uint32], &btree.Options{Versions: v}),
			conformance.Failures{FailAfter: conformance.FailTwoAllocations, First: 3 * int(v), Stride: 61, MaxOps: 12})
	}
}

// TestSplitsFail lets a launch fail in a batch that splits all leaves and the nodes above them.
// Later batches must still be able to split these nodes.
func TestSplitsFail(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	const n = 500
	for step, fired := 0, true; fired; step += 2 {
		dev := devicetest.OpenSim(t, nil)
		m, err := btree.New[uint32, uint32](dev, &btree.Options{Fill: 1})
		must(t, err)
		put := func(from uint32) error { // keys between those of the map
			keys := conformance.Sequence[uint32](0, n)
			for i := range keys {
				keys[i] = 8*keys[i] + from
			}
			_, err := m.Put(t.Context(), keys, keys)
			return err
		}
		must(t, put(0))
		failed := devicetest.FailAfter(dev, step)
		if err := put(1); err != nil && !errors.Is(err, device.ErrMemory) {
			t.Fatal(err)
		}
		fired = failed()
		devicetest.ClearFailures(dev)
		for from := range uint32(4) {
			if err := put(1 + from); err != nil {
				t.Fatalf("operation %d has failed before: %v", step, err)
			}
		}
		must(t, m.Check(t.Context()))
		if want := 5 * n; m.Len() != want {
			t.Errorf("operation %d has failed before: %d keys, want %d", step, m.Len(), want)
		}
		must(t, m.Close())
	}
}

// TestMoreThanMemory makes a tree that could never fit its device.
func TestMoreThanMemory(t *testing.T) {
	for _, v := range []btree.Versions{btree.Whole, btree.InPlace, btree.OutOfPlace} {
		_, err := btree.New[uint32, uint32](devicetest.OpenSim(t, &sim.Options{Memory: 16 << 20}), &btree.Options{Capacity: 4 << 20, Versions: v})
		if !errors.Is(err, device.ErrMemory) {
			t.Errorf("%v: %v, want ErrMemory", v, err)
		}
	}
}

// TestClearFails checks that a Clear with a failing device leaves the map as it was.
func TestClearFails(t *testing.T) {
	for _, v := range []btree.Versions{btree.Whole, btree.InPlace} {
		dev := devicetest.OpenSim(t, nil)
		m, err := btree.New[uint32, uint32](dev, &btree.Options{Versions: v})
		must(t, err)
		keys := conformance.Sequence[uint32](0, 40)
		_, err = m.Put(t.Context(), keys, keys)
		must(t, err)
		for _, op := range []devicetest.Op{devicetest.OpResize, devicetest.OpCopyIn} {
			devicetest.FailNext(dev, op)
			if err := m.Clear(t.Context()); !errors.Is(err, device.ErrMemory) {
				t.Fatalf("%v: Clear where %s fails: %v", v, op, err)
			}
			must(t, m.Check(t.Context()))
			if m.Len() != len(keys) {
				t.Fatalf("%v: %d keys behind a Clear that did nothing", v, m.Len())
			}
		}
		must(t, m.Close())
	}
}

// TestLookupFails checks that a lookup that fails before any result is complete reports no hits.
func TestLookupFails(t *testing.T) {
	const n = 40
	dev := devicetest.OpenSim(t, nil)
	m, err := btree.New[uint32, uint32](dev, nil)
	must(t, err)
	ranks, keys, found := conformance.Sequence[uint64](0, n), make([]uint32, n), make([]bool, n)
	for step := 0; ; step++ {
		// Any change makes the next Select list the leaves again.
		_, err = m.Put(t.Context(), conformance.Sequence[uint32](0, n), make([]uint32, n))
		must(t, err)
		fired := devicetest.FailAfter(dev, step)
		hits, err := m.Select(t.Context(), ranks, keys, nil, found)
		if !fired() {
			break
		}
		var p *weft.PartialError
		if err != nil && !errors.As(err, &p) || p != nil && p.Done == 0 && (hits != 0 || slices.Contains(found, true)) {
			t.Errorf("operation %d failed, and Select has found %d: %v", step, hits, err)
		}
	}
	devicetest.ClearFailures(dev)
	must(t, m.Close())
}
