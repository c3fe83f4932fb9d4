package sorted_test

import (
	"bytes"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/sorted"
)

func open[K weft.Key, V weft.Value](t testing.TB, dev device.Device) *sorted.Map[K, V] {
	t.Helper()
	m, err := sorted.New[K, V](dev, nil)
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	return m
}

// TestCheckFinds checks that Check finds keys out of order, and an index that does not match the
// keys.
func TestCheckFinds(t *testing.T) {
	m := open[uint32, uint32](t, devicetest.OpenCPU(t, 2))
	keys := conformance.Sequence[uint32](0, 600)
	_, err := m.Put(t.Context(), keys, keys)
	must(t, err)
	of, index := m.Memory()
	for name, at := range map[string]*byte{"keys": &of[4*200], "index": &index[4*7]} {
		*at ^= 0x80
		if err := m.Check(t.Context()); !errors.Is(err, weft.ErrCorrupt) {
			t.Errorf("broken %s: %v", name, err)
		}
		*at ^= 0x80
	}
	must(t, m.Check(t.Context()))
}

// TestWithoutMemory checks that a change that runs out of memory leaves the map unchanged, also
// while a snapshot holds memory.
func TestWithoutMemory(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	m := open[uint64, uint64](t, dev)
	keys := conformance.Sequence[uint64](0, 5000)
	_, err := m.Put(t.Context(), keys, keys)
	must(t, err)
	at, err := m.Snapshot(t.Context())
	must(t, err)
	must(t, m.Compact(t.Context()))
	for name, change := range map[string]func() (int, error){
		"Put":         func() (int, error) { return m.Put(t.Context(), []uint64{9999}, []uint64{1}) },
		"Delete":      func() (int, error) { return m.Delete(t.Context(), keys[:1], nil) },
		"DeleteRange": func() (int, error) { return m.DeleteRange(t.Context(), keys[:1], keys[9:10], nil) },
	} {
		devicetest.FailNext(dev, devicetest.OpAlloc) // of some more than is needed
		devicetest.FailNext(dev, devicetest.OpAlloc)
		n, err := change()
		devicetest.ClearFailures(dev)
		if n != 0 || !errors.Is(err, device.ErrMemory) {
			t.Errorf("%s without memory: %d, %v", name, n, err)
		}
		conformance.WantPairs(t, m, keys)
		must(t, m.Check(t.Context()))
	}
	if at.Len() != len(keys) {
		t.Errorf("the snapshot has %d pairs", at.Len())
	}
	must(t, at.Close())
}

// TestMemory checks that a map uses the memory of two generations after any number of changes, and
// one more for each snapshot between changes. All memory must be freed in the end.
func TestMemory(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	m := open[uint64, uint64](t, dev)
	keys := conformance.Sequence[uint64](0, 20_000)
	_, err := m.Build(t.Context(), keys, keys)
	must(t, err)
	var held []*weft.Snapshot[uint64, uint64]
	for i := range 6 {
		_, err := m.Put(t.Context(), keys[i:i+1], keys[:1])
		must(t, err)
		if i < 3 {
			at, err := m.Snapshot(t.Context())
			must(t, err)
			held = append(held, at)
		}
		if want := min(i+2, 5); devicetest.Live(dev).Buffers > want {
			t.Errorf("change %d: %d buffers, want %d", i, devicetest.Live(dev).Buffers, want)
		}
	}
	if s := conformance.StatsOf(t, m); s.Held != devicetest.Live(dev).Bytes-s.Bytes || s.Held < 3*16*len(keys) {
		t.Errorf("3 snapshots: %v", s)
	}
	for _, at := range held {
		must(t, at.Close())
	}
	must(t, m.Compact(t.Context()))
	if n := devicetest.Live(dev).Buffers; n != 1 || m.Spare() != 0 {
		t.Errorf("%d buffers are left, and %d bytes are kept", n, m.Spare())
	}
}

// TestLargeBatches checks batches of all sizes and orders against a sort by the host. Large ones
// have few keys, keys that differ in few bits, or sorted keys.
func TestLargeBatches(t *testing.T) {
	dev := devicetest.OpenCPU(t, 3)
	g := rand.New(rand.NewPCG(1, 2))
	for name, key := range map[string]func(i int) int64{
		"any":        func(int) int64 { return int64(g.Uint64()) },
		"few":        func(int) int64 { return int64(g.IntN(100)) - 50 },
		"high bits":  func(int) int64 { return int64(g.Uint64()) &^ (1<<50 - 1) },
		"ascending":  func(i int) int64 { return int64(i/3) - 10_000 },
		"descending": func(i int) int64 { return -int64(i) },
	} {
		m, model := open[int64, uint32](t, dev), map[int64]uint32{}
		for round := range 3 {
			keys, vals := make([]int64, 70_000), make([]uint32, 70_000)
			for i := range keys {
				keys[i], vals[i] = key(i+1000*round), uint32(i*round)
				model[keys[i]] = vals[i]
			}
			_, err := m.Put(t.Context(), keys, vals)
			must(t, err)
		}
		must(t, m.Check(t.Context()))
		var last int64
		n := 0
		for k, v := range m.All() {
			if n > 0 && k <= last || model[k] != v {
				t.Fatalf("%s: key %d behind %d has %d, want %d", name, k, last, v, model[k])
			}
			last = k
			n++
		}
		if n != len(model) || m.Len() != n {
			t.Errorf("%s: %d pairs, want %d", name, n, len(model))
		}
	}
}

