package linear_test

import (
	"testing"

	"github.com/weftgo/weft/internal/dst"
)

// Each call by which the host orders streams, or waits for them, is needed:
// left out, programs go wrong.
func TestNothing(t *testing.T) { o := schedules[uint32, uint64](mode{arch: 90}); o.Shapes = dst.Overlapping(); o.Whole=true; f,tr:= dst.Find(o); t.Log(tr); if f!=nil {t.Fatal(f.Seed, f.Err)}; o2 := schedules[uint64, uint64](mode{arch: 90, unordered: true});o2.Shapes = dst.Overlapping(); o2.Whole=true; f,tr= dst.Find(o2); t.Log(tr); if f!=nil {t.Fatal(f.Seed, f.Err)} }
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	ordered, unordered := schedules[uint32, uint64](mode{arch: 90}), schedules[uint64, uint64](mode{arch: 90, unordered: true})
	ordered.Shapes, unordered.Shapes = dst.Overlapping(), dst.Overlapping()
	dst.Omit(t, ".", nil, ordered.Try(), unordered.Try())
	dst.Omit(t, "../internal/gpubatch", nil, ordered.Try(), unordered.Try())
}
