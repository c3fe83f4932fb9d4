package btree_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// TestAgainstModel runs batches of all kinds against a model, on several cores, in large pieces and
// in small ones.
func TestAgainstModel(t *testing.T) {
	for seed := range uint64(5) {
		history[int64, uint64](t, seed, 1+int(seed)*300, nil)
		history[uint32, uint32](t, seed, 1+int(seed)*300, &btree.Options{Fill: 1})
	}
	defer btree.ShrinkPieces(300, 4, 16)()
	for seed := range uint64(6) {
		history[int64, uint32](t, seed, 1+int(seed)*200, nil)
		history[int32, uint32](t, seed, 1+int(seed)*200, &btree.Options{Fill: .5})
	}
}

func history[K weft.Key, V weft.Value](t *testing.T, seed uint64, maxOps int, opts *btree.Options) {
	dev := devicetest.OpenCPU(t, 3)
	m, err := btree.New[K, V](dev, opts)
	must(t, err)
	defer m.Close()
	h := conformance.OrderedHistory[K, V]{Map: m.OrderedMap, MaxOps: maxOps, ExtraKinds: []weft.OpKind{weft.OpUpdate, weft.OpPut}}
	h.Run(t, seed, 40)
}

// TestWithoutMemory checks that a change that cannot allocate memory does nothing and reports it.
// The map stays valid, and a snapshot does not change.
func TestWithoutMemory(t *testing.T) {
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); !ok {
		t.Skip("of the host")
	}
	m, err := btree.New[int64, uint32](dev, nil)
	must(t, err)
	keys, vals := make([]int64, 200_000), make([]uint32, 200_000)
	for i := range keys {
		keys[i], vals[i] = int64(i), uint32(i)
	}
	_, err = m.Put(t.Context(), keys, vals)
	must(t, err)
	s, err := m.Snapshot(t.Context())
	must(t, err)
	fails := func(name string, call func() (int, error)) {
		t.Helper()
		// if an allocation with a reserve fails, it is tried again without the reserve
		for range 2 {
			devicetest.FailNext(dev, devicetest.OpResize)
		}
		n, err := call()
		devicetest.ClearFailures(dev)
		var partial *weft.PartialError
		if !errors.Is(err, device.ErrMemory) || !errors.As(err, &partial) || n != 0 || partial.Done != 0 {
			t.Fatalf("%s without memory: %d, %v", name, n, err)
		}
		must(t, m.Check(t.Context()))
		if m.Len() != len(keys) || s.Len() != len(keys) {
			t.Fatalf("%s: %d pairs, %d in the snapshot", name, m.Len(), s.Len())
		}
	}
	fails("Delete", func() (int, error) { return m.Delete(t.Context(), keys, nil) })
	must(t, s.Close())
	tooMany := make([]int64, 1_000_000) // more than fits the memory that exists
	for i := range tooMany {
		tooMany[i] = int64(i * 7)
	}
	fails("Put", func() (int, error) { return m.Put(t.Context(), tooMany, make([]uint32, len(tooMany))) })
	_, err = m.Delete(t.Context(), keys, nil)
	must(t, err)
	must(t, m.Close())
}

// TestDeletesMerge deletes most pairs of leaves. Leaves and inner nodes must be merged, also in
// batches that run on several cores, and empty nodes must go. The map is never compacted, since its
// nodes have more than two pairs each or are few.
func TestDeletesMerge(t *testing.T) {
	const n = 60_000
	m, err := btree.New[uint32, uint32](devicetest.OpenCPU(t, 2), &btree.Options{Fill: 1})
	must(t, err)
	defer m.Close()
	keys := conformance.Sequence[uint32](0, n)
	_, err = m.Put(t.Context(), keys, keys)
	must(t, err)
	is := func(pairs, maxNodes int) {
		t.Helper()
		must(t, m.Check(t.Context()))
		if s, err := m.Stats(t.Context()); err != nil || s.Len != pairs || s.Nodes > maxNodes {
			t.Errorf("%v, %v: more than %d nodes, or not %d keys", s, err, maxNodes, pairs)
		}
	}
	for _, left := range []struct{ stride, maxNodes int }{{6, 1100}, {60, 160}} {
		deleted := slices.DeleteFunc(slices.Clone(keys), func(k uint32) bool { return k%uint32(left.stride) == 0 })
		_, err = m.Delete(t.Context(), deleted, nil)
		must(t, err)
		is(n/left.stride, left.maxNodes)
	}
	_, err = m.DeleteRange(t.Context(), []uint32{100}, []uint32{n}, nil)
	must(t, err)
	is(2, 3)
}

// TestSnapshotIsHeld holds a snapshot over ten thousand batches. The snapshot must cost only the
// nodes that the batches change, and read the same as before. The next batch after it is closed
// must free them all.
func TestSnapshotIsHeld(t *testing.T) {
	const n, batches = 20_000, 10_000
	m, err := btree.New[uint32, uint32](devicetest.OpenCPU(t, 2), nil)
	must(t, err)
	defer m.Close()
	keys := make([]uint32, n)
	for i := range keys {
		keys[i] = uint32(i)
	}
	_, err = m.Put(t.Context(), keys, keys)
	must(t, err)
	before := btree.NodesInUse(m)
	s, err := m.Snapshot(t.Context())
	must(t, err)
	for i := range uint32(batches) {
		k := []uint32{i * 7 % 1000}
		if i%3 == 0 {
			_, err = m.Delete(t.Context(), k, nil)
		} else {
			_, err = m.Put(t.Context(), k, []uint32{i + n})
		}
		must(t, err)
	}
	if maxNodes := before + 1000/7 + 20; btree.NodesInUse(m) > maxNodes {
		t.Errorf("%d nodes beside a snapshot, %d before: more than those that were changed", btree.NodesInUse(m), before)
	}
	at := uint32(0)
	for k, v := range s.All() {
		if k != at || v != at {
			t.Fatalf("pair %d of the snapshot is %d: %d", at, k, v)
		}
		at++
	}
	if at != n || s.Len() != n {
		t.Errorf("%d pairs in the snapshot", at)
	}
	must(t, s.Close())
	_, err = m.Put(t.Context(), keys[:1], keys[:1])
	must(t, err)
	if btree.NodesInUse(m) > before+2 {
		t.Errorf("%d nodes behind the snapshot, %d before", btree.NodesInUse(m), before)
	}
	must(t, m.Check(t.Context()))
}

// TestUnsortedBuilds builds maps from keys that ascend only up to some point. A load writes pairs
// to nodes until it meets a key that does not ascend.
func TestUnsortedBuilds(t *testing.T) {
	open := func() conformance.AnyOrderedMap[int32, uint32] {
		return conformance.Open(t, btree.New[int32, uint32], devicetest.Open(t), nil)
	}
	conformance.BuildUnsorted(t, open, 330, 11_263, 11_264, 11_265)
}
