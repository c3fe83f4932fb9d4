package mutate

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/dst"
)

// KernelTest is a test of kernels on simulated GPUs. [RunOnSim] runs it on the kernels that ship,
// and a trial runs it on broken kernels.
type KernelTest struct {
	Name string
	Run  func(t testing.TB, dev device.Device)
	// Long makes the test run in lockstep only, because it takes too long under random schedules.
	Long bool
	// Budget is the maximum number of warp instructions per launch, if less than the default of
	// tests. With a lower budget, the test fails sooner if a launch never ends.
	Budget uint64
}

// options returns one set of options per seed, or for a long test a single one, which selects
// lockstep.
func (k KernelTest) options(arch, seeds int) (all []sim.Options) {
	if k.Long {
		return []sim.Options{{Arch: arch, Budget: k.Budget}}
	}
	for seed := range seeds {
		all = append(all, sim.Options{Arch: arch, Scheduler: sim.Random, Seed: uint64(seed), Races: true, Budget: k.Budget})
	}
	return all
}

// RunOnSim runs tests on simulated GPUs of the given architectures. The flag -sim.seeds, or else
// the parameter seeds, is the number of random schedules per test. With -short it skips the tests.
func RunOnSim(t *testing.T, tests []KernelTest, seeds int, archs ...int) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, test := range tests {
		for _, arch := range archs {
			for _, opts := range test.options(arch, dst.Seeds(seeds)) {
				t.Run(fmt.Sprintf("%s, sm_%d, seed %d", test.Name, arch, opts.Seed), func(t *testing.T) {
					t.Parallel()
					test.Run(t, devicetest.OpenSim(t, &opts))
				})
			}
		}
	}
}

// DeviceTrials returns trials that run the given tests. quick has one trial per test, in lockstep.
// random has one trial per seed, with a random schedule, for each test that is not long.
func DeviceTrials(arch, seeds int, tests []KernelTest) (quick, random []Trial) {
	for _, test := range tests {
		quick = append(quick, DeviceTrial(test.Name, sim.Options{Arch: arch, Budget: test.Budget}, test.Run))
		if test.Long {
			continue
		}
		for _, opts := range test.options(arch, seeds) {
			random = append(random, DeviceTrial(fmt.Sprintf("%s, seed %d", test.Name, opts.Seed), opts, test.Run))
		}
	}
	return quick, random
}

// Interleave returns the trials of programs and tests in one list. The first program comes first,
// because it finds most faults soonest. The tests follow, then the other programs.
func Interleave(arch int, programs []Trial, tests []KernelTest) []Trial {
	quick, random := DeviceTrials(arch, 1, tests)
	return slices.Concat(programs[:1], quick, random, programs[1:])
}

// ModeTrials returns the trials of tables in the given modes. Each mode has a program and a smoke
// test.
func ModeTrials[K weft.Key, V weft.Value, O any](m *Mutant, modes []dst.Mode[O], config func(dst.Mode[O]) dst.Config[K, V], smoke func(testing.TB, device.Device, dst.Mode[O])) []Trial {
	var programs []Trial
	var tests []KernelTest
	for _, mode := range modes {
		mode.Arch = m.Arch
		programs = append(programs, ScheduleTrial(mode.String(), config(mode)))
		tests = append(tests, KernelTest{Name: "everything once, " + mode.String(), Run: func(t testing.TB, dev device.Device) { smoke(t, dev, mode) }})
	}
	return Interleave(m.Arch, programs, tests)
}

// Fault is a way to break kernels: in kernels with names that match Kernels, each match of Pattern
// in the PTX is replaced by With. It is an alias of an unnamed struct, so that lists need not
// repeat the names of the fields.
type Fault = struct{ Name, Kernels, Pattern, With string }

// RequireAllDetected fails the test for each fault that no trial of tests detects.
func RequireAllDetected(t *testing.T, tests []KernelTest, all []Fault) {
	t.Helper()
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, m := range all {
		t.Run(m.Name+", "+m.Kernels, func(t *testing.T) {
			t.Parallel()
			quick, random := DeviceTrials(90, 1, tests)
			RequireDetected(t, slices.Concat(random, quick), Replace(t, m.Kernels, m.Pattern, m.With))
		})
	}
}

// RequireDetected fails the test if all trials pass on the rewritten kernels.
func RequireDetected(t testing.TB, trials []Trial, rewrite func(file, ptx string) string) {
	t.Helper()
	trial, failure := FirstFailure(t, trials, rewrite)
	if trial == "" {
		t.Fatal("not noticed")
	}
	t.Logf("%s: %s", trial, failure)
}
