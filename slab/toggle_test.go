package slab_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

// TestMixedBatchesOfSetsTakeNoMoreRoom repeatedly deletes and inserts a key of a set in one mixed
// batch. It must not take more slots, in an ordinary bucket or in the extra bucket.
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
