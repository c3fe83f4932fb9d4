package linear_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

var schemes = map[string]linear.Tombstones{"keep": linear.Keep, "reuse": linear.Reuse}

// A fixed map must take Capacity keys, and then fill all its slots; a table that is not small keeps
// one slot in 16 free. Further keys must return ErrFull.
func TestFixedMapTakesItsSlots(t *testing.T) {
	dev := devicetest.Open(t)
	if _, host := dev.(device.Host); !host {
		t.Skip("kernels take every slot")
	}
	for name, scheme := range schemes {
		for _, load := range []float64{.5, .8, 1} {
			t.Run(name, func(t *testing.T) {
				const capacity = 1000
				m := conformance.Open(t, linear.New[uint64, uint64], dev, &linear.Options{Capacity: capacity, Fixed: true, MaxLoad: load, Tombstones: scheme})
				keys := conformance.Sequence[uint64](1, 1<<12)
				if n, err := m.Put(t.Context(), keys[:capacity], keys[:capacity]); n != capacity || err != nil {
					t.Fatalf("Put of Capacity keys: %d, %v", n, err)
				}
				slots := conformance.StatsOf(t, m).Slots
				free := (slots - 256 + 15) / 16
				if slots < capacity || float64(slots) > capacity/min(load, .94)+16 {
					t.Fatalf("%d slots for %d keys at load %g", slots, capacity, load)
				}
				ok := make([]bool, len(keys)-capacity)
				n, err := m.PutNew(t.Context(), keys[capacity:], keys[capacity:], ok)
				if n != slots-free-capacity || !errors.Is(err, weft.ErrFull) {
					t.Fatalf("PutNew of %d more keys in %d slots: %d, %v", len(ok), slots, n, err)
				}
				there := slices.Clone(keys[:capacity])
				for i, in := range ok {
					if in {
						there = append(there, keys[capacity+i])
					}
				}
				conformance.WantPairs(t, m, there)

				testFullTable(t, m, there)
			})
		}
	}
}

// testFullTable checks a full table: updates must work, absent keys must not be found, and each
// delete must free one slot.
func testFullTable(t *testing.T, m *linear.Map[uint64, uint64], present []uint64) {
	doubled := make([]uint64, len(present))
	for i, k := range present {
		doubled[i] = 2 * k
	}
	if n, err := m.Put(t.Context(), present, doubled); n != 0 || err != nil {
		t.Fatalf("updates in a full table: %d, %v", n, err)
	}
	if n, err := m.Put(t.Context(), present, present); n != 0 || err != nil {
		t.Fatalf("updates in a full table: %d, %v", n, err)
	}
	absent := conformance.Sequence[uint64](1<<20, 100)
	if n, err := m.Contains(t.Context(), absent, nil); n != 0 || err != nil {
		t.Fatalf("Contains of absent keys: %d, %v", n, err)
	}
	if n, err := m.Put(t.Context(), absent, absent); n != 0 || !errors.Is(err, weft.ErrFull) {
		t.Fatalf("Put without any room: %d, %v", n, err)
	}
	const gone = 50
	if n, err := m.Delete(t.Context(), present[:gone], nil); n != gone || err != nil {
		t.Fatalf("Delete: %d, %v", n, err)
	}
	n, err := m.Put(t.Context(), absent, absent)
	if n != gone || !errors.Is(err, weft.ErrFull) {
		t.Fatalf("Put of %d keys after %d were deleted: %d, %v", len(absent), gone, n, err)
	}
	if m.Len() != len(present) {
		t.Fatalf("Len is %d, want %d", m.Len(), len(present))
	}
	found := make([]bool, len(absent))
	if hits, err := m.Contains(t.Context(), absent, found); hits != gone || err != nil {
		t.Fatalf("%d of the new keys are there, want %d: %v", hits, gone, err)
	}
	present = present[gone:]
	for i, in := range found {
		if in {
			present = append(present, absent[i])
		}
	}
	conformance.WantPairs(t, m, present)
}

