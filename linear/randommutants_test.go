package linear_test

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/internal/mutate"
	"github.com/weftgo/weft/linear"
)

//go:embed testdata/survivors.txt
var survivors string

// Few random changes of the kernels go unnoticed.
func TestRandomMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	mutate.Run(t, mutate.Config{Images: linear.Images, Number: 8, Trials: trials, Reasons: survivors})
}

// trials are those of the structure that has a kernel, by its widths.
func trials(m *mutate.Mutant) []mutate.Trial {
	switch _, widths, _ := strings.Cut(m.Image, "_"); widths {
	case "32_32":
		return mapTrials[uint32, uint32](m)
	case "32_64":
		return mapTrials[uint32, uint64](m)
	case "64_32":
		return mapTrials[uint64, uint32](m)
	case "64_64":
		return mapTrials[uint64, uint64](m)
	case "32_0":
		return setTrials[uint32](m)
	case "64_0":
		return setTrials[uint64](m)
	}
	panic(fmt.Sprintf("what is %s?", m.Image))
}

// modes are those in which a kernel may do something different: lookups and
// kernels over whole tables do the same in all, and no duplicates are resolved in
// batches without order.
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
		all = append(all, mutate.Schedules(mode.String(), schedules[K, V](mode)))
	}
	quick, random := mutate.OnDevices(m.Arch, 1, kernelTests[K, V](false))
	return slices.Concat(all[:1], quick, random, all[1:])
}

func setTrials[K uint32 | uint64](m *mutate.Mutant) []mutate.Trial {
	var all []mutate.Trial
	for _, mode := range modes(m) {
		all = append(all, mutate.Schedules(mode.String(), setSchedules[K](mode)))
	}
	quick, random := mutate.OnDevices(m.Arch, 1, kernelTests[K, K](true))
	return slices.Concat(all[:1], quick, random, all[1:])
}
