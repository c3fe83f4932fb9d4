package groups

import (
	_ "embed"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/mutate"
)

// TestSchedules runs kernelTests on the shipped kernels, and the others run them on broken ones.
var kernelTests = []mutate.KernelTest{
	{Name: "sums", Run: func(t testing.TB, dev device.Device) {
		for _, r := range cases {
			trySum(t, dev, r, small, 1100, 0, 2500)
		}
	}},
	{Name: "fields", Run: func(t testing.TB, dev device.Device) {
		for _, r := range cases[1:] {
			tryFields(t, dev, r, small, 700, 2500)
		}
	}},
	{Name: "carry", Run: tryCarry},
	{Name: "numbers", Run: func(t testing.TB, dev device.Device) {
		for _, keys := range []int{3, 300} {
			tryNumbers(t, dev, keys, 1, 700, 2500)
		}
	}},
	{Name: "types", Run: tryAllTypes, Long: true},
}

// Kernels are correct under random schedules of lanes, warps and blocks, with weak memory. A data
// race is an error.
func TestSchedules(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	mutate.RunOnSim(t, kernelTests, 1, 90)
}

// tableMutants are broken variants of the kernels. Each replaces one pattern in the PTX of the
// kernels with a given name.
var tableMutants = []mutate.Fault{
	{"a record is claimed at the scope of a block", "sum", `atom\.relaxed\.gpu(\.global\.cas\.b64)`, "atom.relaxed.cta$1"},
	{"records are added to at the scope of a block", "sum", `red\.relaxed\.gpu(\.global\.add\.u64)`, "red.relaxed.cta$1"},
	{"the same of any fields", "add", `red\.relaxed\.gpu(\.global\.add\.u64)`, "red.relaxed.cta$1"},
	{"maxima at the scope of a block", "add", `red\.relaxed\.gpu(\.global\.max\.u64)`, "red.relaxed.cta$1"},
	{"used records are counted at the scope of a block", "sum", `atom\.relaxed\.gpu(\.global\.add\.u32)`, "atom.relaxed.cta$1"},
	{"blocks wait for nobody", "sum", `bar\.sync 0;`, ""},
	{"a number is published before its key", "number", `atom\.acq_rel\.gpu(\.global\.cas\.b64)`, "atom.relaxed.gpu$1"},
	{"a key is read that was not yet published", "number", `ld\.acquire\.gpu(\.global\.b64)`, "ld.relaxed.gpu$1"},
	{"numbers are taken at the scope of a block", "number", `atom\.relaxed\.gpu(\.global\.add\.u32)`, "atom.relaxed.cta$1"},
	{"no carry between the halves of a sum", "sum", `atom\.relaxed\.cta(\.shared\.add\.u32 %r\d+, \[%r\d+\]), %r\d+;`, "atom.relaxed.cta$1, 1;"},
}

// The tests of the kernels detect every mutant.
func TestMutantsFailKernelTests(t *testing.T) {
	mutate.RequireAllDetected(t, kernelTests, tableMutants)
}

//go:embed testdata/survivors.txt
var survivors string

// trials of random mutants take longer.
func trials(m *mutate.Mutant) []mutate.Trial {
	quick, random := mutate.DeviceTrials(m.Arch, 2, kernelTests)
	most, others := mutate.DeviceTrials(m.Arch, 2, []mutate.KernelTest{{Name: "many", Run: tryMany}, {Name: "any columns", Run: tryAny}})
	return slices.Concat(quick, most, random, others)
}

// Few random changes of the kernels go undetected; flags set the number tried.
func TestRandomMutants(t *testing.T) {
	mutate.Run(t, mutate.Config{Images: []*device.Image{&groupsImage, &keysImage}, Reasons: survivors, Trials: map[string]func(*mutate.Mutant) []mutate.Trial{
		groupsImage.String(): trials,
		keysImage.String():   trials,
	}})
}

// The kernels of both architectures are the same, so one of them is interpreted.
func TestSameKernels(t *testing.T) { conformance.SameKernels(t, "groups", "keys") }
