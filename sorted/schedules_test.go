package sorted_test

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/sorted"
)

// schedules returns programs on maps, with ranges, counts and snapshots alongside changes.
func schedules[K weft.Key, V weft.Value]() dst.Config[K, V] {
	cfg := dst.Maps(func(dev device.Device, _ dst.Shape) (*sorted.Map[K, V], error) { return sorted.New[K, V](dev, nil) }, impossible)
	return dst.AtomicBatches(cfg)
}

// impossible reports whether no map can have the statistics s.
func impossible(s sorted.Stats) bool { return s.Bytes < s.Len || s.Held < 0 }

// TestSchedules checks that, under any schedule, batches have the same results as if they ran one
// after the other. Every lookup, range and snapshot must see a state between two batches.
func TestSchedules(t *testing.T) {
	t.Run("uint32,uint32", func(t *testing.T) { dst.Run(t, schedules[uint32, uint32]().WithSeeds(6)) })
	t.Run("uint64,uint64", func(t *testing.T) { dst.Run(t, schedules[uint64, uint64]().WithSeeds(3)) })
}
