package cuckoo

import (
	"math"
	"slices"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/gpu"
)

// The constants of the kernels equal those of Go.
func TestConstantsAreTwins(t *testing.T) {
	conformance.CompareConstants(t, map[string]map[string]int{
		"../kernels/include/weft/cuckoo_table.cuh": {"kNarrowLanes": narrowLanes, "kWideLanes": wideLanes},
		"../kernels/include/weft/evict.cuh":        {"kNodes": maxNodes},
		"../kernels/include/weft/lines.cuh":        {"kLineBytes": lineBytes},
		"../kernels/include/weft/slot.cuh":         {"kNone": absent},
		"tuning.cuh":                               {"kBlock": gpu.BlockThreads},
	})
}

// Each function uses all buckets evenly, the buckets of a key differ, and a geometry fills its
// lines.
func TestPaths(t *testing.T) {
	for _, l := range []layout{{slots: 1, slotBytes: 4}, {slots: 8, slotBytes: 8}, {slots: 16, slotBytes: 16}, {slots: 2, slotBytes: 16}} {
		g := l.geometry(bucket.Size{Lines: 64, Seed: 99})
		if per := lineBytes / l.slotBytes; int(g.buckets)*l.slots != int(g.bucketLines())*per {
			t.Errorf("%+v: %d buckets in %d lines", l, g.buckets, g.bucketLines())
		}
		const keys = 1 << 18
		for i := range g.functions {
			n := make([]int, g.buckets)
			for k := range uint64(keys) {
				p := pathOf(g, k)
				if p.first == p.second {
					t.Fatalf("key %d has one bucket, %d", k, p.first)
				}
				n[p.bucket(g, i)]++
			}
			mean := float64(keys) / float64(g.buckets)
			if most := float64(slices.Max(n)); most > mean+7*math.Sqrt(mean) {
				t.Errorf("%+v: function %d gives a bucket %g keys, the mean is %g", l, i, most, mean)
			}
		}
	}
}

// A table is saved on one device and loaded on another, and back. Both devices compute the same
// paths, so each finds the keys that the other has stored.
func TestTablesMoveBetweenDevices(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	host, simulated := devicetest.OpenCPU(t, 2), devicetest.OpenSim(t, &sim.Options{Arch: 90})
	for _, slots := range []int{1, 4, 8} {
		open := conformance.MapOf(New[uint32, uint32], &Options{Capacity: 900, Slots: slots, Seed: 5})
		conformance.SaveAcrossDevices(t, open, conformance.Sequence[uint32](-10, 900), host, simulated)
	}
}
