package horton_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
)

// FuzzMap reads batches from bytes and runs them on maps with buckets of several sizes, up to the
// maximum load.
func FuzzMap(f *testing.F) {
	conformance.FuzzMaps(f, func(t *testing.T, dev device.Device, data []byte) {
		for _, opts := range []horton.Options{
			{Slots: 1}, {Slots: 2, MaxLoad: 1, Reclaim: horton.Eager}, {Slots: 4, MaxLoad: 1, Reclaim: horton.Never}, {},
		} {
			opts.Seed = 1
			conformance.Replay(t, conformance.Open(t, horton.New[uint32, uint32], dev, &opts), data)
			conformance.Replay(t, conformance.Open(t, horton.New[uint64, uint64], dev, &opts), data)
		}
	})
}
