package linear_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/linear"
)

// A key of a set that goes and comes back in one mixed batch, over and over,
// takes no more room: neither one of the table, nor one that looks like a
// sentinel, whose line is the smallest there is.
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
	set, err := linear.NewSet[K](dev, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	keys := []K{7, ^K(0)}
	if n, err := set.Add(t.Context(), keys, nil); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	before, err := set.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := devicetest.NewStream(t, dev)
	on := devicetest.Upload(t, s, []K{7, 7, ^K(0), ^K(0)})
	kinds := devicetest.Upload(t, s, []weft.OpKind{weft.OpDelete, weft.OpPut, weft.OpDelete, weft.OpPut})
	for i := range 40 {
		if err := errors.Join(set.ApplyOn(s, kinds, on, device.Slice[bool]{}), set.Sync(t.Context())); err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
	}
	if hits, err := set.Contains(t.Context(), keys, nil); hits != 2 || set.Len() != 2 || err != nil {
		t.Errorf("%d of 2 keys are there, Len is %d: %v", hits, set.Len(), err)
	}
	after, err := set.Stats(t.Context())
	if _, host := dev.(device.Host); err != nil || host && after != before {
		t.Errorf("%v; before: %v; %v", after, before, err)
	}
	// On a GPU they take other slots, and dead ones go with a rehash.
	if after.Slots > 4*before.Slots || opts != nil && after.Slots != before.Slots {
		t.Errorf("%v; before: %v", after, before)
	}
	if err := set.CheckInvariants(); err != nil {
		t.Error(err)
	}
}
