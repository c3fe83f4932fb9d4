package traversal

import (
	_ "embed"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/mutate"
)

// kernelMutants are broken variants of the kernels. Each replaces one pattern in the PTX of the
// kernels with a given name.
var kernelMutants = []mutate.Fault{
	{"parts of a sum are added at the scope of a block", "rank_gather", `atom\.relaxed\.gpu(\.global\.add\.u64)`, "atom.relaxed.cta$1"},
	{"changes are added up at the scope of a block", "rank_apply", `atom\.relaxed\.gpu(\.global\.add\.u64)`, "atom.relaxed.cta$1"},
	{"a vertex is found at the scope of a block", "search_down", `atom\.relaxed\.gpu(\.global\.cas\.b32)`, "atom.relaxed.cta$1"},
	{"places in a list are given at the scope of a block", "search_down", `atom\.relaxed\.gpu(\.global\.add\.u64)`, "atom.relaxed.cta$1"},
	{"depths are read without atomicity beside those who write them", "search_up", `ld\.relaxed\.gpu(\.global\.b32)`, "ld$1"},
	{"roots are joined at the scope of a block", "unite_first", `atom\.relaxed\.gpu(\.global\.cas\.b32)`, "atom.relaxed.cta$1"},
	{"labels are read without atomicity beside those who join them", "unite_rest", `ld\.relaxed\.gpu(\.global\.b32)`, "ld$1"},
	{"distances fall at the scope of a block", "path_relax", `red\.relaxed\.gpu(\.global\.min\.u64)`, "red.relaxed.cta$1"},
	{"the least distance is found at the scope of a block", "path_least", `red\.relaxed\.gpu(\.global\.min\.u64)`, "red.relaxed.cta$1"},
	{"a vertex is listed once at the scope of a block", "path_relax", `atom\.relaxed\.gpu(\.global\.exch\.b32)`, "atom.relaxed.cta$1"},
	{"degrees fall at the scope of a block", "core_peel", `atom\.relaxed\.gpu(\.global\.add\.u32)`, "atom.relaxed.cta$1"},
	{"degrees are read without atomicity beside those who change them", "core_peel", `ld\.relaxed\.gpu(\.global\.b32)`, "ld$1"},
}

// The tests of the kernels detect every mutant.
func TestMutantsFailKernelTests(t *testing.T) {
	mutate.RequireAllDetected(t, kernelTests, kernelMutants)
}

//go:embed testdata/survivors.txt
var survivors string

// Few random changes of the kernels go undetected; flags set the number tried.
func TestRandomMutants(t *testing.T) {
	mutate.Run(t, mutate.Config{Images: []*device.Image{&traversalImage}, Reasons: survivors, Trials: map[string]func(*mutate.Mutant) []mutate.Trial{
		traversalImage.String(): func(m *mutate.Mutant) []mutate.Trial {
			return slices.Concat(mutate.DeviceTrials(m.Arch, 1, kernelTests))
		},
	}})
}
