package lsm_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/lsm"
)

func open[K weft.Key, V weft.Value](t testing.TB, dev device.Device, opts *lsm.Options) *lsm.Map[K, V] {
	t.Helper()
	m, err := lsm.New[K, V](dev, opts)
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	return m
}

// TestCheckFinds checks that Check finds keys out of order, an index that does not match the keys,
// impossible deltas, and wrong sums.
func TestCheckFinds(t *testing.T) {
	m := open[uint32, uint32](t, devicetest.OpenCPU(t, 2), nil)
	keys := conformance.Sequence[uint32](0, 600)
	_, err := m.Put(t.Context(), keys, keys)
	must(t, err)
	of, index, deltas, sums := m.Memory()
	for name, at := range map[string]*byte{"keys": &of[4*200], "index": &index[4*7], "deltas": &deltas[77], "sums": &sums[4*3]} {
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
	m := open[uint64, uint64](t, dev, nil)
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
		devicetest.FailNext(dev, devicetest.OpAlloc)
		devicetest.FailNext(dev, devicetest.OpAlloc) // once more, after kept memory is freed
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

// TestLevels checks that a map has a level for each bit set in the number of its batches. Merges
// drop deleted and overwritten entries, and Compact drops all of them.
func TestLevels(t *testing.T) {
	const base = 64
	m := open[uint32, uint32](t, devicetest.OpenCPU(t, 2), &lsm.Options{Base: base})
	put := func(first, val int) {
		_, err := m.Put(t.Context(), conformance.Sequence[uint32](first, base), conformance.Sequence[uint32](val, base))
		must(t, err)
	}
	want := func(name string, keys int, levels ...int) {
		t.Helper()
		s := conformance.StatsOf(t, m)
		if s.Len != keys || !slices.Equal(s.Levels, levels) || s.String() == "" {
			t.Errorf("%s: %v, want %d keys in levels of %v", name, s, keys, levels)
		}
	}
	for i := range 7 {
		put(base*i, 0)
	}
	want("7 batches", 7*base, base, 2*base, 4*base)
	put(0, 0)
	want("the same pairs again", 7*base, base, 2*base, 4*base)
	put(0, 1)
	want("other values", 7*base, 7*base)
	_, err := m.Delete(t.Context(), conformance.Sequence[uint32](0, 3*base), nil)
	must(t, err)
	want("three batches deleted", 4*base, 3*base, 7*base)
	must(t, m.Compact(t.Context()))
	want("behind Compact", 4*base, 4*base)
	_, err = m.Delete(t.Context(), conformance.Sequence[uint32](0, base), nil)
	must(t, err)
	want("nothing is deleted", 4*base, 4*base)
	_, err = m.DeleteRange(t.Context(), []uint32{0}, []uint32{1 << 31}, nil)
	must(t, err)
	want("all deleted", 0)
}

// TestCleansUp checks that all levels are merged automatically when most entries are tombstones.
func TestCleansUp(t *testing.T) {
	m := open[uint32, uint32](t, devicetest.OpenCPU(t, 2), &lsm.Options{Base: 16})
	keys := conformance.Sequence[uint32](0, 1000)
	_, err := m.Put(t.Context(), keys, keys)
	must(t, err)
	for i := 0; i < 900; i += 30 {
		_, err := m.Delete(t.Context(), keys[i:i+30], nil)
		must(t, err)
		if s := conformance.StatsOf(t, m); s.Entries-s.Len > s.Len+4*16 {
			t.Fatalf("behind %d deletes: %v", i+30, s)
		}
	}
	conformance.WantPairs(t, m, keys[900:])
}

// TestMemory checks that a snapshot keeps its levels, and shares those that have not been merged
// since. All memory must be freed in the end.
func TestMemory(t *testing.T) {
	const base, large = 64, 8000
	dev := devicetest.OpenCPU(t, 2)
	m := open[uint64, uint64](t, dev, &lsm.Options{Base: base})
	keys := conformance.Sequence[uint64](0, large)
	_, err := m.Build(t.Context(), keys, keys)
	must(t, err)
	var held []*weft.Snapshot[uint64, uint64]
	before := devicetest.Live(dev)
	for i := range 20 {
		_, err := m.Put(t.Context(), keys[i:i+1], keys[:1])
		must(t, err)
		at, err := m.Snapshot(t.Context())
		must(t, err)
		held = append(held, at)
	}
	if now := devicetest.Live(dev); now.Buffers > before.Buffers+21 || now.Bytes > 2*before.Bytes {
		t.Errorf("20 snapshots hold %d buffers, %d bytes; a map had %d, %d", now.Buffers, now.Bytes, before.Buffers, before.Bytes)
	}
	if s := conformance.StatsOf(t, m); s.Held < 20*24 || s.Held > devicetest.Live(dev).Bytes-s.Bytes {
		t.Errorf("20 snapshots: %v", s)
	}
	for _, at := range held {
		must(t, at.Close())
	}
	if s := conformance.StatsOf(t, m); s.Held != 0 {
		t.Errorf("without snapshots: %v", s)
	}
	must(t, m.Compact(t.Context()))
	if n := devicetest.Live(dev).Buffers; n != 1 {
		t.Errorf("%d buffers are left", n)
	}
}

// TestSavedElsewhere checks that maps on a CPU and on a GPU read each other's files.
func TestSavedElsewhere(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	host, simulated := open[int32, uint32](t, devicetest.OpenCPU(t, 2), nil), open[int32, uint32](t, devicetest.OpenSim(t, nil), &lsm.Options{Base: 64})
	keys := conformance.Sequence[int32](-300, 700)
	vals := conformance.Sequence[uint32](0, 700)
	for i := 0; i < len(keys); i += 175 {
		_, err := simulated.Put(t.Context(), keys[i:i+175], vals[i:i+175])
		must(t, err)
	}
	var file bytes.Buffer
	_, err := simulated.Save(t.Context(), &file)
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
	dev := devicetest.OpenCPU(t, 2)
	for want, o := range map[string]lsm.Options{
		"ResultLimit -1 is negative":                               {ResultLimit: -1},
		"Base 8 is not a power of two from 16 to 67108864":         {Base: 8},
		"Base 100 is not a power of two from 16 to 67108864":       {Base: 100},
		"Base 134217728 is not a power of two from 16 to 67108864": {Base: 1 << 27},
		"Base -16 is not a power of two from 16 to 67108864":       {Base: -16},
	} {
		_, err := lsm.New[uint32, uint32](dev, &o)
		conformance.WantRefused(t, want, map[string]error{"ordered map": err})
	}
}

// TestFailsWhole uses a map with snapshots while one operation fails, or memory runs out twice in a
// row. Each change must then happen as a whole or not at all, and report which.
func TestFailsWhole(t *testing.T) {
	conformance.OrderedFailsOnDevices(t, conformance.OrderedMapOf(lsm.New[uint32, uint32], &lsm.Options{Base: 16}),
		conformance.Failures{FailAfter: conformance.FailTwoAllocations, First: 1, Stride: 17, MaxOps: 12}, conformance.Failures{FailAfter: devicetest.FailAfter, First: 2, Stride: 201, MaxOps: 12})
}

// TestSnapshotIsHeld holds a snapshot over ten thousand batches. Memory must not exceed the levels
// of map and snapshot, dead entries, and the memory kept for merges.
func TestSnapshotIsHeld(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	m, err := lsm.New[uint32, uint32](dev, &lsm.Options{Base: 16})
	must(t, err)
	conformance.LongLivedSnapshot(t, dev, m.OrderedMap, 6)
	must(t, m.Close())
}
