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

// Few random changes of the kernels go unnoticed.
func TestRandomMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	mutate.Run(t, mutate.Config{Images: Images, Number: 8, Trials: trials, Reasons: survivors})
}

// trials are those of the structures that have a kernel, by its image.
func trials(m *mutate.Mutant) []mutate.Trial {
	switch image, of := strings.CutPrefix(m.Image, "slab_multi_"); {
	case of && image == "32_32":
		return multiTrials[uint32, uint32](m)
	case of && image == "32_64":
		return multiTrials[uint32, uint64](m)
	case of && image == "64_32":
		return multiTrials[uint64, uint32](m)
	case of && image == "64_64":
		return multiTrials[uint64, uint64](m)
	}
	switch strings.TrimPrefix(m.Image, "slab_") {
	case "32_32":
		return pairTrials[uint32, uint32](m)
	case "32_64":
		return pairTrials[uint32, uint64](m)
	case "64_32":
		return pairTrials[uint64, uint32](m)
	case "64_64":
		return pairTrials[uint64, uint64](m)
	case "32_0":
		return setTrials[uint32](m)
	case "64_0":
		return setTrials[uint64](m)
	}
	panic(fmt.Sprintf("what is %s?", m.Image))
}

// modes are those in which a kernel may do something different: the first, and
// for kernels that change a table all.
func modes(m *mutate.Mutant) []mode {
	all := []mode{{arch: m.Arch}}
	if strings.Contains(m.Kernel, "change") || strings.Contains(m.Kernel, "append") {
		all = append(all, mode{arch: m.Arch, unordered: true}, mode{arch: m.Arch, tight: true})
	}
	return all
}

// programs are the trials of programs: of batches one after another, as many as
// TestSchedules tries, and of batches that overlap.
func programs[K weft.Key, V weft.Value](what string, m *mutate.Mutant, config func(mode) dst.Config[K, V]) (all []mutate.Trial) {
	for _, mode := range modes(m) {
		cfg := config(mode)
		cfg.Seeds = 15
		all = append(all, mutate.Schedules(fmt.Sprintf("%s,%v", what, mode), cfg))
	}
	cfg := overlapping(config(mode{arch: m.Arch}))
	cfg.Seeds = 25
	return append(all, mutate.Schedules(what+",overlapping", cfg))
}

// pairTrials are those of maps, and of multimaps where they share a kernel.
func pairTrials[K, V uint32 | uint64](m *mutate.Mutant) []mutate.Trial {
	maps := interleave(m.Arch, programs("map", m, schedules[K, V]), kernelTests[K, V](batch.MapWidths[K, V](), false))
	switch name, _, _ := strings.Cut(m.Kernel, "_"); {
	case slices.Contains([]string{"export", "flush", "rehash", "chains"}, name), strings.HasPrefix(m.Kernel, "winners_first"):
		return slices.Concat(maps, multiTrials[K, V](m))
	}
	return maps
}

func multiTrials[K, V uint32 | uint64](m *mutate.Mutant) []mutate.Trial {
	return interleave(m.Arch, programs("multimap", m, multiSchedules[K, V]), kernelTests[K, V](batch.MapWidths[K, V](), true))
}

func setTrials[K uint32 | uint64](m *mutate.Mutant) []mutate.Trial {
	return interleave(m.Arch, programs("set", m, setSchedules[K]), kernelTests[K, K](batch.SetWidths[K](), false))
}

// interleave puts tests behind the first programs, which are the quickest to
// find most of what is wrong.
func interleave(arch int, programs []mutate.Trial, tests []mutate.KernelTest) []mutate.Trial {
	quick, random := mutate.OnDevices(arch, 1, tests)
	return slices.Concat(programs[:1], quick, random, programs[1:])
}
