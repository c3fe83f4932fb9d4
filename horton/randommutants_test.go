package horton_test

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/mutate"
)

//go:embed testdata/survivors.txt
var survivors string

// Few random changes of the kernels go unnoticed. Only -sim.mutants has any judged: each takes
// seconds, and linear has the same paths and lists.
func TestRandomMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	mutate.Run(t, mutate.Config{Images: horton.Images, Trials: trials, Reasons: survivors})
}

// trials are those of the structure that has a kernel, by its widths.
func trials(m *mutate.Mutant) []mutate.Trial {
	switch _, widths, _ := strings.Cut(m.Image, "_"); widths {
	case "32_32":
		return trialsOf(m, mapOf[uint32, uint32], schedules[uint32, uint32])
	case "32_64":
		return trialsOf(m, mapOf[uint32, uint64], schedules[uint32, uint64])
	case "64_32":
		return trialsOf(m, mapOf[uint64, uint32], schedules[uint64, uint32])
	case "64_64":
		return trialsOf(m, mapOf[uint64, uint64], schedules[uint64, uint64])
	case "32_0":
		return trialsOf(m, setOf[uint32], setSchedules[uint32])
	case "64_0":
		return trialsOf(m, setOf[uint64], setSchedules[uint64])
	}
	panic(fmt.Sprintf("what is %s?", m.Image))
}

// trialsOf are every operation once, for tables of all modes, then programs, the quickest to
// find most of what is wrong first.
func trialsOf[K weft.Key, V weft.Value](m *mutate.Mutant, smoke func(mode) mutate.KernelTest, config func(mode) dst.Config[K, V]) []mutate.Trial {
	var tests []mutate.KernelTest
	var programs []mutate.Trial
	for _, mode := range modes {
		mode.arch = m.Arch
		tests = append(tests, smoke(mode))
		programs = append(programs, mutate.Schedules(mode.String(), config(mode)))
	}
	quick, random := mutate.OnDevices(m.Arch, 1, tests)
	return slices.Concat(quick, programs, random)
}

func mapOf[K, V ~uint32 | ~uint64](m mode) mutate.KernelTest {
	return mutate.KernelTest{Name: "map, " + m.String(), Run: func(t testing.TB, dev device.Device) {
		table := conformance.Open(t, horton.New[K, V], dev, m.options(dst.Shape{}))
		conformance.SmokeMap(t, dev, table, func() { conformance.StatsOf(t, table) })
	}}
}

func setOf[K ~uint32 | ~uint64](m mode) mutate.KernelTest {
	return mutate.KernelTest{Name: "set, " + m.String(), Run: func(t testing.TB, dev device.Device) {
		conformance.SmokeSet(t, dev, conformance.Open(t, horton.NewSet[K], dev, m.options(dst.Shape{})))
	}}
}
