package slab

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/dst"
)

// TestOmissionsAreNoticed checks that each call by which the host orders streams, or waits for
// them, is needed: without it, programs fail.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	pairs, multimaps := schedules[uint32, uint64](mode{arch: 90}), multiSchedules[uint64, uint64](mode{arch: 90})
	tight, lists := schedules[uint32, uint32](mode{arch: 90, tight: true}), pairs
	lists.New = func(dev device.Device, s dst.Shape) (dst.Subject[uint32, uint64], error) {
		m, err := New[uint32, uint64](dev, &Options{Capacity: max(s.Capacity, 100), Fixed: true, Buckets: 1, Seed: 1})
		if err != nil {
			return nil, err
		}
		return scheduled[uint32, uint64]{dst.Map(m), &m.table}, nil
	}
	pairs.Shapes, multimaps.Shapes, tight.Shapes, lists.Shapes = dst.Overlapping(), dst.Overlapping(), dst.Overlapping(), dst.Overlapping()
	lists.Shapes[2].Capacity = 100
	lists.Shapes = lists.Shapes[2:]
	closed := dst.ClosedStreamTry(func(dev device.Device) (*MultiMap[uint32, uint32], error) {
		return NewMultiMap[uint32, uint32](dev, nil)
	}, func(m *MultiMap[uint32, uint32], s *device.Stream, keys device.Slice[uint32]) map[string]error {
		return map[string]error{
			"PutOn": m.PutOn(s, keys, keys), "GetOn": m.GetOn(s, keys, keys, device.Slice[bool]{}), "CountOn": m.CountOn(s, keys, keys),
		}
	})
	byGraphs := dst.JudgedElsewhere(t, ".", "programs of graphs", func(c devicetest.Call) bool { return !ofGraph(c) })
	dst.Omit(t, ".", byGraphs, closed, pairs.Try(), multimaps.Try(), lists.Try(), tight.Try())
	// linear's programs reach the calls of the engine, too, and judge all but those for growth
	// during a batch. Values of variable number come after their counts, which have been waited
	// for.
	judged := dst.JudgedElsewhere(t, "../internal/gpu", "linear's programs", func(c devicetest.Call) bool { return c.Func == "(*Engine).submitPart" })
	dst.Omit(t, "../internal/gpu", judged, tight.Try(), multimaps.Try(), lists.Try())
}
