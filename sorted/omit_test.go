package sorted_test

import (
	"testing"

	"github.com/weftgo/weft/internal/dst"
)

// TestOmissionsAreNoticed omits, one at a time, each call by which the host orders streams or waits
// for them. Some program must fail without that call.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	programs := schedules[uint32, uint64]().WithSeeds(20)
	programs.Shapes = dst.OverlappingAtomic()
	dst.Omit(t, ".", map[string]string{
		"s.Sync(context.Background()) in (*gpuEngine).publish": "only where a launch fails: TestFailsWhole",
	}, programs.Try())
}
