package dst

import (
	"cmp"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
)

var (
	seeds = flag.Int("sim.seeds", 0, "schedules to try per test of concurrency; 0: the test's own number")
	first = flag.Uint64("sim.seed", 0, "first seed of tests of concurrency: with -sim.seeds=1, replays one")
)

// Config specifies the structure to test and the programs to run on it.
type Config[K weft.Key, V weft.Value] struct {
	// New makes an empty structure for programs of the given shape.
	New func(dev device.Device, shape Shape) (Subject[K, V], error)
	// Arch is the architecture of the kernels, 80 or 90. The default is 90.
	Arch int
	// Shapes are the shapes of the programs. The default is the variable [Shapes].
	Shapes []Shape
	// Uniform means that the structure has no mixed batches and no values, as a set.
	Uniform bool
	// Multi means that the structure is a multimap, made by [MultiMap].
	Multi bool
	// Reduce makes programs also combine values. The structure must be a map with integer values.
	Reduce bool
	// Updates makes mixed batches also replace values of present keys. The structure must support
	// that.
	Updates bool
	// newOrdered returns the actions that only ordered maps support: see [AtomicBatches].
	newOrdered func(r *runner[K, V]) orderedActions
	// Loads makes batches of PutNews run as GetOrPuts. The structure must be a map. A GetOrPut does
	// not report rows that overflow, so no shape may have a fixed size.
	Loads bool
	// Upkeep lists maintenance calls that programs make between batches. They must not change the
	// content.
	Upkeep []Upkeep[K, V]
	// RetriesOps means that operations may run again after their batch. Then their memory accesses
	// do not show when they took effect.
	RetriesOps bool
	// Unordered means that the structure does not run batches of one kind in batch order.
	Unordered bool
	// First is the first seed, Seeds the number of seeds. The defaults are 0 and 40. In [Run] the
	// flags -sim.seed and -sim.seeds override them.
	First uint64
	Seeds int
	// Wrap, if not nil, wraps the device of the structure.
	Wrap func(device.Device) device.Device
	// Rewrite changes the kernels, usually to break them; see [sim.Options].
	Rewrite func(file, ptx string) string
	// NoShrink disables shrinking, which saves time if only the existence of a failure matters.
	NoShrink bool
	// stream makes the programs for one seed differ between tests.
	stream uint64
}

const defaultSeeds = 40

// Upkeep is a maintenance call between batches.
type Upkeep[K weft.Key, V weft.Value] struct {
	Name string
	Do   func(Subject[K, V]) error
}

// Failure is a failing program.
type Failure struct {
	Seed       uint64
	Shape      Shape
	Schedule   string // scheduler and memory model
	Err        error
	Shrunk     string // smallest failing program found
	Ops        int    // number of operations in Shrunk
	ShrunkErr  error  // failure of Shrunk
	ShrunkSeed uint64 // seed of the schedule under which Shrunk fails
}

// String formats all fields of a failure.
func (f *Failure) String() string {
	s := fmt.Sprintf("seed %d, shape %q, %s: %v\n", f.Seed, f.Shape.Name, f.Schedule, f.Err)
	return s + fmt.Sprintf("shrunk to %d operations, which fail under the schedule of seed %d: %v\n%s", f.Ops, f.ShrunkSeed, f.ShrunkErr, f.Shrunk)
}

func replay(test string, seed uint64) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return fmt.Sprintf("replay: go test . -run '%s' -sim.seeds=1 -sim.seed=%d", strings.Join(parts, "/"), seed)
}

// Tally counts the work of a test.
type Tally struct {
	Programs int
	Launches int // kernel launches, each under its own schedule
	Steps    int // steps of the longest search for an order
}

// String formats the tally for a test's log.
func (t Tally) String() string {
	return fmt.Sprintf("%d programs, %d launches, each under a schedule of its own; longest search %d steps of %d", t.Programs, t.Launches, t.Steps, maxSteps)
}

func (t *Tally) add(o Tally) {
	t.Programs += o.Programs
	t.Launches += o.Launches
	t.Steps = max(t.Steps, o.Steps)
}

// Run runs programs under many schedules and fails the test at the first failure. It skips the test
// under -short and under the race detector, because it interprets kernels.
func Run[K weft.Key, V weft.Value](t *testing.T, cfg Config[K, V]) {
	t.Helper()
	// Raced is a constant. So under the race detector, the code below is not compiled for each pair
	// of types.
	if conformance.Raced {
		t.Skip("the simulator has goroutines of its own")
		return
	}
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	cfg.Seeds = Seeds(cfg.Seeds)
	if *first > 0 {
		cfg.First = *first
	}
	h := fnv.New64a()
	h.Write([]byte(t.Name()))
	cfg.stream = h.Sum64()
	f, tried := Find(cfg)
	if f == nil {
		t.Log(tried)
		return
	}
	t.Fatalf("%v\n%s", f, replay(t.Name(), f.Seed))
}

// Seeds returns the value of -sim.seeds, or half of n if the flag is not set. Released kernels did
// not fail for any of a million seeds.
func Seeds(n int) int { return cmp.Or(*seeds, (n+1)/2) }

// Explore calls Run in a parallel subtest, which is named by the types and the mode.
func Explore[K weft.Key, V weft.Value](t *testing.T, mode fmt.Stringer, cfg Config[K, V]) {
	t.Run(cfg.types()+","+mode.String(), func(t *testing.T) {
		t.Parallel()
		Run(t, cfg)
	})
}

