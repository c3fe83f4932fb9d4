package linear_test

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// The suite of maps must pass for each pair of widths, and for signed and float types. The other
// deletion scheme does not depend on types, so it runs with one type per slot width.
func TestConformance(t *testing.T) {
	dev := devicetest.Open(t)
	full := conformance.ScaleOf(dev)
	half := full.Part(3)
	for name, opts := range map[string]*linear.Options{
		"keep":  nil,
		"reuse": {Tombstones: linear.Reuse, Capacity: 10, MaxLoad: .97},
	} {
		t.Run(name, func(t *testing.T) {
			size := full
			if opts != nil {
				size = half
			}
			t.Run("uint32,uint32", func(t *testing.T) { suite[uint32, uint32](t, dev, size, opts) })
			t.Run("uint64,uint64", func(t *testing.T) { suite[uint64, uint64](t, dev, half, opts, conformance.HostCases...) })
			t.Run("set uint32", func(t *testing.T) { setSuite[uint32](t, dev, half, opts) })
			if opts != nil || conformance.Raced {
				return // other types run the same code
			}
			t.Run("uint32,uint64", func(t *testing.T) { suite[uint32, uint64](t, dev, half, opts, conformance.HostCases...) })
			t.Run("uint64,uint32", func(t *testing.T) { suite[uint64, uint32](t, dev, half, opts, conformance.HostCases...) })
			t.Run("int32,float32", func(t *testing.T) { suite[int32, float32](t, dev, half, opts, conformance.HostCases...) })
			t.Run("int64,float64", func(t *testing.T) { suite[int64, float64](t, dev, half, opts, conformance.HostCases...) })
			t.Run("int,uint", func(t *testing.T) { suite[int, uint](t, dev, half, opts, conformance.HostCases...) })
			t.Run("set int64", func(t *testing.T) { setSuite[int64](t, dev, half, opts, conformance.HostCases...) })
		})
	}
}

func suite[K weft.Key, V weft.Value](t *testing.T, dev device.Device, size conformance.Scale, opts *linear.Options, skip ...string) {
	conformance.Map(t, dev, size, conformance.MapOf(linear.New[K, V], opts), skip...)
}

func setSuite[K weft.Key](t *testing.T, dev device.Device, size conformance.Scale, opts *linear.Options, skip ...string) {
	conformance.Set(t, dev, size, conformance.SetOf(linear.NewSet[K], opts), skip...)
}

// The threads of a block that change the same key must combine their operations.
func TestHotKeys(t *testing.T) {
	conformance.HotKeys(t, conformance.MapOf(linear.New[uint32, uint32], nil), conformance.MapOf(linear.New[uint64, uint64], nil))
}
