package slab_test

import (
	"testing"

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
	if before, after := conformance.Toggle[uint32](t, dev, set); after != before {
		t.Errorf("%v; before: %v", after, before)
	}
}
