package linear_test

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// If mixed batches delete and insert the same key of a set repeatedly, the set must not use more
// and more slots. That must hold for ordinary keys and for keys that look like sentinels, even in
// the smallest line.
func TestMixedBatchesOfSetsTakeNoMoreRoom(t *testing.T) {
	t.Run("device", func(t *testing.T) { toggles(t, devicetest.Open(t)) })
	t.Run("simulated", func(t *testing.T) { toggles(t, devicetest.OpenSim(t, nil)) })
}

func toggles(t *testing.T, dev device.Device) {
	for _, opts := range []*linear.Options{nil, {Capacity: 100, Fixed: true}} {
		t.Run(fmt.Sprintf("fixed %v", opts != nil), func(t *testing.T) {
			t.Run("uint32", func(t *testing.T) { toggle[uint32](t, dev, opts) })
			t.Run("uint64", func(t *testing.T) { toggle[uint64](t, dev, opts) })
		})
	}
}

func toggle[K uint32 | uint64](t *testing.T, dev device.Device, opts *linear.Options) {
	before, after := conformance.Toggle[K](t, dev, conformance.Open(t, linear.NewSet[K], dev, opts))
	if _, host := dev.(device.Host); host && after != before {
		t.Errorf("%v; before: %v", after, before)
	}
	// On a GPU insertions use other slots, and a rehash drops dead slots.
	if after.Slots > 4*before.Slots || opts != nil && after.Slots != before.Slots {
		t.Errorf("%v; before: %v", after, before)
	}
}
