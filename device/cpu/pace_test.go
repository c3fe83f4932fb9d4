package cpu

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func spin(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
	}
}

// keepBusy runs Parallel until the test ends, with ranges that each take the given time. It counts
// the ranges.
func keepBusy(t *testing.T, long time.Duration) *atomic.Int64 {
	d := open(t, runtime.GOMAXPROCS(0))
	var ranges atomic.Int64
	var stop atomic.Bool
	var caller sync.WaitGroup
	caller.Go(func() {
		for !stop.Load() {
			d.Parallel(1000*runtime.GOMAXPROCS(0), 1, func(int, int) {
				if !stop.Load() {
					spin(long)
					ranges.Add(1)
				}
			})
		}
	})
	t.Cleanup(func() { stop.Store(true); caller.Wait() })
	for ranges.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	return &ranges
}

// retry calls ask up to five times, because other work on the machine may disturb a measurement.
func retry(t *testing.T, ask func() (ok bool, say string)) {
	t.Helper()
	for try := 1; ; try++ {
		ok, say := ask()
		if ok {
			return
		}
		if t.Logf("try %d: %s", try, say); try == 5 {
			t.Fatal("too slow five times")
		}
	}
}

// A context ends on time while Parallel uses all cores. Without yields it would end after 20 ms.
func TestDeadlinesBesideParallel(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	keepBusy(t, time.Millisecond)
	retry(t, func() (bool, string) {
		took := make([]time.Duration, 50)
		for i := range took {
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			<-ctx.Done()
			cancel()
			took[i] = time.Since(begin)
		}
		slices.Sort(took)
		p50 := took[len(took)/2]
		return p50 < 6*time.Millisecond, "a deadline of 1 ms ended after " + p50.String()
	})
}

// Other goroutines that compute get their share of the cores, and not more. A goroutine that yields
// to one that does not would get only a twentieth.
func TestConcurrentParallel(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	ranges := keepBusy(t, 100*time.Microsecond)
	var stop atomic.Bool
	var others sync.WaitGroup
	defer others.Wait()
	defer stop.Store(true)
	rate := func() float64 {
		begin, before := time.Now(), ranges.Load()
		time.Sleep(300 * time.Millisecond)
		return float64(ranges.Load()-before) / time.Since(begin).Seconds()
	}
	retry(t, func() (bool, string) {
		alone := rate()
		stop.Store(false)
		for range runtime.GOMAXPROCS(0) {
			others.Go(func() {
				for !stop.Load() {
				}
			})
		}
		share := rate() / alone
		stop.Store(true)
		others.Wait()
		return share > .25, fmt.Sprintf("Parallel got %.0f %% of the cores", 100*share)
	})
}
