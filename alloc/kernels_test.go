package alloc

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/mutate"
	"github.com/weftgo/weft/internal/op"
)

// allocTests lists tests of kernels. TestKernels runs them on the original kernels,
// TestRandomMutants on mutants.
var allocTests = []mutate.KernelTest{
	{Name: "churn", Run: func(t testing.TB, dev device.Device) { churn(t, dev, 512, 12, 2*512, 0) }},
	{Name: "churn for scarce units", Run: func(t testing.TB, dev device.Device) { churn(t, dev, 256, 12, 1024, 20) }},
	{Name: "every unit once", Run: func(t testing.TB, dev device.Device) {
		everyUnit(t, dev, &Options{Blocks: 1, SuperBlocks: 2, MaxSuperBlocks: 2}, 0)
		everyUnit(t, dev, &Options{Blocks: 1, SuperBlocks: 2, Light: true}, 0)
	}},
	{Name: "every unit once, one by one", Run: func(t testing.TB, dev device.Device) {
		everyUnit(t, dev, &Options{Blocks: 1, SuperBlocks: 2, MaxSuperBlocks: 2}, 1)
	}},
	{Name: "growth", Run: allocatorGrows},
	{Name: "spread", Run: unitsSpread},
}

// allocSeeds is the number of schedules for each test.
const allocSeeds = 3

// TestKernels checks that each unit is allocated once under concurrent use.
func TestKernels(t *testing.T) {
	mutate.RunOnSim(t, allocTests, allocSeeds, 90)
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); ok {
		return
	}
	for _, test := range allocTests {
		t.Run(test.Name, func(t *testing.T) { test.Run(t, dev) })
	}
}

// TestChurnSmoke runs the kernel churn, so that tools can check each of its memory accesses.
func TestChurnSmoke(t *testing.T) {
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); ok {
		t.Skip("no kernels")
	}
	churn(t, dev, 512, 12, 2*512, 0)
}

