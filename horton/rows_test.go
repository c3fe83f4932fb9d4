package horton_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
)

// A fixed table reports which rows overflowed, and the other rows of a batch can run again.
func TestRowsWithoutRoom(t *testing.T) {
	devices := map[string]device.Device{"": devicetest.Open(t)}
	if !testing.Short() {
		devices["simulated"] = devicetest.OpenSim(t, nil)
	}
	for name, dev := range devices {
		opts := horton.Options{Capacity: 250, Fixed: true}
		t.Run("map"+name, func(t *testing.T) {
			conformance.RowsOfMap(t, dev, 350, conformance.MapOf(horton.New[uint64, uint64], &opts))
		})
		t.Run("set"+name, func(t *testing.T) {
			conformance.RowsOfSet(t, dev, 350, conformance.SetOf(horton.NewSet[uint32], &opts))
		})
		if name != "" {
			continue // other widths run the same code
		}
		t.Run("narrow map", func(t *testing.T) {
			conformance.RowsOfMap(t, dev, 350, conformance.MapOf(horton.New[uint32, uint32], &opts))
		})
	}
}
