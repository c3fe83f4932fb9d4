package dst

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
)

var (
	seeds = flag.Int("sim.seeds", 0, "schedules to try per test of concurrency; 0: the test's own number")
	first = flag.Uint64("sim.seed", 0, "first seed of tests of concurrency: with -sim.seeds=1, replays one")
)

// Config is a structure to test and how.
type Config[K weft.Key, V weft.Value] struct {
	// New makes an empty structure of a shape.
	New func(dev device.Device, shape Shape) (Subject[K, V], error)
	// Arch is the architecture whose kernels run: 80 or 90. Default 90.
	Arch int
	// Shapes of programs. Default: [Shapes].
	Shapes []Shape
	// Uniform structures take no mixed batches.
	Uniform bool
	// Unordered structures don't promise that the operations of a batch of
	// one kind have the outcome of batch order.
	Unordered bool
	// First seed to try and how many. Default 0 and 40; [Run] lets the flags
	// -sim.seed and -sim.seeds decide.
	First uint64
	Seeds int
	// Rewrite breaks the kernels on purpose; see [sim.Options].
	Rewrite func(file, ptx string) string
}

// launches counts the kernels that all programs have launched.
var launches atomic.Int64

const defaultSeeds = 40

// A Failure is a program that went wrong.
type Failure struct {
	Seed   uint64
	Shape  Shape
	How    string // scheduler and memory
	Err    error
	Shrunk string // the smallest program found that fails
	Ops    int    // in that program
}

// Run tries many schedules and fails the test with the first that goes wrong.
func Run[K weft.Key, V weft.Value](t *testing.T, cfg Config[K, V]) {
	t.Helper()
	if *seeds > 0 {
		cfg.Seeds = *seeds
	}
	if *first > 0 {
		cfg.First = *first
	}
	before := launches.Load()
	f, tried := Find(cfg)
	if f == nil {
		t.Logf("%d programs, %d launches, each under a schedule of its own", tried, launches.Load()-before)
		return
	}
	pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	t.Fatalf("%v\nseed %d, shape %q, %s; shrunk to %d operations:\n%s\nreplay: go test . -run '%s' -sim.seeds=1 -sim.seed=%d",
		f.Err, f.Seed, f.Shape.Name, f.How, f.Ops, f.Shrunk, pattern, f.Seed)
}

// Find tries seeds in order and returns the first failure, shrunk, or nil, and
// how many it tried.
func Find[K weft.Key, V weft.Value](cfg Config[K, V]) (f *Failure, tried int) {
	if len(cfg.Shapes) == 0 {
		cfg.Shapes = Shapes
	}
	n := cfg.Seeds
	if n == 0 {
		n = defaultSeeds
	}
	for i := range uint64(n) {
		if f := try(&cfg, cfg.First+i); f != nil {
			return f, int(i) + 1
		}
	}
	return nil, n
}

// try makes up a program and runs it. The seed decides everything.
func try[K weft.Key, V weft.Value](cfg *Config[K, V], seed uint64) *Failure {
	rng := rand.New(rand.NewPCG(seed, 0))
	shape := cfg.Shapes[rng.IntN(len(cfg.Shapes))]
	opts := sim.Options{Seed: seed, Arch: cfg.Arch, Rewrite: cfg.Rewrite, Scheduler: sim.Random, Sequential: rng.IntN(2) == 0}
	if rng.IntN(4) == 0 {
		opts.Scheduler, opts.Depth = sim.PCT, 2+rng.IntN(3)
	}
	p := generate[K, V](rng, shape, cfg.Uniform)
	err := attempt(cfg, shape, opts, p)
	if err == nil {
		return nil
	}
	how := fmt.Sprintf("scheduler %s, ", opts.Scheduler)
	if opts.Sequential {
		how += "sequential memory"
	} else {
		how += "weak memory"
	}
	small, opts, err := shrink(cfg, shape, opts, p, err)
	return &Failure{Seed: seed, Shape: shape, How: how, Err: err, Shrunk: small.String(), Ops: small.size()}
}

// attempt runs a program once; nil if all is well.
func attempt[K weft.Key, V weft.Value](cfg *Config[K, V], shape Shape, opts sim.Options, p program[K, V]) error {
	history, err := execute(cfg, shape, opts, p)
	if err != nil {
		return err
	}
	return check(history, shape.Fixed)
}
