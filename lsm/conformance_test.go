package lsm_test

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/lsm"
)

// TestConformance runs the suite for pairs of widths, signed keys and floating-point values, with
// many levels and with few.
func TestConformance(t *testing.T) {
	dev := devicetest.Open(t)
	full := conformance.ScaleOf(dev).Part(8)
	part := full.Part(3)
	few, many := &lsm.Options{}, &lsm.Options{Base: 16}
	t.Run("uint32,uint32", func(t *testing.T) { suite[uint32, uint32](t, dev, full, many) })
	if !conformance.Raced { // other types run the same code
		t.Run("int64,uint64", func(t *testing.T) { suite[int64, uint64](t, dev, part, few, conformance.HostCases...) })
		t.Run("int32,uint64", func(t *testing.T) { suite[int32, uint64](t, dev, part, many, conformance.HostCases...) })
		t.Run("uint64,float32", func(t *testing.T) { suite[uint64, float32](t, dev, part, many, conformance.HostCases...) })
	}
}

func suite[K weft.Key, V weft.Value](t *testing.T, dev device.Device, size conformance.Scale, opts *lsm.Options, without ...string) {
	conformance.OrderedMap(t, dev, size, conformance.OrderedMapOf(lsm.New[K, V], opts), without...)
}
