package ordered_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/ordered"
)

// TestMemoryFails lets each allocation fail. Nothing must be lost or left over.
func TestMemoryFails(t *testing.T) {
	dev := devicetest.Open(t)
	conformance.NewFails(t, ordered.New[uint64, uint32], dev, &ordered.Options{Capacity: 5000})
	conformance.OperationsFail(t, dev, 3000, conformance.MapOf(ordered.New[uint64, uint64], nil))
}

// TestSnapshotsCostWhatChanges checks that a snapshot costs only the leaves that change while it is
// held. Closing it must free them, in whichever order several snapshots are closed.
func TestSnapshotsCostWhatChanges(t *testing.T) {
	const n, spacing = 20_000, 1000
	dev := devicetest.Open(t)
	m := conformance.Open(t, ordered.New[uint32, uint32], dev, nil)
	keys := conformance.Sequence[uint32](0, n)
	_, err := m.Put(ctx(), keys, keys)
	must(t, err)
	var touched []uint32 // keys, each in a leaf of its own
	for k := uint32(0); k < n; k += spacing {
		touched = append(touched, k)
	}
	first, err := m.Snapshot(ctx())
	must(t, err)
	second, err := m.Snapshot(ctx())
	must(t, err)
	for range 3 {
		_, err = m.Put(ctx(), touched, make([]uint32, len(touched)))
		must(t, err)
		if s := conformance.StatsOf(t, m); s.Kept != len(touched) || s.Snapshots != 2 {
			t.Fatalf("%d leaves have changed: %v", len(touched), s)
		}
	}
	third, err := m.Snapshot(ctx())
	must(t, err)
	_, err = m.Delete(ctx(), touched[:5], nil)
	must(t, err)
	for _, c := range []struct {
		close func() error
		kept  int
	}{
		{second.Close, len(touched) + 5}, // the first has these leaves too
		{first.Close, 5},
		{third.Close, 0},
	} {
		must(t, c.close())
		must(t, m.Check(ctx()))
		if s := conformance.StatsOf(t, m); s.Kept != c.kept {
			t.Errorf("%d leaves should be kept: %v", c.kept, s)
		}
	}
}

// TestSnapshotOfEachBatch takes and holds a snapshot per batch. Memory must grow by the leaves that
// batches touch, and by at most a seventh more for the index of each version: ten bytes per leaf,
// touched or not. On a GPU this includes free leaves. The first batch after all snapshots are
// closed must free everything, except one index for the next batch.
func TestSnapshotOfEachBatch(t *testing.T) {
	snapshotOfEachBatch(t, devicetest.Open(t), 100_000, 8)
	if testing.Short() || conformance.Raced {
		return
	}
	snapshotOfEachBatch(t, devicetest.OpenSim(t, nil), 16_000, 5)
}

// snapshotOfEachBatch runs batches that touch two of three leaves.
func snapshotOfEachBatch(t *testing.T, dev device.Device, n, batches int) {
	const leafBytes, spacing = 256, 40
	m := conformance.Open(t, ordered.New[uint32, uint32], dev, nil)
	keys := conformance.Sequence[uint32](0, n)
	_, err := m.Put(ctx(), keys, keys)
	must(t, err)
	var touched []uint32
	for k := 0; k < n; k += spacing {
		touched = append(touched, uint32(k))
	}
	// indexBytes returns the bytes in use except for leaves in use and free leaves.
	indexBytes := func() int {
		s := conformance.StatsOf(t, m)
		return s.Bytes - (s.Leaves+s.Free)*leafBytes
	}
	_, err = m.Put(ctx(), touched, touched) // allocates memory for the next index
	must(t, err)
	before, all := indexBytes(), conformance.StatsOf(t, m).Bytes
	var held []*weft.Snapshot[uint32, uint32]
	for range batches {
		s, err := m.Snapshot(ctx())
		must(t, err)
		held = append(held, s)
		_, err = m.Put(ctx(), touched, make([]uint32, len(touched)))
		must(t, err)
	}
	leaves := batches * len(touched) * leafBytes
	if extra := indexBytes() - before; extra < leaves || extra > leaves*115/100 {
		t.Errorf("%v: %d snapshots take %d bytes, %.3f of those of the leaves touched", dev.Properties().Kind, batches, extra, float64(extra)/float64(leaves))
	}
	if all = conformance.StatsOf(t, m).Bytes - all; dev.Properties().Kind != device.CPU && all > leaves*115/100 {
		t.Errorf("%v: %d snapshots make memory %d bytes larger, %.3f of those of the leaves touched", dev.Properties().Kind, batches, all, float64(all)/float64(leaves))
	}
	for _, s := range held {
		must(t, s.Close())
	}
	_, err = m.Put(ctx(), touched[:1], touched[:1])
	must(t, err)
	if s := conformance.StatsOf(t, m); s.Kept != 0 || indexBytes() > before+before/2 {
		t.Errorf("%v: closed, %d bytes instead of %d: %v", dev.Properties().Kind, indexBytes(), before, s)
	}
}

