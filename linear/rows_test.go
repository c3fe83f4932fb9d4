package linear_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// A table of fixed size must report which rows overflowed, so that the rest of a batch can run
// again.
func TestRowsWithoutRoom(t *testing.T) {
	devices := map[string]device.Device{"": devicetest.Open(t)}
	if !testing.Short() {
		devices["simulated"] = devicetest.OpenSim(t, nil)
	}
	for name, dev := range devices {
		opts := linear.Options{Capacity: 250, Fixed: true, MaxLoad: 1}
		t.Run("map"+name, func(t *testing.T) {
			conformance.RowsOfMap(t, dev, 600, conformance.MapOf(linear.New[uint64, uint64], &opts))
		})
		t.Run("set"+name, func(t *testing.T) {
			conformance.RowsOfSet(t, dev, 600, conformance.SetOf(linear.NewSet[uint32], &opts))
		})
		if name != "" {
			continue // other widths run the same code
		}
		t.Run("narrow map", func(t *testing.T) {
			conformance.RowsOfMap(t, dev, 600, conformance.MapOf(linear.New[uint32, uint32], &opts))
		})
	}
}
