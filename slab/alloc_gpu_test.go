package slab

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/gpubatch"
)

// onGPUs runs a test on simulated GPUs under schedules of some seeds, and on
// the device that tests are asked to run on, if that has kernels.
func onGPUs(t *testing.T, seeds int, test func(t *testing.T, dev device.Device)) {
	for _, arch := range []int{80, 90} {
		t.Run(fmt.Sprintf("sm_%d", arch), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(seeds) {
				dev, err := sim.Open(&sim.Options{Arch: arch, Seed: seed, Scheduler: sim.Random, Races: true})
				if err != nil {
					t.Fatal(err)
				}
				test(t, dev)
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Run("device", func(t *testing.T) {
		dev := devicetest.Open(t)
		if _, ok := dev.(device.Host); ok {
			t.Skip("no kernels")
		}
		test(t, dev)
	})
}

func isSim(dev device.Device) bool { return dev.Properties().Kind == device.Sim }

// Threads take units, sign them, and give them back, for a while: each has one
// owner at a time, and in the end all are free.
func TestChurnSmoke(t *testing.T) {
	onGPUs(t, 4, func(t *testing.T, dev device.Device) {
		churn(t, dev, 512, 12, 2*512, 0)
	})
}

// A hundred million units taken and given back on a GPU.
func TestChurn(t *testing.T) {
	onGPUs(t, 2, func(t *testing.T, dev device.Device) {
		if isSim(dev) {
			churn(t, dev, 1024, 30, 1024, 0)
			return
		}
		if allocated := churn(t, dev, 1<<20, 200, 1<<21, 0); allocated < 5e7 {
			t.Errorf("%d units allocated", allocated)
		}
	})
}

// With fewer units than threads some find none, and still each unit has one
// owner at a time.
func TestChurnForScarceUnits(t *testing.T) {
	onGPUs(t, 4, func(t *testing.T, dev device.Device) {
		churn(t, dev, 256, 12, 1024, 20)
	})
}

// churn runs that kernel with as many threads and rounds on so many units, of
// which all but a few can be hidden, and returns how often one was taken.
func churn(t testing.TB, dev device.Device, threads, rounds, units, left int) int {
	a, err := NewAlloc(dev, &AllocOptions{Blocks: units / blockUnits, SuperBlocks: 1, MaxSuperBlocks: 1})
	if err != nil {
		t.Fatal(err)
	}
	show := func() error { return nil }
	if left > 0 {
		if show, err = hide(a, left); err != nil {
			t.Fatal(err)
		}
	}
	e := a.engine.(*gpuAlloc)
	if err := e.stream.Fill(e.report.Ptr(), 0, 6); err != nil {
		t.Fatal(err)
	}
	p := churnParams{
		alloc: a.Ref(), allocated: e.word(0), missing: e.word(1), wrong: e.word(2),
		rounds: uint32(rounds), seed: 7,
	}
	if err := device.Launch(e.stream, e.kernel.churn, gpubatch.Grid(threads), gpubatch.Block, &p); err != nil {
		t.Fatal(err)
	}
	var n [3]int
	for i := range n {
		if n[i], err = e.read(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if err := show(); err != nil {
		t.Fatal(err)
	}
	if allocated, missing, wrong := n[0], n[1], n[2]; allocated == 0 || wrong != 0 || missing != 0 != (left > 0) {
		t.Errorf("%d units allocated, %d times there was none, %d times one was not the thread's own", allocated, missing, wrong)
	}
	if s := allocStats(t, a); s.Used != 0 {
		t.Errorf("in the end %d units are taken", s.Used)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return n[0]
}

// All units can be had, each once, by lanes that ask together or one by one;
// who asks for more is told that there is none.
func TestEveryUnitOnce(t *testing.T) {
	onGPUs(t, 2, func(t *testing.T, dev device.Device) {
		for _, single := range []uint32{0, 1} {
			for _, o := range []AllocOptions{{Blocks: 1, SuperBlocks: 2, MaxSuperBlocks: 2}, {Blocks: 1, SuperBlocks: 2, Light: true}} {
				if isSim(dev) && single == 1 && o.Light {
					continue // as slow as the others together
				}
				everyUnit(t, dev, &o, single)
			}
		}
	})
}

func everyUnit(t testing.TB, dev device.Device, o *AllocOptions, single uint32) {
	a, err := NewAlloc(dev, o)
	if err != nil {
		t.Fatal(err)
	}
	e := a.engine.(*gpuAlloc)
	const all, more = 2 * blockUnits, 33
	on, err := device.Make[uint32](dev, all+more)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.stream.Fill(e.word(0), 0, 2); err != nil {
		t.Fatal(err)
	}
	p := allocateParams{alloc: a.Ref(), units: on.Ptr(), missing: e.word(0), n: all + more, single: single}
	if err := device.Launch(e.stream, e.kernel.allocate, gpubatch.Grid(all+more), gpubatch.Block, &p); err != nil {
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
	own(t, a, units[:n], map[uint32]bool{})
	if n != all {
		t.Errorf("%d of %d units were had", n, all)
	}
	if n, err := a.Free(t.Context(), units[:n]); n != all || err != nil {
		t.Errorf("Free: %d, %v", n, err)
	}
	if n, err := a.Free(t.Context(), units[:40]); n != 0 || !errors.Is(err, device.ErrInvalid) {
		t.Errorf("Free of what is free: %d, %v", n, err)
	}
	if err := errors.Join(on.Free(), a.Close()); err != nil {
		t.Fatal(err)
	}
}

// A batch that asks for more than there is makes the allocator grow, and gets
// everything; one that may not grow gets all there is.
func TestAllocatorGrowsInABatch(t *testing.T) {
	onGPUs(t, 1, func(t *testing.T, dev device.Device) {
		a, err := NewAlloc(dev, &AllocOptions{Blocks: 1, MaxSuperBlocks: 3})
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
		if n != left || !errors.Is(err, weft.ErrFull) {
			t.Errorf("Allocate of %d units where there are %d: %d, %v", len(rest), left, n, err)
		}
		own(t, a, rest[:n], taken)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