// TestSnapshotIsHeld holds a snapshot over ten thousand batches. Memory must not exceed the need of
// two maps and the next batch. After the snapshot is closed, nothing of it may be kept.
func TestSnapshotIsHeld(t *testing.T) {
	defer ordered.SetBlocks(10)() // a range has at least 2 MiB on a GPU, too much for so few leaves
	dev := devicetest.Open(t)
	m := conformance.Open(t, ordered.New[uint32, uint32], dev, nil)
	conformance.LongLivedSnapshot(t, dev, m.OrderedMap, 3)
	if s := conformance.StatsOf(t, m); s.Kept != 0 {
		t.Errorf("behind the snapshot: %v", s)
	}
}

// TestGivesMemoryBack checks that deletes free memory and that Compact fills leaves.
func TestGivesMemoryBack(t *testing.T) {
	dev := devicetest.Open(t)
	m := conformance.Open(t, ordered.New[uint32, uint32], dev, nil)
	rng := rand.New(rand.NewPCG(1, 1))
	keys := make([]uint32, 1<<15)
	for i := range keys {
		keys[i] = rng.Uint32()
	}
	for i := 0; i < len(keys); i += 512 {
		_, err := m.Put(ctx(), keys[i:i+512], keys[i:i+512])
		must(t, err)
	}
	loose := conformance.StatsOf(t, m)
	must(t, m.Compact(ctx()))
	full := conformance.StatsOf(t, m)
	if loose.Fill > .76 || full.Fill < .78 {
		t.Errorf("%v, compacted %v", loose, full)
	}
	_, err := m.Delete(ctx(), keys[1000:], nil)
	must(t, err)
	if s := conformance.StatsOf(t, m); s.Bytes > full.Bytes/8 {
		t.Errorf("with %d pairs: %v; with 1000: %v", len(keys), full, s)
	}
}

// TestLargeBatchesLeaveNoMemory checks that the Go heap is no larger after a large batch than after
// small ones.
func TestLargeBatchesLeaveNoMemory(t *testing.T) {
	if conformance.Raced {
		t.Skip("measures memory")
	}
	m := conformance.Open(t, ordered.New[uint64, uint64], devicetest.OpenCPU(t, 2), nil)
	keys := conformance.Sequence[uint64](0, 1<<20)
	slices.Reverse(keys) // so that they are sorted
	before := heap()
	_, err := m.Put(ctx(), keys, keys)
	must(t, err)
	if after := heap(); after > before+4<<20 {
		t.Errorf("the heap has grown from %d to %d bytes", before, after)
	}
	runtime.KeepAlive(keys)
}

func heap() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC() // pools keep memory for one more collection
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// TestLookupsInBatchesWriteNoLeaves checks that on a GPU a batch writes only the leaves that it
// changes, however many lookups it has.
func TestLookupsInBatchesWriteNoLeaves(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	const n, absent = 3000, 1 << 20
	m := conformance.Open(t, ordered.New[uint32, uint32], devicetest.OpenSim(t, nil), nil)
	keys := conformance.Sequence[uint32](0, n)
	_, err := m.Put(ctx(), keys, keys)
	must(t, err)
	s, err := m.Snapshot(ctx())
	must(t, err)
	var ops []weft.Op[uint32, uint32]
	for k := uint32(0); k < n; k++ {
		ops = append(ops, weft.Op[uint32, uint32]{Kind: weft.OpGet, Key: k})
	}
	ops = append(ops,
		weft.Op[uint32, uint32]{Kind: weft.OpPutNew, Key: 7, Value: 1},       // is present
		weft.Op[uint32, uint32]{Kind: weft.OpUpdate, Key: absent, Value: 1},  // is absent
		weft.Op[uint32, uint32]{Kind: weft.OpPut, Key: absent + 1, Value: 1}, // and is deleted
		weft.Op[uint32, uint32]{Kind: weft.OpDelete, Key: absent + 1},        //
		// changes one leaf
		weft.Op[uint32, uint32]{Kind: weft.OpUpdate, Key: 500, Value: 1_000_000},
		weft.Op[uint32, uint32]{Kind: weft.OpDelete, Key: 1500}) // and another
	results := make([]weft.Result[uint32], len(ops))
	must(t, m.Apply(ctx(), ops, results))
	for i, r := range results[:n] {
		if !r.OK || r.Value != uint32(i) {
			t.Fatalf("key %d: %v", i, r)
		}
	}
	if now := conformance.StatsOf(t, m); now.Kept != 2 {
		t.Errorf("two leaves have changed: %v", now)
	}
	must(t, m.Check(ctx()))
	must(t, s.Close())
}