// Sync must report exactly once that batches in device memory overflowed.
func TestSyncReportsFull(t *testing.T) {
	dev := devicetest.Open(t)
	m := conformance.Open(t, linear.New[uint64, uint64], dev, &linear.Options{Capacity: 64, MaxLoad: 1, Fixed: true})
	conformance.ReportsFull(t, dev, m, 100)
	if m.Len() != 64 {
		t.Errorf("%d keys, want 64", m.Len())
	}
}

// An operation that fails must have no answer and use no id.
func TestAnswersWhenFull(t *testing.T) {
	devices := map[string]device.Device{"": devicetest.Open(t)}
	for _, arch := range []int{80, 90} {
		if !testing.Short() { // interprets kernels
			devices[fmt.Sprintf("sm_%d", arch)] = devicetest.OpenSim(t, &sim.Options{Arch: arch})
		}
	}
	for on, dev := range devices {
		for name, scheme := range schemes {
			t.Run(name+on, func(t *testing.T) {
				m := conformance.Open(t, linear.New[uint64, uint64], dev, &linear.Options{Capacity: 200, MaxLoad: 1, Fixed: true, Tombstones: scheme})
				conformance.ResultsWhenFull(t, dev, m, 300)
			})
		}
	}
}

// The smallest table has one line.
func TestFixedMapOfOneKey(t *testing.T) {
	dev := devicetest.Open(t)
	m := conformance.Open(t, linear.New[uint32, uint32], dev, &linear.Options{Capacity: 1, Fixed: true})
	keys := conformance.Sequence[uint32](0, 100)
	n, err := m.Put(t.Context(), keys, keys)
	if slots := conformance.StatsOf(t, m).Slots; n != slots || !errors.Is(err, weft.ErrFull) {
		t.Fatalf("Put of 100 keys in %d slots: %d, %v", slots, n, err)
	}
	// Keys that look like sentinels are stored in an extra line.
	odd := []uint32{^uint32(0), ^uint32(1), ^uint32(2)}
	if n, err := m.Put(t.Context(), odd, odd); n != 3 || err != nil {
		t.Fatalf("Put of the three largest keys: %d, %v", n, err)
	}
}

// If an insertion overflows at first and succeeds after dead slots are dropped, the stored value
// must be its own.
func TestApplyOnFullMap(t *testing.T) {
	dev := devicetest.Open(t)
	m := conformance.Open(t, linear.New[uint64, uint64], dev, &linear.Options{Capacity: 64, MaxLoad: 1, Fixed: true})
	keys := conformance.Sequence[uint64](1, 64)
	if n, err := m.Put(t.Context(), keys, keys); n != 64 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := m.Delete(t.Context(), keys[:32], nil); n != 32 || err != nil {
		t.Fatal(n, err)
	}
	fresh := conformance.Sequence[uint64](1000, 32)
	var ops []weft.Op[uint64, uint64]
	for i, k := range fresh {
		ops = append(ops,
			// alternately Put and PutNew
			weft.Op[uint64, uint64]{Kind: weft.OpPut + weft.OpKind(i%2), Key: k, Value: k},
			weft.Op[uint64, uint64]{Kind: weft.OpGet, Key: keys[32+i]})
	}
	res := make([]weft.Result[uint64], len(ops))
	if err := m.Apply(t.Context(), ops, res); err != nil {
		t.Fatal(err)
	}
	for i, r := range res {
		want := weft.Result[uint64]{OK: true}
		if ops[i].Kind == weft.OpGet {
			want.Value = ops[i].Key
		}
		if r != want {
			t.Errorf("operation %d, %v(%d): %v, want %v", i, ops[i].Kind, ops[i].Key, r, want)
		}
	}
	conformance.WantPairs(t, m, append(fresh, keys[32:]...))
}

