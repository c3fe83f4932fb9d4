package cuckoo_test

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
)

// The kernels of both architectures pass the suites on a simulated GPU, in lockstep and
// under random schedules.
func TestConformanceSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, opts := range []sim.Options{{Arch: 80}, {Arch: 90}, {Arch: 80, Scheduler: sim.Random, Seed: 1}, {Arch: 90, Scheduler: sim.Random, Seed: 2}} {
		t.Run(fmt.Sprintf("sm_%d,%s", opts.Arch, opts.Scheduler), func(t *testing.T) {
			t.Parallel()
			dev := devicetest.OpenSim(t, &opts)
			size := conformance.Scale(150)
			suite[uint64, uint64](t, dev, size, &cuckoo.Options{Capacity: 10, MaxLoad: .97})
			if opts.Arch == 90 { // TestSameKernels
				suite[uint32, uint32](t, dev, size, nil)
				setSuite[uint32](t, dev, size, nil)
			}
		})
	}
}
