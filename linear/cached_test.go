package linear_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/mutate"
	"github.com/weftgo/weft/linear"
)

// If a table fits in the cache, few blocks process a batch with a stride, and warps gather the
// operations that one round leaves undecided.
func TestCachedStrides(t *testing.T) {
	conformance.SkipRaced(t, "interprets kernels")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, opts := range []sim.Options{
		{Arch: 80, Scheduler: sim.Random, Seed: 1, Races: true},
		{Arch: 90, Scheduler: sim.Random, Seed: 2, Races: true},
	} {
		t.Run(fmt.Sprintf("sm_%d", opts.Arch), func(t *testing.T) {
			t.Parallel()
			dev := devicetest.OpenSim(t, &opts)
			for _, scheme := range []linear.Tombstones{linear.Keep, linear.Reuse} {
				if opts.Arch == 90 { // see TestSameKernels
					cachedStrides[uint32, uint32](t, dev, scheme)
				}
				cachedStrides[uint64, uint64](t, dev, scheme)
			}
		})
	}
}

// cachedStrides compares a nearly full table with a model, operation by operation. Keys repeat
// within a batch, and some look like sentinels.
func cachedStrides[K, V ~uint32 | ~uint64](t testing.TB, dev device.Device, scheme linear.Tombstones) {
	const ops, keys = 2500, 1500
	dev = devicetest.Small(dev)
	m, err := linear.New[K, V](dev, &linear.Options{Capacity: keys, MaxLoad: .95, Fixed: true, Tombstones: scheme, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	rng, model := rand.New(rand.NewPCG(1, 2)), map[K]V{}
	draw := func() (ks []K, vs []V) {
		for i := range ops {
			ks, vs = append(ks, K(rng.IntN(keys))-4), append(vs, V(i)+1)
		}
		return ks, vs
	}
	flags := make([]bool, ops)
	for range 2 {
		ks, vs := draw()
		before := len(model)
		for i, k := range ks {
			model[k] = vs[i]
		}
		n, err := m.Put(t.Context(), ks, vs)
		conformance.WantCount(t, "Put", n, len(model)-before, err)

		ks, _ = draw()
		ks = ks[:ops/2]
		deletedKeys := make([]bool, len(ks))
		before = len(model)
		for i, k := range ks {
			_, deletedKeys[i] = model[k]
			delete(model, k)
		}
		n, err = m.Delete(t.Context(), ks, flags[:len(ks)])
		conformance.WantCount(t, "Delete", n, before-len(model), err)
		if !slices.Equal(flags[:len(ks)], deletedKeys) {
			t.Fatal("Delete: other keys have been there")
		}

		ks, vs = draw()
		fresh := make([]bool, ops)
		before = len(model)
		for i, k := range ks {
			if _, present := model[k]; !present {
				model[k], fresh[i] = vs[i], true
			}
		}
		n, err = m.PutNew(t.Context(), ks, vs, flags)
		conformance.WantCount(t, "PutNew", n, len(model)-before, err)
		if !slices.Equal(flags, fresh) {
			t.Fatal("PutNew: other keys are new")
		}
	}
	wanted, got, found := make([]K, linear.SpreadKeys+100), make([]V, linear.SpreadKeys+100), make([]bool, linear.SpreadKeys+100)
	hits := 0
	for i := range wanted {
		wanted[i] = K(rng.IntN(2*keys)) - 4
		if _, present := model[wanted[i]]; present {
			hits++
		}
	}
	n, err := m.Get(t.Context(), wanted, got, found)
	conformance.WantCount(t, "Get", n, hits, err)
	for i, k := range wanted {
		if v, present := model[k]; found[i] != present || got[i] != v {
			t.Fatalf("key %#x: %v, %v, want %v, %v", k, got[i], found[i], v, present)
		}
	}
	if err := m.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// Mutants must be detected in which lanes lose operations that they read for each other or leave to
// their warp.
func TestCachedMutantsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	tests := []mutate.KernelTest{{Name: "strides", Run: func(t testing.TB, dev device.Device) {
		cachedStrides[uint32, uint32](t, dev, linear.Keep)
	}}}
	for _, m := range []struct{ name, kernels, pattern, with string }{
		{"a lane keeps its half of the other's sector", "(get|change)_cached_32_32", `shfl\.sync\.bfly\.b32 (%r\d+), (%r\d+),[^;]*;`, "mov.b32 $1, $2;"},
		{"what waits is read before it is written", "(get|change)_cached_32_32", `bar\.warp\.sync [^;]*;`, ""},
		{"what is left of lookups is forgotten", "get_cached_32_32", `st\.shared\.u32 [^;]*;`, ""},
		{"who lost a slot does not see that its key has it", "change_cached_32_32",
			`setp\.ne\.s32 (%p\d+), %r\d+, %r\d+;(\s+setp\.lt\.u64 %p\d+, %rd\d+, -12884901888;)`, "setp.ne.s32 $1, 0, 1;$2"},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			quick, random := mutate.DeviceTrials(90, 1, tests)
			mutate.RequireDetected(t, slices.Concat(quick, random), mutate.Replace(t, m.kernels, m.pattern, m.with))
		})
	}
}
