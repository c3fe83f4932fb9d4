package lsm_test

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/lsm"
)

// schedules are programs on maps whose newest level has a few entries, with ranges, counts and
// snapshots beside changes.
func schedules[K weft.Key, V weft.Value]() dst.Config[K, V] {
	cfg := dst.Maps(func(dev device.Device, _ dst.Shape) (*lsm.Map[K, V], error) {
		return lsm.New[K, V](dev, &lsm.Options{Base: 16})
	}, impossible)
	return dst.ByBatch(cfg)
}

// impossible are statistics that no map has: those of a snapshot that is held count what it keeps.
func impossible(s lsm.Stats) bool {
	return s.Entries < s.Len || s.Bytes < s.Entries || s.Held < 0 || len(s.Levels) > s.Entries+1
}

// Whatever the schedule, batches have the outcome of one behind the other, and every lookup, range and
// snapshot sees what there was between two of them.
func TestSchedules(t *testing.T) {
	t.Run("uint32,uint64", func(t *testing.T) { dst.Run(t, schedules[uint32, uint64]().Tries(5)) })
	t.Run("uint64,uint32", func(t *testing.T) { dst.Run(t, schedules[uint64, uint32]().Tries(2)) })
}
