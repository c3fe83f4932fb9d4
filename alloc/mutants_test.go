package alloc

import (
	_ "embed"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/mutate"
)

// unitMutants lists mutants of the kernels. Each replaces all matches of a pattern in the PTX of
// the named kernels.
var unitMutants = []mutate.Fault{
	{"a unit is given back at the scope of a block", "release", `atom\.relaxed\.gpu(\.global\.and\.b32)`, "atom.relaxed.cta$1"},
	{"a unit is taken at the scope of a block", "allocate", `atom\.relaxed\.gpu(\.global\.or\.b32)`, "atom.relaxed.cta$1"},
	{"what was written to a unit may come after it was given back", "churn", `fence\.acq_rel\.gpu;((?s).*fence)`, "$1"},
	{"what is written to a unit may come before it was taken", "churn", `(?s)(.*)fence\.acq_rel\.gpu;`, "$1"},
	{"a lane uses its unit before another lane has taken it", "churn", `bar\.warp\.sync [^;]*;`, ""},
	{"all warps take units of the same word first", "allocate", `shr\.u32 (%r\d+), %r\d+, 5;\s+bfe\.u32 (%r\d+), %r\d+, 5, 5;`, "mov.b32 $1, 0; mov.b32 $2, 0;"},
}

// TestMutantsFailKernelTests checks that the tests of kernels detect every mutant.
func TestMutantsFailKernelTests(t *testing.T) {
	mutate.RequireAllDetected(t, allocTests, unitMutants)
}

//go:embed testdata/survivors.txt
var survivors string

// TestRandomMutants checks that the tests detect most random changes of the kernels.
func TestRandomMutants(t *testing.T) {
	mutate.Run(t, mutate.Config{Images: []*device.Image{&allocImage}, Number: 4, Reasons: survivors, Trials: map[string]func(*mutate.Mutant) []mutate.Trial{
		allocImage.String(): func(m *mutate.Mutant) []mutate.Trial {
			return slices.Concat(mutate.DeviceTrials(m.Arch, allocSeeds, allocTests))
		},
	}})
}
