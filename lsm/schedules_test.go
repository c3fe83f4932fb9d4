package lsm_test

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/lsm"
)

// schedules returns programs on maps with few entries in the newest level, with ranges, counts and
// snapshots alongside changes.
func schedules[K weft.Key, V weft.Value]() dst.Config[K, V] {
	cfg := dst.Maps(func(dev device.Device, _ dst.Shape) (*lsm.Map[K, V], error) {
		return lsm.New[K, V](dev, &lsm.Options{Base: 16})
	}, impossible)
	return dst.AtomicBatches(cfg)
}

// impossible reports whether no map can have the statistics s. They include memory that an open
// snapshot holds.
func impossible(s lsm.Stats) bool {
	return s.Entries < s.Len || s.Bytes < s.Entries || s.Held < 0 || len(s.Levels) > s.Entries+1
}

// TestSchedules checks that, under any schedule, batches have the same results as if they ran one
// after the other. Every lookup, range and snapshot must see a state between two batches.
func TestSchedules(t *testing.T) {
	t.Run("uint32,uint64", func(t *testing.T) { dst.Run(t, schedules[uint32, uint64]().WithSeeds(5)) })
	t.Run("uint64,uint32", func(t *testing.T) { dst.Run(t, schedules[uint64, uint32]().WithSeeds(2)) })
}
