package btree

import (
	"errors"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// TestPastComesWithSnapshots checks when a tree with InPlace has memory for versions: while a
// snapshot is held, and always after the first kernel of a user.
func TestPastComesWithSnapshots(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, nil)
	m, err := New[uint32, uint32](dev, &Options{Versions: InPlace})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	e := m.policy.engine.(*gpuEngine)
	mapped := func() int {
		if e.current().past == nil {
			return 0
		}
		return e.current().past.words.Mapped()
	}
	put := func(n int, val uint32) {
		t.Helper()
		keys, vals := conformance.Sequence[uint32](0, n), make([]uint32, n)
		for i := range vals {
			keys[i], vals[i] = keys[i]*2654435761, val
		}
		if _, err := m.Put(t.Context(), keys, vals); err != nil {
			t.Fatal(err)
		}
	}
	put(60, 0)
	if mapped() != 0 {
		t.Errorf("%d bytes of versions before there is a snapshot", mapped())
	}
	for round := range 3 {
		n, dormantBytes := 200*(round+1), mapped()
		put(n, 1)
		if mapped() != dormantBytes {
			t.Errorf("%d bytes of versions between snapshots, from %d", mapped(), dormantBytes)
		}
		s, err := m.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if mapped() < e.current().capacity()*pastBytes {
			t.Errorf("%d bytes of versions of %d nodes", mapped(), e.current().capacity())
		}
		put(n+100, 2)
		if s.Len() != n {
			t.Errorf("a snapshot has %d keys of %d", s.Len(), n)
		}
		for k, v := range s.All() {
			if v != 1 {
				t.Fatalf("a snapshot has %d of key %d, which came later", v, k)
			}
		}
		if err := errors.Join(s.Close(), m.Check(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Clear(t.Context()); err != nil || mapped() != 0 {
		t.Errorf("%d bytes of versions of a tree that is empty: %v", mapped(), err)
	}
	st := devicetest.NewStream(t, dev)
	for range 2 {
		if err := m.View(t.Context(), st, func(r Ref) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if mapped() < e.current().capacity()*pastBytes {
			t.Errorf("%d bytes of versions of %d nodes that kernels see", mapped(), e.current().capacity())
		}
		if err := m.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
