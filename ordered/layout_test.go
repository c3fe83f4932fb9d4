package ordered

import (
	"math/bits"
	"testing"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/gpu"
)

// TestConstantsAreTwins checks that the constants of the kernels equal those of Go.
func TestConstantsAreTwins(t *testing.T) {
	conformance.CompareConstants(t, map[string]map[string]int{
		"../kernels/include/weft/ordered_index.cuh": {"kPairs": leafPairs, "kFanBits": bits.Len(fanout) - 1, "kFirstBlockBits": bits.Len(firstBlock) - 1},
		"seek.cuh":   {"kBlock": gpu.BlockThreads},
		"settle.cuh": {"kHotEntries": hotEntries, "kPlanned": plannedWindows},
	})
}
