package sim_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

func TestConformance(t *testing.T) {
	for _, s := range []sim.Scheduler{sim.Fast, sim.Random, sim.PCT} {
		t.Run(string(s), func(t *testing.T) {
			devicetest.Conformance(t, func(t testing.TB) device.Device {
				d, err := sim.Open(&sim.Options{Scheduler: s, Memory: 4 << 30})
				if err != nil {
					t.Fatal(err)
				}
				return d
			})
		})
	}
}
