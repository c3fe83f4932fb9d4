package alloc

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/device/devicetest"
)

// churnRounds is the number of units that all cores take and free.
const churnRounds = 1 << 21

// holders records the holder of each unit.
type holders struct {
	blocks uint32
	taken  []atomic.Bool
}

func newHolders(a *Owner) *holders {
	return &holders{uint32(a.pool.opts.Blocks), make([]atomic.Bool, a.units())}
}

func (o *holders) of(unit uint32) *atomic.Bool {
	return &o.taken[(unit>>superShift)*o.blocks*blockUnits+unit&unitMask]
}

// churn takes and frees units one by one and checks that no unit has two holders. It returns the
// units that it keeps.
func (o *holders) churn(t *testing.T, w *Worker, rng *rand.Rand, rounds, limit int) (held []uint32) {
	for range rounds {
		if len(held) < limit && rng.IntN(2) == 0 {
			w.tried = 0 // another worker may have freed units
			if u := w.AllocateOne(); u != NoUnit {
				if !o.of(u).CompareAndSwap(false, true) {
					t.Errorf("unit %#x was given out twice", u)
				}
				held = append(held, u)
			}
			continue
		}
		if len(held) == 0 {
			continue
		}
		i := rng.IntN(len(held))
		u := held[i]
		held[i] = held[len(held)-1]
		held = held[:len(held)-1]
		o.of(u).Store(false)
		if !w.local.Free(u) {
			t.Errorf("unit %#x was not taken when its owner freed it", u)
		}
	}
	return held
}

// TestWorkersInParallel checks that concurrent workers never share a unit and lose none, even in an
// allocator that is almost full.
func TestWorkersInParallel(t *testing.T) {
	const workers, rounds = 8, churnRounds / 8
	a := newOwner(t, devicetest.OpenCPU(t, 1), &Options{Blocks: 2, SuperBlocks: 2})
	for _, most := range []int{50, a.units()/workers + 10} {
		o := newHolders(a)
		left := make([][]uint32, workers)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				l := a.Local()
				r := l.Worker()
				left[w] = o.churn(t, &r, rand.New(rand.NewPCG(uint64(w), 1)), rounds, most)
			})
		}
		wg.Wait()
		sum := 0
		for _, mine := range left {
			sum += len(mine)
			if n, err := a.Free(t.Context(), mine); n != len(mine) || err != nil {
				t.Errorf("at the end %d of %d units were freed: %v", n, len(mine), err)
			}
		}
		if s := usage(t, a); s.Used != 0 {
			t.Errorf("%d units had an owner at the end; without them: %v", sum, s)
		}
	}
}

// TestBatchesInParallel runs batches of many goroutines, each on all cores, while the allocator
// grows.
func TestBatchesInParallel(t *testing.T) {
	a := newOwner(t, devicetest.OpenCPU(t, 4), &Options{Blocks: 4})
	const goroutines, rounds = 4, 10
	kept := make([][]uint32, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 2))
			for range rounds {
				units := make([]uint32, rng.IntN(churnRounds/goroutines/rounds))
				if n, err := a.Allocate(t.Context(), units); n != len(units) || err != nil {
					t.Errorf("Allocate of %d units: %d, %v", len(units), n, err)
				}
				rng.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
				back := units[:len(units)*2/3]
				if n, err := a.Free(t.Context(), back); n != len(back) || err != nil {
					t.Errorf("Free of %d units: %d, %v", len(back), n, err)
				}
				kept[g] = append(kept[g], units[len(back):]...)
			}
		})
	}
	wg.Wait()
	o, sum := newHolders(a), 0
	for _, mine := range kept {
		sum += len(mine)
		for _, u := range mine {
			if o.of(u).Swap(true) {
				t.Fatalf("unit %#x has two owners", u)
			}
		}
	}
	if s := usage(t, a); s.Used != sum || a.pool.Stats().SuperBlocks < 2 {
		t.Errorf("%d units have an owner; %v", sum, s)
	}
}

// TestWorkerFindsTheLastUnit checks that a worker that sweeps finds the last free unit in any
// place. A worker that does not sweep stops after 32 blocks.
func TestWorkerFindsTheLastUnit(t *testing.T) {
	a := newOwner(t, devicetest.OpenCPU(t, 2), &Options{Blocks: 100, SuperBlocks: 3, Light: true})
	all := make([]uint32, a.units())
	if n, err := a.Allocate(t.Context(), all); n != len(all) || err != nil {
		t.Fatal(n, err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	missed := 0
	for range 100 {
		last := all[rng.IntN(len(all))]
		l := a.Local()
		l.Free(last)
		few := l
		few.Tries = hashedTries
		r := few.Worker()
		u := r.AllocateOne()
		if u == NoUnit {
			missed++
			r = l.Worker()
			u = r.AllocateOne()
		}
		if u != last {
			t.Fatalf("the last free unit is %#x, found was %#x", last, u)
		}
		if u := r.AllocateOne(); u != NoUnit || r.tried > r.local.Tries {
			t.Fatalf("unit %#x was found, too, after %d blocks", u, r.tried)
		}
	}
	if missed < 80 { // about one of ten workers finds the unit
		t.Errorf("%d random blocks of 300 were enough %d times of 100", hashedTries, 100-missed)
	}
}

// TestWorkersSpread checks that workers begin in different places.
func TestWorkersSpread(t *testing.T) {
	a := newOwner(t, devicetest.OpenCPU(t, 1), &Options{Blocks: 1000, SuperBlocks: 1})
	l, seen := a.Local(), make(map[uint32]bool)
	for range 200 {
		r := l.Worker()
		for range 5 {
			r.nextBlock()
			seen[r.first] = true
		}
	}
	// 1000 draws from 1000 blocks miss a share of 1/e.
	if n := len(seen); n < 580 || n > 680 {
		t.Errorf("200 workers with 5 blocks each saw %d of 1000", n)
	}
}

func TestLowestBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, n := rapid.Uint32().Draw(t, "x"), rapid.IntRange(0, 40).Draw(t, "n")
		got := lowestBits(x, n)
		want := min(n, bits.OnesCount32(x))
		if got&^x != 0 || bits.OnesCount32(got) != want || x&^got&(1<<bits.Len32(got)-1) != 0 {
			t.Fatalf("the %d lowest bits of %#x are %#x", n, x, got)
		}
	})
}

func BenchmarkAlloc(b *testing.B) {
	a := newOwner(b, devicetest.OpenCPU(b, 1), &Options{SuperBlocks: 40})
	units := make([]uint32, 5_000_000)
	all := func(b *testing.B, f func(context.Context, []uint32) (int, error)) {
		if n, err := f(b.Context(), units); n != len(units) || err != nil {
			b.Fatal(n, err)
		}
	}
	rate := func(b *testing.B, n int) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/unit")
	}
	b.Run("allocate", func(b *testing.B) {
		for b.Loop() {
			all(b, a.Allocate)
			b.StopTimer()
			all(b, a.Free)
			b.StartTimer()
		}
		rate(b, len(units))
	})
	b.Run("free", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			all(b, a.Allocate)
			rand.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
			b.StartTimer()
			all(b, a.Free)
		}
		rate(b, len(units))
	})
	b.Run("one by one", func(b *testing.B) {
		for b.Loop() {
			l := a.Local()
			r := l.Worker()
			for i := range units {
				units[i] = r.AllocateOne()
			}
			b.StopTimer()
			all(b, a.Free)
			b.StartTimer()
		}
		rate(b, len(units))
	})
}
