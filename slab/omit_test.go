package slab

import (
	"testing"

	"github.com/weftgo/weft/internal/dst"
)

// Each call by which the host orders streams, or waits for them, is needed:
// left out, programs go wrong.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	maps, multimaps := schedules[uint32, uint64](mode{arch: 90}), multiSchedules[uint64, uint64](mode{arch: 90})
	tight := schedules[uint32, uint32](mode{arch: 90, tight: true})
	maps.Shapes, multimaps.Shapes, tight.Shapes = dst.Overlapping(), dst.Overlapping(), dst.Overlapping()
	dst.Omit(t, ".", nil, maps.Try(), multimaps.Try(), tight.Try())
}
