package linear_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// FuzzMap runs batches read from bytes on maps of both schemes and two widths.
func FuzzMap(f *testing.F) {
	conformance.FuzzMaps(f, func(t *testing.T, dev device.Device, data []byte) {
		for _, scheme := range schemes {
			opts := &linear.Options{Tombstones: scheme, Seed: 1}
			conformance.Replay(t, conformance.Open(t, linear.New[uint32, uint32], dev, opts), data)
			conformance.Replay(t, conformance.Open(t, linear.New[uint64, uint64], dev, opts), data)
		}
	})
}
