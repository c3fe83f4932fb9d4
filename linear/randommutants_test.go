package linear_test

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/weftgo/weft/internal/mutate"
	"github.com/weftgo/weft/linear"
)

//go:embed testdata/survivors.txt
var survivors string

// The tests must detect almost all random changes of the kernels.
func TestRandomMutants(t *testing.T) {
	mutate.Run(t, mutate.Config{Images: linear.Images, Number: 1, Reasons: survivors, Trials: map[string]func(*mutate.Mutant) []mutate.Trial{
		"linear_32_32": mapTrials[uint32, uint32],
		"linear_32_64": mapTrials[uint32, uint64],
		"linear_64_32": mapTrials[uint64, uint32],
		"linear_64_64": mapTrials[uint64, uint64],
		"linear_32_0":  setTrials[uint32],
		"linear_64_0":  setTrials[uint64],
	}})
}

// modes returns the modes in which a kernel may behave differently. Lookups and kernels that
// process whole tables are the same in all modes. Batches without order resolve no duplicates.
func modes(m *mutate.Mutant) []mode {
	all := []mode{{arch: m.Arch}, {m.Arch, linear.Reuse, false}, {m.Arch, linear.Keep, true}, {m.Arch, linear.Reuse, true}}
	switch name, _, _ := strings.Cut(m.Kernel, "_"); name {
	case "change":
		return all
	case "get", "export", "rehash", "borders", "in", "stats":
		return all[:1]
	}
	return all[:2]
}

func mapTrials[K, V uint32 | uint64](m *mutate.Mutant) []mutate.Trial {
	var all []mutate.Trial
	for _, mode := range modes(m) {
		all = append(all, mutate.ScheduleTrial(mode.String(), schedules[K, V](mode)))
	}
	return mutate.Interleave(m.Arch, all, kernelTests[K, V](false))
}

func setTrials[K uint32 | uint64](m *mutate.Mutant) []mutate.Trial {
	var all []mutate.Trial
	for _, mode := range modes(m) {
		all = append(all, mutate.ScheduleTrial(mode.String(), setSchedules[K](mode)))
	}
	return mutate.Interleave(m.Arch, all, kernelTests[K, K](true))
}
