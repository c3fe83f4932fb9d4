package horton_test

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
)

// TestConformance runs the suite of maps for each pair of widths, and for signed and floating-point
// types. For one pair, it runs the suite with buckets of every size and every Reclaim.
func TestConformance(t *testing.T) {
	dev := devicetest.Open(t)
	full := conformance.ScaleOf(dev).Part(3)
	part := full.Part(3)
	t.Run("uint32,uint32", func(t *testing.T) { suite[uint32, uint32](t, dev, full, nil) })
	t.Run("uint64,uint64", func(t *testing.T) { suite[uint64, uint64](t, dev, part, nil, conformance.HostCases...) })
	t.Run("set uint32", func(t *testing.T) { setSuite[uint32](t, dev, part, nil) })
	if !conformance.Raced { // other types run the same code
		t.Run("uint32,uint64", func(t *testing.T) { suite[uint32, uint64](t, dev, part, nil, conformance.HostCases...) })
		t.Run("uint64,uint32", func(t *testing.T) { suite[uint64, uint32](t, dev, part, nil, conformance.HostCases...) })
		t.Run("int32,float32", func(t *testing.T) { suite[int32, float32](t, dev, part, nil, conformance.HostCases...) })
		t.Run("int64,float64", func(t *testing.T) { suite[int64, float64](t, dev, part, nil, conformance.HostCases...) })
		t.Run("int,uint", func(t *testing.T) { suite[int, uint](t, dev, part, nil, conformance.HostCases...) })
		t.Run("set int64", func(t *testing.T) { setSuite[int64](t, dev, part, nil, conformance.HostCases...) })
	}
	for _, opts := range []horton.Options{
		{Slots: 1},
		{Slots: 2, Reclaim: horton.Eager},
		{Slots: 4, Capacity: 10, MaxLoad: .91},
		{Slots: 8, MaxLoad: .95, Reclaim: horton.Eager},
		{Slots: 16, Capacity: 10, MaxLoad: .96, Reclaim: horton.Never},
	} {
		t.Run(fmt.Sprintf("%d slots", opts.Slots), func(t *testing.T) {
			t.Run("uint32,uint32", func(t *testing.T) { suite[uint32, uint32](t, dev, part, &opts, conformance.HostCases...) })
			if conformance.Raced {
				return
			}
			t.Run("uint64,uint64", func(t *testing.T) { suite[uint64, uint64](t, dev, part, &opts, conformance.HostCases...) })
			t.Run("set uint32", func(t *testing.T) { setSuite[uint32](t, dev, part, &opts, conformance.HostCases...) })
		})
	}
}

func suite[K weft.Key, V weft.Value](t *testing.T, dev device.Device, size conformance.Scale, opts *horton.Options, skip ...string) {
	conformance.Map(t, dev, size, conformance.MapOf(horton.New[K, V], opts), skip...)
}

func setSuite[K weft.Key](t *testing.T, dev device.Device, size conformance.Scale, opts *horton.Options, skip ...string) {
	conformance.Set(t, dev, size, conformance.SetOf(horton.NewSet[K], opts), skip...)
}

// If all threads of a block change one key, the result is as if one thread had made the changes.
func TestHotKeys(t *testing.T) {
	conformance.HotKeys(t, conformance.MapOf(horton.New[uint32, uint32], nil), conformance.MapOf(horton.New[uint64, uint64], nil))
}
