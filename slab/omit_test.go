package slab

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/dst"
)

// TestOmissionsAreNoticed checks that each call of the engine by which the host orders streams, or
// waits for them, is needed: without it, programs fail. The calls of this package are all made for
// graphs: TestGraphOmissionsAreNoticed judges them.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	multimaps, lists := multiSchedules[uint64, uint64](mode{arch: 90}), schedules[uint32, uint64](mode{arch: 90})
	tight := schedules[uint32, uint32](mode{arch: 90, tight: true})
	lists.New = func(dev device.Device, s dst.Shape) (dst.Subject[uint32, uint64], error) {
		m, err := New[uint32, uint64](dev, &Options{Capacity: max(s.Capacity, 100), Fixed: true, Buckets: 1, Seed: 1})
		if err != nil {
			return nil, err
		}
		return scheduled[uint32, uint64]{dst.Map(m), &m.table}, nil
	}
	multimaps.Shapes, tight.Shapes, lists.Shapes = dst.Overlapping(), dst.Overlapping(), dst.Overlapping()
	lists.Shapes[2].Capacity = 100
	lists.Shapes = lists.Shapes[2:]
	// linear's programs reach the calls of the engine, too, and judge all but those for growth
	// during a batch. Values of variable number come after their counts, which have been waited
	// for.
	judged := dst.JudgedElsewhere(t, "../internal/gpu", "linear's programs", func(c devicetest.Call) bool { return c.Func == "(*Engine).submitPart" })
	dst.Omit(t, "../internal/gpu", judged, tight.Try(), multimaps.Try(), lists.Try())
}