// TestDeletingAllTakesNoLeaves deletes all pairs in one batch while no memory for an index is free.
// The batch must take no leaves, however many keys it has.
func TestDeletingAllTakesNoLeaves(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	const n, asked = 2000, 30_000
	dev := devicetest.OpenSim(t, nil)
	m := conformance.Open(t, ordered.New[uint32, uint32], dev, nil)
	st := devicetest.NewStream(t, dev)
	keys := devicetest.Upload(t, st, conformance.Sequence[uint32](0, asked))
	must(t, m.PutOn(st, keys.Sub(0, n), keys.Sub(0, n)))
	s, err := m.Snapshot(ctx())
	must(t, err)
	before := conformance.StatsOf(t, m)
	must(t, m.DeleteOn(st, keys, device.Slice[bool]{}))
	now := conformance.StatsOf(t, m)
	if was, is := before.Leaves+before.Free, now.Leaves+now.Kept+now.Free; now.Len != 0 || now.Leaves != 0 || now.Kept != before.Leaves || is != was {
		t.Errorf("there was memory for %d leaves, there is for %d: %v", was, is, now)
	}
	next := uint32(0)
	for k, v := range s.All() {
		if k != next || v != k {
			t.Fatalf("the snapshot has %d: %d after %d", k, v, next)
		}
		next++
	}
	if must(t, s.Close()); next != n {
		t.Errorf("the snapshot had %d pairs", next)
	}
}

// TestFailsWhole uses a map with snapshots while one operation fails, or memory runs out twice in a
// row. Each change must then happen as a whole or not at all, and report which.
func TestFailsWhole(t *testing.T) {
	conformance.OrderedFailsOnDevices(t, conformance.OrderedMapOf(ordered.New[uint32, uint32], nil),
		conformance.Failures{FailAfter: conformance.FailTwoAllocations, First: 1, Stride: 13, MaxOps: 12}, conformance.Failures{FailAfter: devicetest.FailAfter, First: 2, Stride: 201, MaxOps: 12})
}

// TestMoreThanMemory makes a map that could never fit its device.
func TestMoreThanMemory(t *testing.T) {
	dev := devicetest.OpenSim(t, &sim.Options{Memory: 16 << 20})
	if _, err := ordered.New[uint32, uint32](dev, &ordered.Options{Capacity: 4 << 20}); !errors.Is(err, device.ErrMemory) {
		t.Errorf("%v, want ErrMemory", err)
	}
}

// TestFillsDevice inserts new keys until a GPU has no memory for another leaf. If memory is left
// for a longer list of free leaves but not for more leaves, the map must continue with the leaves
// it has.
func TestFillsDevice(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	for seed := range uint64(2) {
		dev := devicetest.OpenSim(t, &sim.Options{Memory: 3 << 20})
		m, err := ordered.New[uint32, uint32](dev, nil)
		must(t, err)
		rng := rand.New(rand.NewPCG(seed, 2))
		keys, before, total := make([]uint32, 6000), make([]uint32, 6000), 0
		for err == nil {
			copy(before, keys)
			for i := range keys {
				keys[i] = rng.Uint32()
			}
			var n int
			n, err = m.Put(ctx(), keys, keys)
			total += n
		}
		if !errors.Is(err, device.ErrMemory) || m.Len() != total {
			t.Fatalf("%d pairs, of which %d were counted: %v", m.Len(), total, err)
		}
		hits, err := m.Contains(ctx(), before, nil)
		conformance.WantCount(t, "Contains of the batch before", hits, len(before), err)
		must(t, m.Close())
	}
}
