package btree_test

import (
	"errors"
	"math"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// TestOptions checks that invalid options are refused, and that a Capacity beyond the memory is
// reported.
func TestOptions(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	for name, opts := range map[string]btree.Options{
		"Capacity -1": {Capacity: -1}, "Capacity too large": {Capacity: math.MaxInt}, "ResultLimit -1": {ResultLimit: -1},
		"Fill .4": {Fill: .4}, "Fill 1.1": {Fill: 1.1}, "Fill NaN": {Fill: math.NaN()}, "Versions 3": {Versions: btree.OutOfPlace + 1},
	} {
		if _, err := btree.New[uint64, uint64](dev, &opts); !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A tree of 2^31 nodes can have more pairs than nodes.
	if _, err := btree.New[uint64, uint64](dev, &btree.Options{Capacity: 1 << 34}); !errors.Is(err, device.ErrMemory) {
		t.Errorf("2^34 pairs of 16 bytes: %v", err)
	}
}
