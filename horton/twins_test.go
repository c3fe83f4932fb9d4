package horton

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/gpu"
)

// The constants of the kernels equal those of Go.
func TestConstantsAreTwins(t *testing.T) {
	conformance.CompareConstants(t, map[string]map[string]int{
		"../kernels/include/weft/horton_table.cuh": {
			"kEntryBits": entryBits, "kFunctions": functions, "kHalfEntries": halfEntries, "kKeyEntries": keyEntries,
			"kKeyTypeBit": keyTypeBit, "kPairTypeBit": pairTypeBit, "kMinShift": minSecondaryShift, "kOwnShift": sentinelShift,
			"kLanes": lanes, "kNarrowPieces": narrowBytes / 16 / lanes,
		},
		"../kernels/include/weft/lines.cuh": {"kLineBytes": lineBytes},
		"../kernels/include/weft/slot.cuh":  {"kNone": absent},
		"tuning.cuh":                        {"kBlock": gpu.BlockThreads},
	})
	src, err := os.ReadFile("../kernels/include/weft/horton_table.cuh")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		fmt.Sprintf("kTagFactor32 = %#x;", tagFactor32),
		fmt.Sprintf("kTagFactor64 = %#x, kSecondarySeed = %#x;", uint64(tagFactor64), uint64(secondarySeed)),
	}
	for _, s := range steps { // the kernels choose among them
		want = append(want, fmt.Sprintf("%#xu", s))
	}
	for _, want := range want {
		if !strings.Contains(string(src), want) {
			t.Errorf("there is no %s", want)
		}
	}
}