// In device memory, too, an insertion that overflows at first must store its own value, although
// outputs overwrite values.
func TestApplyOnDeviceOnFullMap(t *testing.T) {
	for _, within := range []bool{false, true} {
		t.Run(fmt.Sprintf("device, within %v", within), func(t *testing.T) { applyOnFullMap(t, devicetest.Open(t), within) })
		t.Run(fmt.Sprintf("simulated, within %v", within), func(t *testing.T) { applyOnFullMap(t, devicetest.OpenSim(t, nil), within) })
	}
}

func applyOnFullMap(t *testing.T, dev device.Device, within bool) {
	m := conformance.Open(t, linear.New[uint64, uint64], dev, &linear.Options{Capacity: 64, MaxLoad: 1, Fixed: true})
	keys := conformance.Sequence[uint64](1, 64)
	if n, err := m.Put(t.Context(), keys, keys); n != 64 || err != nil {
		t.Fatal(n, err)
	}
	if !within {
		if n, err := m.Delete(t.Context(), keys[:32], nil); n != 32 || err != nil {
			t.Fatal(n, err)
		}
	}
	s := devicetest.NewStream(t, dev)
	fresh := conformance.Sequence[uint64](1000, 32)
	kinds := make([]weft.OpKind, len(fresh))
	for i := range kinds {
		kinds[i] = weft.OpPut + weft.OpKind(i%2) // alternately Put and PutNew
	}
	if within { // the batch itself frees slots
		fresh = append(fresh, keys[:32]...)
		kinds = append(kinds, slices.Repeat([]weft.OpKind{weft.OpDelete}, 32)...)
	}
	k, v, kind := devicetest.Upload(t, s, fresh), devicetest.Upload(t, s, fresh), devicetest.Upload(t, s, kinds)
	if err := errors.Join(m.ApplyOn(s, kind, k, v, device.Slice[bool]{}), m.Sync(t.Context())); err != nil {
		t.Fatal(err)
	}
	conformance.WantPairs(t, m, append(fresh[:32:32], keys[32:]...))
}

// Despite ErrFull, all operations that find a slot must have run, also in later pieces of the
// batch.
func TestErrFullEndsNothing(t *testing.T) {
	dev := devicetest.Open(t)
	if dev.Properties().Kind != device.CPU && dev.Properties().Kind != device.CUDA {
		t.Skip("a batch of two million operations")
	}
	m := conformance.Open(t, linear.New[uint64, uint64], dev, &linear.Options{Capacity: 64, MaxLoad: 1, Fixed: true})
	keys := conformance.Sequence[uint64](1, 64)
	if n, err := m.Put(t.Context(), keys, keys); n != 64 || err != nil {
		t.Fatal(n, err)
	}
	ops := make([]weft.Op[uint64, uint64], 1<<21)
	for i := range ops {
		ops[i] = weft.Op[uint64, uint64]{Kind: weft.OpGet, Key: keys[i%64]}
	}
	ops[0] = weft.Op[uint64, uint64]{Kind: weft.OpPut, Key: 1000}
	res := make([]weft.Result[uint64], len(ops))
	if err := m.Apply(t.Context(), ops, res); !errors.Is(err, weft.ErrFull) {
		t.Fatal(err)
	}
	for i, r := range res[1:] {
		if !r.OK || r.Value != ops[i+1].Key {
			t.Fatalf("operation %d: %v", i+1, r)
		}
	}
}

// Lookups and deletes in a mixed batch must not grow a table.
func TestLookupsMakeNothingGrow(t *testing.T) {
	for _, dev := range []device.Device{devicetest.Open(t), devicetest.OpenSim(t, nil)} {
		m := conformance.Open(t, linear.New[uint32, uint32], dev, nil)
		conformance.LookupsDoNotGrow(t, dev, m, func() int { return conformance.StatsOf(t, m).Bytes })
	}
}

// Whenever the context ends, a call must finish the work that it has begun.
func TestCancelledAtAnyLook(t *testing.T) {
	for _, dev := range []device.Device{devicetest.OpenCPU(t, 2), devicetest.OpenSim(t, nil)} {
		conformance.InterruptMaintenance(t, dev, conformance.MapOf(linear.New[uint32, uint32], &linear.Options{Seed: 1}))
	}
}