func (cfg *Config[K, V]) types() string {
	switch pair := fmt.Sprintf("%T,%T", *new(K), *new(V)); {
	case cfg.Uniform:
		return fmt.Sprintf("set %T", *new(K))
	case cfg.Multi:
		return "multimap " + pair
	default:
		return pair
	}
}

// Reducing returns a copy of cfg with Reduce set.
func (cfg Config[K, V]) Reducing() Config[K, V] {
	cfg.Reduce = true
	return cfg
}

// Updating returns a copy of cfg with Updates set.
func (cfg Config[K, V]) Updating() Config[K, V] {
	cfg.Updates = true
	return cfg
}

// AtomicBatches returns a copy of cfg for ordered maps with atomic batches, which run one after
// another, each in batch order. Programs then also use ranges and snapshots ([OrderedMap]). Each
// lookup must see the content between two changes.
func AtomicBatches[K weft.Key, V weft.Value](cfg Config[K, V]) Config[K, V] {
	cfg.newOrdered = newOrderedRunner[K, V]
	return cfg
}

// WithSeeds returns a copy of cfg with the given number of seeds. Fewer seeds suffice if tests with
// other widths use the same slots, and so the same memory orders.
func (cfg Config[K, V]) WithSeeds(seeds int) Config[K, V] {
	cfg.Seeds = seeds
	return cfg
}

// setup is a configuration without the types of the structure. Programs, histories and models
// represent keys and values as numbers ([types]).
type setup struct {
	Config[uint64, uint64]
	types
	atomicBatches bool
	execute       func(shape Shape, opts sim.Options, p program) (_ *history, launches int, err error)
}

func (cfg Config[K, V]) erase() *setup {
	x := &setup{
		Config: Config[uint64, uint64]{
			Arch: cfg.Arch, Shapes: cfg.Shapes, Uniform: cfg.Uniform, Multi: cfg.Multi, Reduce: cfg.Reduce, Updates: cfg.Updates,
			Loads: cfg.Loads, First: cfg.First, Seeds: cfg.Seeds, Rewrite: cfg.Rewrite, NoShrink: cfg.NoShrink, stream: cfg.stream,
		},
		types: typesOf[K, V](), atomicBatches: cfg.newOrdered != nil,
		execute: func(shape Shape, opts sim.Options, p program) (*history, int, error) {
			return execute(&cfg, shape, opts, p)
		},
	}
	for _, u := range cfg.Upkeep {
		x.Upkeep = append(x.Upkeep, Upkeep[uint64, uint64]{Name: u.Name})
	}
	return x
}

// Find tries seeds in order until one fails. It returns the failure, shrunk, or nil if none fails.
// It also returns the tally.
func Find[K weft.Key, V weft.Value](cfg Config[K, V]) (f *Failure, tried Tally) {
	return cfg.erase().find()
}

func (cfg *setup) find() (f *Failure, tried Tally) {
	if cfg.Reduce {
		cfg.Shapes = reducingShapes
	}
	if cfg.atomicBatches && len(cfg.Shapes) == 0 {
		cfg.Shapes = atomicShapes
	}
	if len(cfg.Shapes) == 0 {
		cfg.Shapes = Shapes
	}
	if cfg.Loads {
		cfg.Shapes = slices.DeleteFunc(slices.Clone(cfg.Shapes), func(s Shape) bool { return s.Fixed })
	}
	n := cfg.Seeds
	if n == 0 {
		n = defaultSeeds
	}
	for i := range uint64(n) {
		f, one := cfg.trySeed(cfg.First + i)
		tried.add(one)
		if f != nil {
			return f, tried
		}
	}
	return nil, tried
}

// trySeed generates a program and runs it. The seed determines the program, the device and the
// schedule.
func (cfg *setup) trySeed(seed uint64) (*Failure, Tally) {
	rng := rand.New(rand.NewPCG(seed, cfg.stream))
	shape := cfg.Shapes[rng.IntN(len(cfg.Shapes))]
	opts := sim.Options{Seed: seed, Arch: cfg.Arch, Rewrite: cfg.Rewrite, Scheduler: sim.Random, Sequential: rng.IntN(2) == 0}
	opts.Races = !opts.Sequential
	if seed%2 == 1 {
		opts.L2 = 1 // smaller than any table
	}
	if rng.IntN(4) == 0 {
		opts.Scheduler, opts.Depth = sim.PCT, 2+rng.IntN(3)
	}
	p := generate(rng, shape, cfg)
	tally, err := cfg.attempt(shape, opts, p)
	if err == nil {
		return nil, tally
	}
	schedule := fmt.Sprintf("scheduler %s, ", opts.Scheduler)
	if opts.Sequential {
		schedule += "sequential memory"
	} else {
		schedule += "weak memory"
	}
	small, shrunkSeed, e := p, seed, err
	if !cfg.NoShrink {
		small, shrunkSeed, e = cfg.shrink(shape, opts, p, err)
	}
	return &Failure{Seed: seed, Shape: shape, Schedule: schedule, Err: err, Shrunk: small.String(), Ops: small.size(), ShrunkErr: e, ShrunkSeed: shrunkSeed}, tally
}

func (cfg *setup) attempt(shape Shape, opts sim.Options, p program) (Tally, error) {
	history, launches, err := cfg.execute(shape, opts, p)
	tally := Tally{Programs: 1, Launches: launches}
	if err == nil {
		history.reduces, history.atomicBatches, history.reduce = cfg.Reduce, cfg.atomicBatches, cfg.reduce
		tally.Steps, err = history.check()
	}
	return tally, err
}
