package slab

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/mutate"
)

//go:embed testdata/survivors.txt
var survivors string

// TestRandomMutants checks that the tests notice most random changes of the kernels. A change takes
// up to half a minute, so -sim.mutants sets their number.
func TestRandomMutants(t *testing.T) {
	mutate.Run(t, mutate.Config{Images: Images, Number: 0, Reasons: survivors, Trials: map[string]func(*mutate.Mutant) []mutate.Trial{
		"slab_32_32":       pairTrials[uint32, uint32],
		"slab_32_64":       pairTrials[uint32, uint64],
		"slab_64_32":       pairTrials[uint64, uint32],
		"slab_64_64":       pairTrials[uint64, uint64],
		"slab_32_0":        setTrials[uint32],
		"slab_64_0":        setTrials[uint64],
		"slab_multi_32_32": multiTrials[uint32, uint32],
		"slab_multi_32_64": multiTrials[uint32, uint64],
		"slab_multi_64_32": multiTrials[uint64, uint32],
		"slab_multi_64_64": multiTrials[uint64, uint64],
	}})
}

// TestGraphRandomMutants checks that the tests notice most random changes of the kernels of graphs.
func TestGraphRandomMutants(t *testing.T) {
	trials := func(weighted bool) func(*mutate.Mutant) []mutate.Trial {
		return func(m *mutate.Mutant) []mutate.Trial {
			quick, random := mutate.DeviceTrials(m.Arch, 2, graphTests(weighted))
			return slices.Concat(quick, random)
		}
	}
	columns := func(m *mutate.Mutant) []mutate.Trial {
		quick, random := mutate.DeviceTrials(m.Arch, 2, slices.Concat(graphTests(true), graphTests(false)))
		return slices.Concat(quick, random)
	}
	mutate.Run(t, mutate.Config{Images: GraphImages, Number: 1, Reasons: survivors, Trials: map[string]func(*mutate.Mutant) []mutate.Trial{
		"slab_graph_64_0": trials(false), "slab_graph_64_32": trials(true), "slab_columns": columns,
	}})
}

// modes returns the modes in which a mutant may behave differently: all modes for kernels that
// change a table, and otherwise the first.
func modes(m *mutate.Mutant) []mode {
	all := []mode{{arch: m.Arch}}
	if strings.Contains(m.Kernel, "change") || strings.Contains(m.Kernel, "append") {
		all = append(all, mode{arch: m.Arch, unordered: true}, mode{arch: m.Arch, tight: true})
	}
	return all
}

// programs returns trials that run programs: as many batches one after the other as TestSchedules
// runs, and overlapping batches.
func programs[K weft.Key, V weft.Value](what string, m *mutate.Mutant, config func(mode) dst.Config[K, V]) (all []mutate.Trial) {
	for _, mode := range modes(m) {
		cfg := config(mode)
		cfg.Seeds = 15
		all = append(all, mutate.ScheduleTrial(fmt.Sprintf("%s,%v", what, mode), cfg))
	}
	cfg := overlapping(config(mode{arch: m.Arch}))
	cfg.Seeds = 25
	return append(all, mutate.ScheduleTrial(what+",overlapping", cfg))
}

// pairTrials returns the trials of maps, and of multimaps if they use the same kernel.
func pairTrials[K, V uint32 | uint64](m *mutate.Mutant) []mutate.Trial {
	maps := mutate.Interleave(m.Arch, programs("map", m, schedules[K, V]), kernelTests[K, V](batch.MapWidths[K, V](), false))
	switch name, _, _ := strings.Cut(m.Kernel, "_"); {
	case slices.Contains([]string{"export", "flush", "rehash", "chains"}, name), strings.HasPrefix(m.Kernel, "winners_first"):
		return slices.Concat(maps, multiTrials[K, V](m))
	}
	return maps
}

func multiTrials[K, V uint32 | uint64](m *mutate.Mutant) []mutate.Trial {
	return mutate.Interleave(m.Arch, programs("multimap", m, multiSchedules[K, V]), kernelTests[K, V](batch.MapWidths[K, V](), true))
}

func setTrials[K uint32 | uint64](m *mutate.Mutant) []mutate.Trial {
	return mutate.Interleave(m.Arch, programs("set", m, setSchedules[K]), kernelTests[K, K](batch.SetWidths[K](), false))
}
