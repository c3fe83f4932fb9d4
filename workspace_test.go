package weft_test

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/linear"
)

// With almost no workspace, batches may be slower but must have the same results.
func TestSetWorkspaceLimit(t *testing.T) {
	s, err := sim.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dev := devicetest.Checked(t, s)
	size := map[int]int{}
	for _, limit := range []int{0, 1} {
		weft.SetWorkspaceLimit(dev, limit)
		m, err := linear.New[uint32, uint32](dev, &linear.Options{Capacity: 3000, Fixed: true, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		keys, vals := make([]uint32, 3000), make([]uint32, 3000)
		for i := range keys {
			keys[i] = uint32(i)
		}
		if n, err := m.Put(t.Context(), keys, keys); n != len(keys) || err != nil {
			t.Fatal(n, err)
		}
		if n, err := m.Get(t.Context(), keys, vals, nil); n != len(keys) || err != nil || vals[2999] != 2999 {
			t.Fatal(n, vals[2999], err)
		}
		size[limit] = devicetest.Live(dev).Bytes
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	weft.SetWorkspaceLimit(dev, 0)
	if size[1] >= size[0]/2 {
		t.Errorf("%d bytes are taken with a limit, %d without", size[1], size[0])
	}
}
