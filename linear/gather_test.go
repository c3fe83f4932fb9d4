package linear_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/mutate"
	"github.com/weftgo/weft/linear"
)

// If rows have few distinct keys, blocks must gather them before they access the table, with
// atomics or, for floats, with compare-and-swap. They must also combine equal keys of mixed
// batches.
func TestReduceGathers(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	small := &linear.Options{Capacity: 100, Fixed: true}
	for _, arch := range []int{80, 90} {
		t.Run(fmt.Sprintf("sm_%d", arch), func(t *testing.T) {
			t.Parallel()
			dev := devicetest.OpenSim(t, &sim.Options{Arch: arch})
			conformance.GatherFewKeys(t, dev, conformance.MapOf(linear.New[uint32, uint64], nil))
			if arch == 90 { // see TestSameKernels
				conformance.GatherFewKeys(t, dev, conformance.MapOf(linear.New[uint32, int32], nil))
				conformance.GatherFewKeys(t, dev, conformance.MapOf(linear.New[uint32, float32], nil))
				conformance.GatherTwice(t, dev, conformance.MapOf(linear.New[uint32, int32], nil))
				conformance.CombineFewKeys(t, dev, conformance.MapOf(linear.New[uint32, float32], nil))
			}
			conformance.CombineFewKeys(t, dev, conformance.MapOf(linear.New[uint32, int64], nil))
			conformance.GatherWhenFull(t, dev, conformance.MapOf(linear.New[uint32, float64], small))
		})
	}
}

// Mutants must be detected that lose values when rows are gathered or operations combined. All
// structures share these headers.
func TestReduceMutantsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	tests := []mutate.KernelTest{
		{Name: "gathers", Run: func(t testing.TB, dev device.Device) {
			conformance.GatherFewKeys(t, dev, conformance.MapOf(linear.New[uint32, uint32], nil))
		}},
		{Name: "unites", Run: func(t testing.TB, dev device.Device) {
			conformance.CombineFewKeys(t, dev, conformance.MapOf(linear.New[uint32, float32], nil))
		}},
	}
	const kernels = "mixed_(reduce|rows).*_32_32"
	for _, m := range []struct{ name, pattern, with string }{
		{"a cell loses what rows add at once", `atom\.relaxed\.cta\.shared\.add\.u32 (%r\d+), (\[%r\d+\]), (%r\d+);`,
			"ld.relaxed.cta.shared.b32 $1, $2; add.u32 $1, $1, $3; st.relaxed.cta.shared.b32 $2, $1;"},
		{"two keys take one cell", `atom\.relaxed\.cta\.shared\.cas\.b32 (%r\d+), (\[%r\d+\]), (%r\d+), (%r\d+);`,
			"ld.relaxed.cta.shared.b32 $1, $2; st.relaxed.cta.shared.b32 $2, $4;"},
		{"a slot loses what lanes add at once", `atom\.relaxed\.gpu\.global\.add\.u32 (%r\d+), (\[%rd\d+\]), (%r\d+);`,
			"ld.relaxed.gpu.global.b32 $1, $2; add.u32 $1, $1, $3; st.relaxed.gpu.global.b32 $2, $1;"},
		{"every second lane of a crowd is dropped", `selp\.b32 (%r\d+), (%r\d+), 0, (%p\d+);(\s+popc\.b32)`,
			"selp.b32 $1, $2, 0, $3; and.b32 $1, $1, 1431655765;$4"},
		{"the ticket of a batch is another's", `ld\.relaxed\.gpu\.global\.b32 (%r\d+), \[%rd\d+\];`, "mov.b32 $1, 0;"},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			quick, random := mutate.DeviceTrials(90, 1, tests)
			mutate.RequireDetected(t, slices.Concat(quick, random), mutate.Replace(t, kernels, m.pattern, m.with))
		})
	}
}