// TestSavedElsewhere checks that maps on a CPU and on a GPU read each other's files, and files of
// hash maps.
func TestSavedElsewhere(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	host, simulated := open[int32, uint32](t, devicetest.OpenCPU(t, 2)), open[int32, uint32](t, devicetest.OpenSim(t, nil))
	keys := conformance.Sequence[int32](-300, 700)
	vals := conformance.Sequence[uint32](0, 700)
	_, err := simulated.Build(t.Context(), keys, vals)
	must(t, err)
	var file bytes.Buffer
	_, err = simulated.Save(t.Context(), &file)
	must(t, err)
	_, err = host.Load(t.Context(), &file)
	must(t, err)
	var got []int32
	for k := range host.Backward() {
		got = append(got, k)
	}
	slices.Reverse(got)
	if !slices.Equal(got, keys) {
		t.Errorf("%d keys came over, want %d", len(got), len(keys))
	}
}

// TestOptions checks that invalid options are refused.
func TestOptions(t *testing.T) {
	_, err := sorted.New[uint32, uint32](devicetest.OpenCPU(t, 2), &sorted.Options{ResultLimit: -1})
	conformance.WantRefused(t, "ResultLimit -1 is negative", map[string]error{"ordered map": err})
	m, err := sorted.New[uint32, uint32](devicetest.OpenCPU(t, 2), &sorted.Options{ResultLimit: 80})
	must(t, err)
	defer m.Close()
	keys := conformance.Sequence[uint32](0, 11)
	_, err = m.Put(t.Context(), keys, keys)
	must(t, err)
	var rows weft.PairRows[uint32, uint32]
	must(t, m.Range(t.Context(), []uint32{0}, []uint32{9}, 0, &rows))
	if err := m.Range(t.Context(), []uint32{0}, []uint32{10}, 0, &rows); !errors.Is(err, device.ErrMemory) || rows.Len() != 1 {
		t.Errorf("88 bytes of results within 80: %v, %d rows", err, rows.Len())
	}
	var got []uint32
	for p, err := range m.Between(t.Context(), 0, 10) { // page by page
		must(t, err)
		got = append(got, p.Keys...)
	}
	if !slices.Equal(got, keys) {
		t.Errorf("Between has %v, by pages of 80 bytes", got)
	}
	if s := conformance.StatsOf(t, m); s.Len != 11 || s.Bytes == 0 || s.String() == "" {
		t.Errorf("%v", s)
	}
}

// TestFailsWhole uses a map with snapshots while one operation fails, or memory runs out twice in a
// row. Each change must then happen as a whole or not at all, and report which.
func TestFailsWhole(t *testing.T) {
	conformance.OrderedFailsOnDevices(t, conformance.OrderedMapOf(sorted.New[uint32, uint32], nil),
		conformance.Failures{FailAfter: conformance.FailTwoAllocations, First: 1, Stride: 13, MaxOps: 12}, conformance.Failures{FailAfter: devicetest.FailAfter, First: 2, Stride: 201, MaxOps: 12})
}

// TestSnapshotIsHeld holds a snapshot over ten thousand batches. Memory must stay at three arrays:
// for the map, for the snapshot, and for the next merge.
func TestSnapshotIsHeld(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	m, err := sorted.New[uint32, uint32](dev, nil)
	must(t, err)
	conformance.LongLivedSnapshot(t, dev, m.OrderedMap, 4)
	must(t, m.Close())
}

// TestErrorsNameMethods checks that errors name their method, also in methods that begin with a
// snapshot.
func TestErrorsNameMethods(t *testing.T) {
	m, err := sorted.New[uint32, uint32](devicetest.OpenCPU(t, 1), nil)
	must(t, err)
	must(t, m.Close())
	last := func(pages iter.Seq2[weft.Page[uint32, uint32], error]) (err error) {
		for _, err = range pages {
			continue
		}
		return err
	}
	_, _, _, minErr := m.Min(t.Context())
	_, snapshot := m.Snapshot(t.Context())
	for method, err := range map[string]error{
		"Between": last(m.Between(t.Context(), 0, 1)), "Pages": last(m.Pages(t.Context())), "Min": minErr, "Snapshot": snapshot,
		"Range": m.Range(t.Context(), nil, nil, 0, &weft.PairRows[uint32, uint32]{}), "Rank": m.Rank(t.Context(), nil, nil),
	} {
		if !errors.Is(err, weft.ErrClosed) || !strings.HasPrefix(err.Error(), "sorted: "+method+": ") {
			t.Errorf("%s of a closed map: %v", method, err)
		}
	}
}
