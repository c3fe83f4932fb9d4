package linear

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// A growing set must take all keys of a mixed batch, although they crowd beyond the longest path. A
// dead slot elsewhere makes the set drop dead slots first.
func TestCrowdedSetWithDeadSlotGrows(t *testing.T) {
	conformance.SkipRaced(t, "a crowd takes time in the square of a path")
	dev := devicetest.OpenCPU(t, 2)
	const seed, lines = 7, 1 << 13
	s, err := NewSet[uint32](dev, &Options{Seed: seed, Capacity: 209_000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g := geometry{seed, lines}
	var keys []uint32
	other := uint32(0)
	for k := uint32(1); len(keys) < 133_000; k++ {
		if home(g, k)/lineSectors < lines/2 {
			keys = append(keys, k)
		} else {
			other = k
		}
	}
	if _, err := s.Add(t.Context(), []uint32{other}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), []uint32{other}, nil); err != nil {
		t.Fatal(err)
	}
	before := statistics(t, &s.table)
	st := devicetest.NewStream(t, dev)
	kinds := make([]weft.OpKind, len(keys))
	for i := range kinds {
		kinds[i] = weft.OpPutNew
	}
	if err := s.ApplyOn(st, devicetest.Upload(t, st, kinds), devicetest.Upload(t, st, keys), device.Slice[bool]{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(t.Context()); err != nil || s.Len() != len(keys) {
		t.Errorf("%d of %d keys: %v", s.Len(), len(keys), err)
	}
	if after := statistics(t, &s.table); after.Slots <= before.Slots {
		t.Errorf("it has not grown: %v", after)
	}
}
