package conformance

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/gpu/staging"
)

// LargeOrderedMap puts n pairs into an empty ordered map, so that its index has several levels. It
// deletes some of the smaller half of the keys, so that ranks differ from positions, and compacts.
// Counts, selections and listings must be correct, also for ranges that are returned in many
// pieces.
func LargeOrderedMap[K, V ~uint32 | ~uint64](t testing.TB, dev device.Device, m *weft.OrderedMap[K, V], n int) {
	t.Helper()
	defer staging.Configure(dev, staging.Settings{PieceBytes: 4 << 10})()
	keys, vals := make([]K, n), make([]V, n)
	for i := range keys {
		keys[i], vals[i] = K(3*i+1), V(i)^0x55
	}
	putCounted(t, dev, m, keys, vals)
	old := append(slices.Clone(keys[:40]), 0, K(3*n+1)) // present keys and two absent keys
	got, loaded := make([]V, len(old)), make([]bool, len(old))
	for i := range got {
		got[i] = 7
	}
	added, err := m.GetOrPut(ctx(), old, got, loaded)
	WantCount(t, "GetOrPut", added, 2, err)
	if !slices.Equal(got[:40], vals[:40]) || got[40] != 7 || got[41] != 7 || slices.Contains(loaded[:40], false) || loaded[40] || loaded[41] {
		t.Fatalf("GetOrPut finds %v, %v, want %v, and twice 7 that is new", got, loaded, vals[:40])
	}
	var deleted []K
	left, leftVals := []K{0}, []V{7}
	for i, k := range keys {
		if i < n/2 && i%3 != 0 {
			deleted = append(deleted, k)
		} else {
			left, leftVals = append(left, k), append(leftVals, vals[i])
		}
	}
	left, leftVals = append(left, K(3*n+1)), append(leftVals, 7)
	nDeleted, err := m.Delete(ctx(), deleted, nil)
	WantCount(t, "Delete", nDeleted, len(deleted), err)
	checkOrdered(t, m, left, leftVals)
	must(t, m.Compact(ctx()))
	checkOrdered(t, m, left, leftVals)
}

// putCounted puts pairs from device memory, twice. The device must count each new key once.
func putCounted[K, V ~uint32 | ~uint64](t testing.TB, dev device.Device, m *weft.OrderedMap[K, V], keys []K, vals []V) {
	t.Helper()
	s := devicetest.NewStream(t, dev)
	k, v, inserted := devicetest.Upload(t, s, keys), devicetest.Upload(t, s, vals), devicetest.Upload(t, s, make([]uint64, 1))
	for range 2 {
		must(t, m.PutOn(s, k, v, inserted))
	}
	var count [1]uint64
	must(t, inserted.CopyTo(ctx(), s, count[:]))
	must(t, m.Sync(ctx()))
	if count[0] != uint64(len(keys)) {
		t.Fatalf("PutOn counts %d keys that are new, of %d", count[0], len(keys))
	}
}

func checkOrdered[K, V ~uint32 | ~uint64](t testing.TB, m *weft.OrderedMap[K, V], keys []K, vals []V) {
	t.Helper()
	must(t, m.Check(ctx()))
	at := 0
	for k, v := range m.All() {
		if at >= len(keys) || k != keys[at] || v != vals[at] {
			t.Fatalf("pair %d is %v: %v", at, k, v)
		}
		at++
	}
	lo, hi := keys[:1], keys[len(keys)-1:]
	var up, down weft.PairRows[K, V]
	must(t, m.Range(ctx(), lo, hi, 0, &up))
	must(t, m.RangeBackward(ctx(), lo, hi, 0, &down))
	slices.Reverse(down.Keys)
	slices.Reverse(down.Vals)
	for desc, rows := range map[string]*weft.PairRows[K, V]{"Range": &up, "RangeBackward": &down} {
		if at != len(keys) || !slices.Equal(rows.Keys, keys) || !slices.Equal(rows.Vals, vals) {
			t.Fatalf("All has %d pairs, %s %d, want %d, or others", at, desc, len(rows.Keys), len(keys))
		}
	}
	n := len(keys)
	ranks, asked, got, found, was := make([]uint64, n), make([]K, n), make([]V, n), make([]bool, n), make([]uint64, n)
	for i := range ranks {
		ranks[i] = uint64(i)
	}
	hits, err := m.Select(ctx(), ranks, asked, got, found)
	WantCount(t, "Select", hits, n, err)
	must(t, m.Rank(ctx(), keys, was))
	if !slices.Equal(asked, keys) || !slices.Equal(got, vals) || !slices.Equal(was, ranks) {
		t.Fatal("Select or Rank has others")
	}
}

// LongLivedSnapshot keeps a snapshot open during ten thousand batches, or two hundred on a
// simulated GPU. The snapshot and the map must be read correctly. times is the factor by which the
// device's memory may grow. After the snapshot is closed and the pairs are restored, a CPU must use
// no more memory than before.
func LongLivedSnapshot(t testing.TB, dev device.Device, m *weft.OrderedMap[uint32, uint32], times int) {
	t.Helper()
	n, batches := uint32(2000), 10_000
	if dev.Properties().Kind == device.Sim {
		batches /= 50
	}
	keys := Sequence[uint32](0, int(n))
	_, err := m.Put(t.Context(), keys, keys)
	must(t, err)
	before := devicetest.Live(dev).Bytes
	s, err := m.Snapshot(t.Context())
	must(t, err)
	want := maps.Collect(m.All())
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range uint32(batches) {
		k := rng.Uint32N(n)
		if i%2 == 0 {
			_, err = m.Put(t.Context(), []uint32{k}, []uint32{i})
			want[k] = i
		} else {
			_, err = m.Delete(t.Context(), []uint32{k}, nil)
			delete(want, k)
		}
		must(t, err)
	}
	if now := devicetest.Live(dev).Bytes; now > times*before {
		t.Errorf("%d bytes after %d batches, %d before", now, batches, before)
	}
	left := slices.Sorted(maps.Keys(want))
	vals := make([]uint32, len(left))
	for i, k := range left {
		vals[i] = want[k]
	}
	checkOrdered(t, m, left, vals)
	next := uint32(0)
	for k, v := range s.All() {
		if k != next || v != k {
			t.Fatalf("the snapshot has %d: %d after %d", k, v, next)
		}
		next++
	}
	if next != n {
		t.Errorf("the snapshot has %d pairs, want %d", next, n)
	}
	must(t, s.Close())
	_, err = m.Put(t.Context(), keys, keys)
	must(t, err)
	must(t, m.Compact(t.Context()))
	// GPUs keep memory that batches share.
	if now := devicetest.Live(dev).Bytes; dev.Properties().Kind == device.CPU && now > before {
		t.Errorf("%d bytes after the snapshot, %d before", now, before)
	}
}
