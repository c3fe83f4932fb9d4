package horton_test

import (
	"iter"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
)

// full is a map of 14,000 keys at a load of 0.95, and the keys.
func full(t *testing.T, reclaim horton.Reclaim) (*horton.Map[uint32, uint32], []uint32) {
	const n = 14_000
	m := conformance.Open(t, horton.New[uint32, uint32], devicetest.Open(t), &horton.Options{
		Capacity: n, MaxLoad: .95, Fixed: true, Seed: 3, Reclaim: reclaim,
	})
	keys := conformance.Sequence[uint32](1, n)
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		t.Fatal(err)
	}
	return m, keys
}

// leave deletes all but the first n keys, and returns what is left in the table.
func leave(t *testing.T, m *horton.Map[uint32, uint32], keys []uint32, n int) horton.Stats {
	t.Helper()
	if _, err := m.Delete(t.Context(), keys[n:m.Len()], nil); err != nil {
		t.Fatal(err)
	}
	if err := m.CheckInvariants(); err != nil {
		t.Fatal(err)
	}
	conformance.WantPairs(t, m, keys[:n])
	return conformance.StatsOf(t, m)
}

// What deletes leave is reclaimed behind each batch, once it pays, or never.
func TestReclaim(t *testing.T) {
	for reclaim, want := range map[horton.Reclaim][3]bool{
		horton.Eager: {true, true, true}, horton.Lazy: {false, true, true}, horton.Never: {},
	} {
		m, keys := full(t, reclaim)
		before := conformance.StatsOf(t, m)
		for i, n := range []int{13_500, 9000, 0} {
			after := leave(t, m, keys, n)
			shorter := after.TypeB < before.TypeB && after.Entries < before.Entries
			if shorter != want[i] || !shorter && (after.TypeB != before.TypeB || after.Entries != before.Entries) {
				t.Errorf("%d, %d keys: %v, before: %v", reclaim, n, after, before)
			}
			if before = after; want[i] && n == 9000 && (after.TypeB > .065 || after.PerMiss > 1.01) {
				t.Errorf("%d: %v", reclaim, after)
			}
			if want[i] && n == 0 && (after.TypeB != 0 || after.Entries != 0) {
				t.Errorf("%d: %v", reclaim, after)
			}
		}
	}
}

// No key comes back while an iteration reads buckets; it does behind that.
func TestReclaimWaitsForIterations(t *testing.T) {
	for _, reclaim := range []horton.Reclaim{horton.Eager, horton.Lazy} {
		m, keys := full(t, reclaim)
		before := conformance.StatsOf(t, m)
		next, stop := iter.Pull2(m.All())
		seen := map[uint32]bool{}
		k, _, _ := next()
		seen[k] = true
		if s := leave(t, m, keys, 9000); s.TypeB != before.TypeB || s.Entries != before.Entries {
			t.Errorf("%d: %v, before: %v", reclaim, s, before)
		}
		for k, _, ok := next(); ok; k, _, ok = next() {
			if seen[k] {
				t.Fatalf("key %d comes twice", k)
			}
			seen[k] = true
		}
		stop()
		for _, k := range keys[:9000] {
			if !seen[k] {
				t.Fatalf("key %d is left out", k)
			}
		}
		if s := leave(t, m, keys, 8999); s.TypeB >= before.TypeB/2 {
			t.Errorf("%d: %v, before: %v", reclaim, s, before)
		}
	}
}

// No key moves to make room for others while an iteration reads buckets.
func TestKeysStayForIterations(t *testing.T) {
	const n, more = 12_000, 2_000
	m := conformance.Open(t, horton.New[uint32, uint32], devicetest.Open(t), &horton.Options{
		Capacity: n + more, MaxLoad: .95, Fixed: true, Seed: 3,
	})
	keys := conformance.Sequence[uint32](1, n+more)
	if _, err := m.Put(t.Context(), keys[:n], keys[:n]); err != nil {
		t.Fatal(err)
	}
	next, stop := iter.Pull2(m.All())
	defer stop()
	seen := map[uint32]bool{}
	for range n / 2 {
		k, _, _ := next()
		seen[k] = true
	}
	if got, err := m.Put(t.Context(), keys[n:], keys[n:]); got != more || err != nil {
		t.Fatal(got, err)
	}
	for k, _, ok := next(); ok; k, _, ok = next() {
		if seen[k] {
			t.Fatalf("key %d comes twice", k)
		}
		seen[k] = true
	}
	for _, k := range keys[:n] {
		if !seen[k] {
			t.Fatalf("key %d is left out", k)
		}
	}
	conformance.WantPairs(t, m, keys)
}
