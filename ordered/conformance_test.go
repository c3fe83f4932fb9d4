package ordered_test

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/ordered"
)

// TestConformance runs the suite of ordered maps for several pairs of widths, signed and
// floating-point types, and full leaves. It also runs changes in pieces and chunks of a few
// operations.
func TestConformance(t *testing.T) {
	dev := devicetest.Open(t)
	size := conformance.ScaleOf(dev).Part(8)
	full := &ordered.Options{Fill: 1, Capacity: 1000}
	t.Run("uint32,uint32", func(t *testing.T) { suite[uint32, uint32](t, dev, size, nil) })
	t.Run("int64,float64", func(t *testing.T) { suite[int64, float64](t, dev, size, full, conformance.HostCases...) })
	if conformance.Raced {
		return // other types run the same code
	}
	t.Run("int32,uint64", func(t *testing.T) { suite[int32, uint64](t, dev, size, full, conformance.HostCases...) })
	t.Run("int,uint32", func(t *testing.T) { suite[int, uint32](t, dev, size, nil, conformance.HostCases...) })
	t.Run("tiny pieces", func(t *testing.T) {
		defer ordered.ShrinkPieces(200, 4, 16)()
		suite[uint64, float32](t, dev, size.Part(3), nil, conformance.HostCases...)
	})
}

func suite[K weft.Key, V weft.Value](t *testing.T, dev device.Device, size conformance.Scale, opts *ordered.Options, without ...string) {
	conformance.OrderedMap(t, dev, size, conformance.OrderedMapOf(ordered.New[K, V], opts), without...)
}
