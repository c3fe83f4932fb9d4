package slab_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

// TestRowsWithoutRoom checks that a fixed table reports the rows that overflowed, and that the rest
// of a batch can be run again. The batches are large because a pool has at least one memory block.
func TestRowsWithoutRoom(t *testing.T) {
	dev := devicetest.Open(t)
	if _, host := dev.(device.Host); !host {
		t.Skip("a chain of a thousand slabs")
	}
	opts := slab.Options{Capacity: 64, Buckets: 16, Fixed: true}
	t.Run("map", func(t *testing.T) {
		conformance.RowsOfMap(t, dev, 18_000, conformance.MapOf(slab.New[uint64, uint64], &opts))
	})
	t.Run("set", func(t *testing.T) {
		conformance.RowsOfSet(t, dev, 36_000, conformance.SetOf(slab.NewSet[uint64], &opts))
	})
	t.Run("multimap", func(t *testing.T) {
		conformance.RowsOfMultiMap(t, dev, 18_000, conformance.MultiMapOf(slab.NewMultiMap[uint64, uint64], &opts))
	})
}
