package ordered_test

import (
	_ "embed"
	"testing"

	"github.com/weftgo/weft/internal/mutate"
	"github.com/weftgo/weft/ordered"
)

//go:embed testdata/survivors.txt
var survivors string

// TestRandomMutants checks that the tests notice most random changes of the kernels.
func TestRandomMutants(t *testing.T) {
	mutate.Run(t, mutate.Config{Images: ordered.Images, Number: 1, Reasons: survivors, Trials: map[string]func(*mutate.Mutant) []mutate.Trial{
		"ordered_32_32": trials[uint32, uint32], "ordered_32_64": trials[uint32, uint64],
		"ordered_64_32": trials[uint64, uint32], "ordered_64_64": trials[uint64, uint64],
	}})
}

// trials returns programs on overlapping streams, and the tests of the kernels.
func trials[K, V uint32 | uint64](m *mutate.Mutant) []mutate.Trial {
	cfg := schedules[K, V]().WithSeeds(8)
	cfg.Arch = m.Arch
	loads := cfg.WithSeeds(3)
	loads.Loads = true
	programs := []mutate.Trial{mutate.ScheduleTrial("programs", cfg), mutate.ScheduleTrial("programs that load", loads)}
	return mutate.Interleave(m.Arch, programs, kernelTests[K, V]())
}
