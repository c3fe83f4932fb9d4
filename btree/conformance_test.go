package btree_test

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// TestConformance runs the suite for each pair of widths, signed keys and floating-point values.
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

// TestConformanceVersions runs the whole suite for maps with InPlace and with OutOfPlace versions.
func TestConformanceVersions(t *testing.T) {
	dev := devicetest.Open(t)
	full := conformance.ScaleOf(dev).Part(3)
	part := full.Part(3)
	for _, v := range []btree.Versions{btree.InPlace, btree.OutOfPlace} {
		t.Run(fmt.Sprintf("%v,uint32,uint32", v), func(t *testing.T) { conformance.OrderedMap(t, dev, full, versioned[uint32, uint32](v, false)) })
		if !conformance.Raced { // other types run the same code
			t.Run(fmt.Sprintf("%v,int64,uint64", v), func(t *testing.T) {
				conformance.OrderedMap(t, dev, part, versioned[int64, uint64](v, false), conformance.HostCases...)
			})
		}
	}
}

func suite[K weft.Key, V weft.Value](t *testing.T, dev device.Device, size conformance.Scale, without ...string) {
	conformance.OrderedMap(t, dev, size, conformance.OrderedMapOf(btree.New[K, V], nil), without...)
}
