package cpu

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func open(t testing.TB, workers int) *Device {
	t.Helper()
	d, err := Open(&Options{Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// For any n, grain and number of workers, Parallel visits every index once, in ranges of grain.
func TestParallelVisitsEachIndexOnce(t *testing.T) {
	devices := map[int]*Device{}
	for _, workers := range []int{1, 2, 3, 8} {
		devices[workers] = open(t, workers)
	}
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.SampledFrom([]int{1, 2, 3, 8}).Draw(t, "workers")
		n := rapid.IntRange(0, 3000).Draw(t, "n")
		grain := rapid.IntRange(1, 700).Draw(t, "grain")
		visits := make([]atomic.Int32, n)
		var wrong atomic.Int32
		devices[workers].Parallel(n, grain, func(lo, hi int) {
			if lo%grain != 0 || hi != min(lo+grain, n) {
				wrong.Add(1)
			}
			for i := lo; i < hi; i++ {
				visits[i].Add(1)
			}
		})
		if wrong.Load() != 0 {
			t.Fatalf("%d ranges out of shape", wrong.Load())
		}
		for i := range visits {
			if got := visits[i].Load(); got != 1 {
				t.Fatalf("index %d visited %d times", i, got)
			}
		}
	})
}

// All workers take part: each waits in its range until every worker has a range.
func TestParallelUsesAllWorkers(t *testing.T) {
	const workers = 4
	d := open(t, workers)
	for range 50 {
		var meet sync.WaitGroup
		meet.Add(workers)
		d.Parallel(workers, 1, func(int, int) { meet.Done(); meet.Wait() })
	}
}

func TestConcurrentAndNestedCallsEnd(t *testing.T) {
	for _, workers := range []int{1, 2, 5} {
		d := open(t, workers)
		var sum atomic.Int64
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				for range 20 {
					d.Parallel(17, 3, func(lo, hi int) {
						d.Parallel(hi-lo, 1, func(lo, hi int) { runtime.Gosched(); sum.Add(int64(hi - lo)) })
					})
				}
			})
		}
		callers.Wait()
		if got, want := sum.Load(), int64(4*20*17); got != want {
			t.Errorf("%d workers visited %d of %d", workers, got, want)
		}
	}
}

func TestPanicReachesTheCaller(t *testing.T) {
	d := open(t, 4)
	cause := errors.New("cause")
	for _, n := range []int{1, 1000} {
		func() {
			defer func() {
				err, _ := recover().(error)
				if !errors.Is(err, cause) {
					t.Errorf("n %d: recovered %v", n, err)
				}
				if n > 1 && !strings.Contains(fmt.Sprint(err), "pool_test.go") {
					t.Errorf("n %d: the stack is lost: %v", n, err)
				}
			}()
			d.Parallel(n, 1, func(lo, _ int) {
				if lo == n-1 {
					panic(cause)
				}
			})
			t.Errorf("n %d: no panic", n)
		}()
	}
	var count atomic.Int32
	d.Parallel(1000, 1, func(int, int) { count.Add(1) })
	if count.Load() != 1000 {
		t.Errorf("after a panic %d of 1000 ranges ran", count.Load())
	}
}

// A body that ends its goroutine, as t.FailNow does, neither blocks the caller nor loses a worker.
func TestGoexitReachesTheCaller(t *testing.T) {
	const workers = 4
	d := open(t, workers)
	for range 20 {
		ended := make(chan any)
		go func() {
			var got any
			defer func() { ended <- got }()
			defer func() { got = recover() }()
			var meet sync.WaitGroup
			meet.Add(workers)
			d.Parallel(workers, 1, func(lo, _ int) {
				meet.Done()
				meet.Wait() // each on its own goroutine
				if lo%2 == 1 {
					runtime.Goexit()
				}
			})
		}()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Fatal("the caller waits for a range that ended")
		}
	}
	met := make(chan struct{})
	go func() {
		var meet sync.WaitGroup
		meet.Add(workers)
		d.Parallel(workers, 1, func(int, int) { meet.Done(); meet.Wait() })
		close(met)
	}()
	select {
	case <-met:
	case <-time.After(10 * time.Second):
		t.Error("a worker got lost")
	}
}

func TestParallelOfHugeRanges(t *testing.T) {
	const n = math.MaxInt
	for _, workers := range []int{1, 4} {
		var sum atomic.Int64
		open(t, workers).Parallel(n, n/3, func(lo, hi int) { sum.Add(int64(hi - lo)) })
		if sum.Load() != n {
			t.Errorf("%d workers visited %d of %d", workers, sum.Load(), n)
		}
	}
}

func TestCloseStopsTheWorkers(t *testing.T) {
	before := runtime.NumGoroutine()
	d, err := Open(&Options{Workers: 8})
	if err != nil {
		t.Fatal(err)
	}
	d.Parallel(100, 1, func(int, int) {})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines before, %d after Close", before, after)
	}
	ran := 0
	d.Parallel(100, 1, func(int, int) { ran++ }) // runs on the caller: no race
	if ran != 100 {
		t.Errorf("after Close %d of 100 ranges ran", ran)
	}
}

// BenchmarkParallel measures the distribution of a region with an empty body.
func BenchmarkParallel(b *testing.B) {
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			d := open(b, workers)
			for b.Loop() {
				d.Parallel(workers, 1, func(int, int) {})
			}
		})
	}
}
