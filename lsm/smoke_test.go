package lsm_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/lsm"
)

// TestSmoke runs every operation once for every pair of widths.
func TestSmoke(t *testing.T) { smokeAll(t, devicetest.Open(t)) }

func smokeAll(t *testing.T, dev device.Device) {
	t.Run("32_32", func(t *testing.T) { smoke[uint32, uint32](t, dev) })
	t.Run("32_64", func(t *testing.T) { smoke[uint32, uint64](t, dev) })
	t.Run("64_32", func(t *testing.T) { smoke[uint64, uint32](t, dev) })
	t.Run("64_64", func(t *testing.T) { smoke[uint64, uint64](t, dev) })
}

func smoke[K, V uint32 | uint64](t testing.TB, dev device.Device) {
	conformance.SmokeOrderedMap(t, dev, open[K, V](t, dev, &lsm.Options{Base: 64}))
}

// TestSmokeLaunchesEveryKernel checks that TestSmoke covers every kernel.
func TestSmokeLaunchesEveryKernel(t *testing.T) {
	conformance.LaunchesAll(t, smokeAll, lsm.Images)
}
