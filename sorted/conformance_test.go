package sorted_test

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/sorted"
)

// TestConformance runs the suite for pairs of widths, signed keys and floating-point values.
func TestConformance(t *testing.T) {
	dev := devicetest.Open(t)
	full := conformance.ScaleOf(dev).Part(3)
	part := full.Part(3)
	t.Run("uint32,uint32", func(t *testing.T) { suite[uint32, uint32](t, dev, full) })
	if !conformance.Raced { // other types run the same code
		t.Run("int64,uint64", func(t *testing.T) { suite[int64, uint64](t, dev, part, conformance.HostCases...) })
		t.Run("int32,uint64", func(t *testing.T) { suite[int32, uint64](t, dev, part, conformance.HostCases...) })
		t.Run("uint64,float32", func(t *testing.T) { suite[uint64, float32](t, dev, part, conformance.HostCases...) })
	}
}

func suite[K weft.Key, V weft.Value](t *testing.T, dev device.Device, size conformance.Scale, without ...string) {
	conformance.OrderedMap(t, dev, size, conformance.OrderedMapOf(sorted.New[K, V], nil), without...)
}
