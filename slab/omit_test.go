package slab

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/dst"
)

// TestOmissionsAreNoticed checks that test programs fail without any one of the calls by which the
// engine orders streams or waits for them. The calls of this package serve graphs;
// TestGraphOmissionsAreNoticed checks them.
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
	// The programs of package linear also reach the calls of the engine, and check all except those
	// for growth during a batch. Values of variable number follow their counts, for which the host
	// has waited.
	judged := dst.JudgedElsewhere(t, "../internal/gpu", "linear's programs", func(c devicetest.Call) bool { return c.Func == "(*Engine).submitPart" })
	dst.Omit(t, "../internal/gpu", judged, tight.Try(), multimaps.Try(), lists.Try())
}
