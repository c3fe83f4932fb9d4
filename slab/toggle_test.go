package slab_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

// A key of a set that goes and comes back in one mixed batch, over and over,
// takes no more slots, in a bucket or in that of keys that look like sentinels.
func TestMixedBatchesOfSetsTakeNoMoreRoom(t *testing.T) {
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); !ok {
		t.Skip("on a GPU the chain grows until the next flush")
	}
	set := conformance.Open(t, slab.NewSet[uint32], dev, &slab.Options{MaxTombstones: -1})
	keys := []uint32{7, ^uint32(0)}
	if n, err := set.Add(t.Context(), keys, nil); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	before, s := conformance.StatsOf(t, set), devicetest.NewStream(t, dev)
	on := devicetest.Upload(t, s, []uint32{7, 7, ^uint32(0), ^uint32(0)})
	kinds := devicetest.Upload(t, s, []weft.OpKind{weft.OpDelete, weft.OpPut, weft.OpDelete, weft.OpPut})
	for range 40 {
		if err := errors.Join(set.ApplyOn(s, kinds, on, device.Slice[bool]{}), set.Sync(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := set.Contains(t.Context(), keys, nil); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if after := conformance.StatsOf(t, set); after != before {
		t.Errorf("%v; before: %v", after, before)
	}
}
