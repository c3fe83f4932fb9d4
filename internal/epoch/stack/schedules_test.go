package stack

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/epoch"
)

var (
	programs = flag.Int("epoch.programs", 1700, "programs of TestSchedules, of six launches each")
	first    = flag.Uint64("epoch.first", 0, "seed of the first of them: with -epoch.programs=1, replays one")
)

// program runs a few launches, two at a time on separate streams, with pins between them. The seed
// determines all choices. It returns the report of the last check and the number of launches.
func program(ctx context.Context, seed uint64, rewrite func(file, ptx string) string) (r Report, launches int, err error) {
	rng := rand.New(rand.NewPCG(seed, 7))
	opts := sim.Options{Seed: seed, Scheduler: sim.Random, Sequential: rng.IntN(4) == 0, Rewrite: rewrite, Memory: 1 << 22, Budget: 1 << 20}
	opts.Races = !opts.Sequential
	opts.Arch = 80 + 10*rng.IntN(2)
	if rng.IntN(4) == 0 {
		opts.Scheduler, opts.Depth = sim.PCT, 2+rng.IntN(3)
	}
	dev, err := sim.Open(&opts)
	if err != nil {
		return r, 0, err
	}
	defer dev.Close()
	x, err := New(ctx, dev, Options{Nodes: 8 + rng.IntN(8), Values: 1 << 10, Slots: 2 + rng.IntN(5)})
	if err != nil {
		return r, 0, err
	}
	var streams [2]*device.Stream
	for i := range streams {
		if streams[i], err = dev.NewStream(); err != nil {
			return r, 0, err
		}
	}
	var pin *epoch.Pin
	for round := range 3 {
		if err = x.round(rng, dev, streams[:]); err != nil {
			return r, launches, err
		}
		launches += 2
		if r, err = x.Check(ctx); err != nil {
			return r, launches, fmt.Errorf("round %d: %w", round, err)
		}
		switch {
		case pin != nil:
			err = pin.Release(x.stream)
			pin = nil
		case rng.IntN(2) == 0:
			pin, err = x.epochs.Pin(x.stream)
		}
		if err = errors.Join(err, x.stream.Sync(ctx)); err != nil {
			return r, launches, err
		}
	}
	if pin != nil {
		err = pin.Release(x.stream)
	}
	if err = errors.Join(err, x.epochs.Collect(x.stream)); err != nil {
		return r, launches, err
	}
	if r, err = x.Check(ctx); err != nil {
		return r, launches, err
	}
	if r.Freed != r.Retired {
		return r, launches, fmt.Errorf("%d nodes freed of %d retired", r.Freed, r.Retired)
	}
	return r, launches, errors.Join(streams[0].Close(), streams[1].Close(), x.Close())
}

// round runs a launch on each stream, and sometimes a second one with blocks that take slots of the
// first.
func (x *Stack) round(rng *rand.Rand, dev device.Device, streams []*device.Stream) error {
	n := len(streams) + rng.IntN(2)
	for i := range n {
		l := Load{
			Blocks: 1 + rng.IntN(3), Threads: 1 + rng.IntN(2), Groups: 4 + rng.IntN(6), Walk: 1 + rng.IntN(3),
			Linger: rng.IntN(2) * rng.IntN(16), Ends: rng.IntN(2) == 0, Readers: rng.IntN(3),
		}
		if err := x.Run(streams[i%len(streams)], l); err != nil {
			return err
		}
	}
	return dev.Sync(context.Background())
}

// TestSchedules runs overlapping launches under any schedule and weak memory. No node may be reused
// while a block reads it, and none may be lost. A long run: go test -run TestSchedules
// -epoch.programs=170000.
func TestSchedules(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	var next, launches, freed, inKernels atomic.Uint64
	next.Store(*first)
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				seed := next.Add(1) - 1
				if seed >= *first+uint64(*programs) || t.Failed() {
					return
				}
				r, n, err := program(t.Context(), seed, nil)
				if err != nil {
					t.Errorf("%v\nreplay: go test -run TestSchedules -epoch.programs=1 -epoch.first=%d", err, seed)
				}
				launches.Add(uint64(n))
				freed.Add(r.Freed)
				inKernels.Add(r.Advanced)
			}
		})
	}
	all.Wait()
	t.Logf("%d launches, %d nodes freed, %d epochs", launches.Load(), freed.Load(), inKernels.Load())
	if n := launches.Load(); *programs > 1 && (freed.Load() < n || inKernels.Load() < n) {
		t.Errorf("%d nodes freed in %d epochs of %d launches: they show nothing", freed.Load(), inKernels.Load(), n)
	}
}
