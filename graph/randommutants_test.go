package graph

import (
	_ "embed"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/mutate"
)

//go:embed testdata/survivors.txt
var survivors string

// TestRandomMutants checks that the tests notice most random changes of the kernels.
func TestRandomMutants(t *testing.T) {
	all := conformance.Images(graphImages)
	trials := map[string]func(*mutate.Mutant) []mutate.Trial{
		"graph_32_0": trialsUnweighted, "graph_32_32": trialsOf[uint32], "graph_32_64": trialsOf[uint64],
	}
	mutate.Run(t, mutate.Config{Images: all, Number: 1, Reasons: survivors, Trials: trials})
}

// trialsOf returns the tests of kernels with weights of one width.
func trialsOf[W uint32 | uint64](m *mutate.Mutant) []mutate.Trial {
	quick, random := mutate.DeviceTrials(m.Arch, 2, kernelTests[W]())
	return slices.Concat(quick, random)
}

// trialsUnweighted returns the tests of kernels without weights.
func trialsUnweighted(m *mutate.Mutant) []mutate.Trial {
	var tests []mutate.KernelTest
	for _, o := range allOptions {
		tests = append(tests, mutate.KernelTest{Name: "unweighted", Run: func(t testing.TB, dev device.Device) { unweighted(t, dev, o) }})
	}
	tests = append(tests, mutate.KernelTest{Name: "many vertices", Run: func(t testing.TB, dev device.Device) { sweeps(t, dev, Options{}, weightless) }})
	quick, random := mutate.DeviceTrials(m.Arch, 1, tests)
	return slices.Concat(quick, random)
}
