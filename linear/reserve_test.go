package linear_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/linear"
)

// After Reserve(n), insertions of n new keys must not grow the table.
func TestReserve(t *testing.T) {
	m, err := linear.New[uint64, uint32](devicetest.Open(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	keys, vals := make([]uint64, 1000), make([]uint32, 1000)
	for i := range keys {
		keys[i] = uint64(i) << 7
	}
	size := func() int {
		n, err := m.Size(t.Context())
		if s, serr := m.Stats(t.Context()); err != nil || serr != nil || s.Bytes != n {
			t.Fatalf("%d bytes, %v, and by its statistics %d, %v", n, err, s.Bytes, serr)
		}
		return n
	}
	small := size()
	for _, step := range []struct{ reserve, lo, hi int }{{10, 0, 10}, {0, 10, 10}, {700, 10, 710}, {290, 710, 1000}} {
		if err := m.Reserve(t.Context(), step.reserve); err != nil {
			t.Fatal(err)
		}
		before := size()
		for i := step.lo; i < step.hi; i += 10 {
			if _, err := m.Put(t.Context(), keys[i:i+10], vals[i:i+10]); err != nil {
				t.Fatal(err)
			}
		}
		if size() != before {
			t.Fatalf("%+v: it grew from %d bytes to %d", step, before, size())
		}
	}
	if size() == small || m.Len() != 1000 {
		t.Errorf("%d bytes and %d keys", size(), m.Len())
	}
	if err := m.Reserve(t.Context(), -1); !errors.Is(err, device.ErrInvalid) {
		t.Error(err)
	}
	if err := m.Reserve(t.Context(), 1<<50); !errors.Is(err, device.ErrMemory) && err == nil {
		t.Error("a petabyte has room")
	}
}
