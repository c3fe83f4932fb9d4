package sorted_test

import (
	"testing"

	"github.com/weftgo/weft/internal/dst"
)

// Each call by which the host orders streams, or waits for them, is needed: left out, programs go
// wrong.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	programs := schedules[uint32, uint64]().Tries(20)
	programs.Shapes = dst.OverlappingByBatch()
	dst.Omit(t, ".", map[string]string{
		"s.Sync(context.Background()) in (*gpuEngine).become": "only where a launch fails: TestFailsWhole",
	}, programs.Try())
}