// TestSmoke runs all kernels in a few launches, for the same tools.
func TestSmoke(t *testing.T) {
	dev := devicetest.Open(t)
	for _, light := range []bool{false, true} {
		a, err := openOwner(dev, &Options{Blocks: 1, SuperBlocks: 1, MaxSuperBlocks: 1, Light: light})
		if err != nil {
			t.Fatal(err)
		}
		units := make([]uint32, 1100)
		if n, err := a.Allocate(t.Context(), units); n != 1024 || !errors.Is(err, op.ErrFull) {
			t.Fatalf("Allocate: %d, %v", n, err)
		}
		if n, err := a.Free(t.Context(), units[:1000]); n != 1000 || err != nil {
			t.Fatalf("Free: %d, %v", n, err)
		}
		if u := usage(t, a); u.Used != 24 {
			t.Errorf("%v", u)
		}
		if err := a.pool.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestChurn takes and frees a hundred million units on a GPU.
func TestChurn(t *testing.T) {
	dev := devicetest.Open(t)
	if dev.Properties().Kind != device.CUDA {
		t.Skip("takes a GPU")
	}
	if allocated := churn(t, dev, 1<<20, 200, 1<<21, 0); allocated < 5e7 {
		t.Errorf("%d units allocated", allocated)
	}
}

// churn runs the kernel churn with the given threads and rounds. If left is not 0, only left units
// stay free for the kernel. It returns the number of times that a unit was taken.
func churn(t testing.TB, dev device.Device, threads, rounds, units, left int) int {
	a, err := openOwner(dev, &Options{Blocks: units / blockUnits, SuperBlocks: 1, MaxSuperBlocks: 1})
	if err != nil {
		t.Fatal(err)
	}
	hidden := make([]uint32, 0, units)
	if left > 0 {
		hidden = hidden[:units-left]
		if _, err := a.Allocate(t.Context(), hidden); err != nil {
			t.Fatal(err)
		}
	}
	e := a.pool.engine.(*gpuEngine)
	if err := e.stream.Fill(e.report.Ptr(), 0, 6); err != nil {
		t.Fatal(err)
	}
	p := churnParams{
		alloc: a.Ref(true), allocated: e.word(0), missing: e.word(1), wrong: e.word(2),
		rounds: uint32(rounds), seed: 7,
	}
	if err := device.Launch(e.stream, e.kernel.churn, gpu.Grid(threads), gpu.Block, &p); err != nil {
		t.Fatal(err)
	}
	var n [3]int
	for i := range n {
		if n[i], err = e.read(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Free(t.Context(), hidden); err != nil {
		t.Fatal(err)
	}
	if allocated, missing, wrong := n[0], n[1], n[2]; allocated == 0 || wrong != 0 || missing != 0 != (left > 0) {
		t.Errorf("%d units allocated, %d times there was none, %d times one was not the thread's own", allocated, missing, wrong)
	}
	if s := usage(t, a); s.Used != 0 {
		t.Errorf("in the end %d units are taken", s.Used)
	}
	if err := a.pool.Close(); err != nil {
		t.Fatal(err)
	}
	return n[0]
}

// everyUnit allocates all units, each once, to lanes that request them together or one by one.
// Further requests must find none.
func everyUnit(t testing.TB, dev device.Device, o *Options, single uint32) {
	a, err := openOwner(dev, o)
	if err != nil {
		t.Fatal(err)
	}
	e := a.pool.engine.(*gpuEngine)
	const all, more = 2 * blockUnits, 33
	on, err := device.Make[uint32](dev, all+more)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.stream.Fill(e.word(0), 0, 2); err != nil {
		t.Fatal(err)
	}
	p := allocateParams{alloc: a.Ref(true), units: on.Ptr(), missing: e.word(0), n: all + more, single: single}
	if err := device.Launch(e.stream, e.kernel.allocate, gpu.Grid(all+more), gpu.Block, &p); err != nil {
		t.Fatal(err)
	}
	units := make([]uint32, all+more)
	if err := on.CopyTo(t.Context(), e.stream, units); err != nil {
		t.Fatal(err)
	}
	if n, err := e.read(t.Context(), 0); n != more || err != nil {
		t.Errorf("%d units are missing, want %d: %v", n, more, err)
	}
	n := compact(units, len(units), more)
	claim(t, a, units[:n], map[uint32]bool{})
	if n != all {
		t.Errorf("%d of %d units were had", n, all)
	}
	if n, err := a.Free(t.Context(), units[:n]); n != all || err != nil {
		t.Errorf("Free: %d, %v", n, err)
	}
	if n, err := a.Free(t.Context(), units[:40]); n != 0 || !errors.Is(err, device.ErrInvalid) {
		t.Errorf("Free of what is free: %d, %v", n, err)
	}
	if err := errors.Join(on.Free(), a.pool.Close()); err != nil {
		t.Fatal(err)
	}
}

// allocatorGrows runs a batch that exceeds the memory. The allocator must grow and serve the whole
// batch. If it must not grow, it must allocate all its units.
func allocatorGrows(t testing.TB, dev device.Device) {
	a, err := openOwner(dev, &Options{Blocks: 1, MaxSuperBlocks: 3})
	if err != nil {
		t.Fatal(err)
	}
	taken := map[uint32]bool{}
	for _, n := range []int{1, 1000, 1500} {
		allocate(t, a, n, taken)
	}
	rest := make([]uint32, 1000)
	left := 3*blockUnits - len(taken)
	n, err := a.Allocate(context.Background(), rest)
	if n != left || !errors.Is(err, op.ErrFull) {
		t.Errorf("Allocate of %d units where there are %d: %d, %v", len(rest), left, n, err)
	}
	claim(t, a, rest[:n], taken)
	if err := a.pool.Close(); err != nil {
		t.Fatal(err)
	}
}

// unitsSpread makes each warp take a unit of one memory block. Warps begin at different words of
// its bitmap, so that they rarely try the same units.
func unitsSpread(t testing.TB, dev device.Device) {
	a, err := openOwner(dev, &Options{Blocks: 1, SuperBlocks: 1, MaxSuperBlocks: 1})
	if err != nil {
		t.Fatal(err)
	}
	units := make([]uint32, 1024)
	if n, err := a.Allocate(t.Context(), units); n != len(units) || err != nil {
		t.Errorf("Allocate: %d, %v", n, err)
	}
	for warp := range 32 {
		if first := slices.Min(units[32*warp : 32*warp+32]); int(first/32) != warp {
			t.Errorf("warp %d begins with unit %d", warp, first)
		}
	}
	if err := a.pool.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSameKernels checks that the kernels of both architectures are equal, so that interpreting one
// of them suffices.
func TestSameKernels(t *testing.T) { conformance.SameKernels(t, "alloc") }
