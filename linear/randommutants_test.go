package linear_test

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
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

// tests are the trials of tests on devices: in lockstep, which is quick, and
// under random schedules.
func tests(arch int, tests map[string]func(t testing.TB, dev device.Device)) (all []mutate.Trial) {
	for _, o := range []sim.Options{{Arch: arch}, {Arch: arch, Scheduler: sim.Random, Races: true}} {
		for _, name := range slices.Sorted(maps.Keys(tests)) {
			all = append(all, mutate.OnDevice(fmt.Sprintf("%s, %s", name, o.Scheduler), o, tests[name]))
		}
	}
	return all
}

func mapTrials[K, V uint32 | uint64](arch int) []mutate.Trial {
	var all []mutate.Trial
	for _, m := range modes(arch) {
		all = append(all, mutate.Schedules(m.String(), schedules[K, V](m)))
	}
	return slices.Concat(all[:1], tests(arch, kernelTests[K, V](false)), all[1:])
}

func setTrials[K uint32 | uint64](arch int) []mutate.Trial {
	var all []mutate.Trial
	for _, m := range modes(arch) {
		all = append(all, mutate.Schedules(m.String(), setSchedules[K](m)))
	}
	return slices.Concat(all[:1], tests(arch, kernelTests[K, K](true)), all[1:])
}
