package linear_test

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device/sim"
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
	mutate.Run(t, mutate.Config{Image: linear.Image, Number: 40, Trials: trials, Reasons: survivors})
}

// trials are those of the structure that has a kernel, by its widths; other
// kernels are those of pairs of 32 bits, too.
func trials(m *mutate.Mutant) ([]mutate.Trial, func(kernel string) bool) {
	key, val := "32", "32"
	if parts := strings.Split(m.Kernel, "_"); len(parts) > 1 {
		key = parts[1]
		if last := len(parts) - 1; last > 1 {
			key, val = parts[last-1], parts[last]
		}
	}
	keep := func(kernel string) bool {
		return kernel == "reset" || kernel == "rank_"+key || kernel == "claim_"+key || strings.HasSuffix(kernel, "_"+key+"_"+val)
	}
	switch key + "," + val {
	case "32,32":
		return mapTrials[uint32, uint32](m.Arch), keep
	case "32,64":
		return mapTrials[uint32, uint64](m.Arch), keep
	case "64,32":
		return mapTrials[uint64, uint32](m.Arch), keep
	case "64,64":
		return mapTrials[uint64, uint64](m.Arch), keep
	case "32,0":
		return setTrials[uint32](m.Arch), keep
	case "64,0":
		return setTrials[uint64](m.Arch), keep
	}
	panic(fmt.Sprintf("what is %s?", m.Kernel))
}

func modes(arch int) []mode {
	return []mode{{arch: arch}, {arch, linear.Reuse, false}, {arch, linear.Keep, true}, {arch, linear.Reuse, true}}
}

// onDevices are the trials of tests on devices: in lockstep, which is quick,
// and under a random schedule.
func onDevices(arch int, tests []kernelTest) (quick, random []mutate.Trial) {
	for _, test := range tests {
		quick = append(quick, mutate.OnDevice(test.name, sim.Options{Arch: arch}, test.run))
		if test.any {
			random = append(random, mutate.OnDevice(test.name+", random", sim.Options{Arch: arch, Scheduler: sim.Random, Races: true}, test.run))
		}
	}
	return quick, random
}

func mapTrials[K, V uint32 | uint64](arch int) []mutate.Trial {
	var all []mutate.Trial
	for _, m := range modes(arch) {
		all = append(all, mutate.Schedules(m.String(), schedules[K, V](m)))
	}
	quick, random := onDevices(arch, kernelTests[K, V](false))
	return slices.Concat(all[:1], quick, random, all[1:])
}

func setTrials[K uint32 | uint64](arch int) []mutate.Trial {
	var all []mutate.Trial
	for _, m := range modes(arch) {
		all = append(all, mutate.Schedules(m.String(), setSchedules[K](m)))
	}
	quick, random := onDevices(arch, kernelTests[K, K](true))
	return slices.Concat(all[:1], quick, random, all[1:])
}
