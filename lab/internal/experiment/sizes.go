package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/lab/internal/roofline"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/slab"
)

var sizesExperiment = Experiment{
	Name:  "sizes",
	Title: "From small tables and batches to large ones",
	Doc: `On a GPU: tables of 2^10 to 2^28 keys of linear, at loads of .5 and .8, and of slab, at its default utilization,
and for each a batch as large as the table, from columns on the device, by the device's clock: insert (which of equal keys
wins is left open) and insert_ordered into the empty table, get_hit, get_miss and delete. put_registered and
get_registered are batches in page-locked Go slices, by the host's clock, into linear at a load of .5 and into slab. load
is the one asked for. Random accesses are limited in a region as large as the table at a load of .5 (read16@64MiB: in
64 MiB), a power of two, also for the smaller table at .8: small ones lie in the caches. With --n, no size is larger.
These limits are of batches without end, so the share of a small batch tells what submitting it costs. busy is the rate
behind other work on the device, where submitting costs nothing, as in a program that submits batch after batch.

On a CPU: Put and Get of 64-bit pairs on all cores, batch by batch, beside a loop over Go's builtin map, which can use
one core only. Batches have 2^0 to 2^22 keys, drawn from those in the table; Put changes their values. get and put work
on tables of 2^20 keys, get_own and put_own on tables of as many keys as the batch. speedup is the rate over that of the
loop. The parameters crossover_get and so on are the numbers of keys from which on no batch was slower than the loop. Why
there: a call costs a microsecond or two whatever it brings, a loop nothing. Against that a call hashes and fetches many
keys before it compares the first, so that their cache misses overlap, and from 2^13 keys on it uses all cores. Where the
table lies in memory, a few dozen keys pay for the call. A table that lies in a core's own cache has no misses to
overlap; there the loop stays ahead until the table outgrows that cache, or more cores than two share the batch. The limit
of put is a compare-and-swap, which a loop does without.`,
	run: func(ctx context.Context, r *runner) error {
		if r.onGPU() {
			return runSizes(ctx, r)
		}
		return runLoops(ctx, r)
	},
	plots: plotOverSizes,
}

// sizeKinds are the measured structures and their loads.
var sizeKinds = []struct {
	structure string
	load      float64
	always    bool // measured at scale Quick, too
}{{"linear", .5, true}, {"linear", .8, false}, {"slab", .55, true}}

// powers returns powers of two from 2^first to n at most, or n itself if n is smaller. Their binary
// logarithms differ by step.
func (r *runner) powers(first, n int, step map[Scale]int) []int {
	var sizes []int
	for shift := first; 1<<shift <= n; shift += step[r.Scale] {
		sizes = append(sizes, 1<<shift)
	}
	if len(sizes) == 0 {
		sizes = append(sizes, max(n, 1))
	}
	return sizes
}

// regionOf returns the smallest power of two that is at least the given number of bytes, and at
// least 1 KiB.
func regionOf(bytes int) int { return 1 << bits.Len(uint(max(bytes, 1<<10)-1)) }

// withMoreRuns returns a runner that has more runs if batches of n keys are small, since a single
// run is inaccurate then. If the user has set the number of runs, it returns r.
func (r *runner) withMoreRuns(n int) *runner {
	if r.chosen || n > 1<<16 {
		return r
	}
	more := *r
	more.Runs = r.size(5, 21)
	return &more
}

func runSizes(ctx context.Context, r *runner) error {
	// The widest tables; slab has space for any distribution of keys.
	n, err := r.keys(0, 1<<28, 4*16+columnBytes[uint64, uint64]())
	if err != nil {
		return err
	}
	onHost := 1 << 24 // larger batches take long, and copy at the same rate
	switch r.Scale {
	case Quick:
		n, onHost = min(n, 1<<20), 1<<20
	case Full:
		onHost = 1 << 26
	}
	sizes := r.powers(10, n, map[Scale]int{Quick: 4, Default: 2, Full: 1})
	if r.Scale == Quick && n == 1<<20 {
		sizes = append(sizes, n)
	}
	r.result.Parameters["keys"] = sizes[len(sizes)-1]
	if r.props().Kind == device.CUDA {
		if r.busyTimer, err = roofline.NewBusyTimer(ctx, r.watch); err != nil {
			return err
		}
	}
	if err := r.limits(ctx, regionOf(32*min(onHost, n)), roofline.HostToDevice, roofline.DeviceToHost, roofline.HostBoth); err != nil {
		return err
	}
	delete(r.result.Parameters, "limits_region_bytes") // region of copies only
	if err := sizesOf[uint32, uint32](ctx, r, sizes, onHost); err != nil || r.Scale == Quick {
		return err
	}
	return sizesOf[uint64, uint64](ctx, r, sizes, onHost)
}

// sized measures tables of one pair of widths and one number of keys.
type sized[K weft.Key, V weft.Value] struct {
	trial[K, V]
	host             hostBatch[K, V] // page-locked; not measured if shorter than the columns
	hostPut, hostGet string          // names of limits
}

// sizesOf measures tables of one pair of widths. Batches on the host have up to onHost keys.
func sizesOf[K weft.Key, V weft.Value](ctx context.Context, r *runner, sizes []int, onHost int) (err error) {
	var k K
	var v V
	key, value := int(unsafe.Sizeof(k)), int(unsafe.Sizeof(v))
	onHost = min(onHost, sizes[len(sizes)-1])
	r.step("sizes: %d keys in Go slices", onHost)
	b := newHostBatch[K, V](r.Seed, onHost)
	undo, err := b.register(r.Device)
	defer func() { err = errors.Join(err, undo()) }()
	if err != nil {
		return err
	}
	put, get := r.copyLimits(key, value)
	for _, n := range sizes {
		s := sized[K, V]{
			trial: trial[K, V]{runner: r.withMoreRuns(n), keyBits: 8 * key, valueBits: 8 * value},
			host:  b.first(min(n, onHost)), hostPut: put, hostGet: get,
		}
		if err := s.run(ctx, n); err != nil {
			return fmt.Errorf("%d keys of %s: %w", n, s.width(), err)
		}
	}
	return nil
}

func (s *sized[K, V]) run(ctx context.Context, n int) (err error) {
	entry := (s.keyBits + s.valueBits) / 8
	region := regionOf(2 * entry * n)
	narrow, wide, write := s.readLimit(entry), s.slabLimit(), s.writeLimit(entry)
	if err := s.limitsIn(ctx, region, narrow, wide, write); err != nil {
		return err
	}
	s.step("sizes %s: columns of %d keys", s.width(), n)
	if s.cols, err = newColumns[K, V](s.runner, n); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.cols.free()) }()
	s.write = roofline.In(write, region)
	for i, kind := range sizeKinds {
		if s.Scale == Quick && !kind.always {
			continue
		}
		s.structure, s.load, s.read = kind.structure, kind.load, roofline.In(narrow, region)
		if s.structure == "slab" {
			s.read = roofline.In(wide, region)
		}
		before := len(s.result.Rows)
		// A higher load makes no difference to copies.
		fromHost := len(s.host.keys) == n && (i == 0 || kind.structure != sizeKinds[i-1].structure)
		if err := s.measure(ctx, fromHost); err != nil {
			return fmt.Errorf("%s at load %g: %w", s.structure, s.load, err)
		}
		for j := range s.result.Rows[before:] {
			// the load requested; the utilization reached differs slightly between sizes
			s.result.Rows[before+j].Load = s.load
		}
	}
	return nil
}

func (s *sized[K, V]) measure(ctx context.Context, fromHost bool) error {
	if err := s.with(true, func() error {
		if err := s.insert(ctx, "insert"); err != nil {
			return err
		}
		for _, op := range []string{"get_hit", "get_miss"} {
			if err := s.lookup(ctx, op); err != nil {
				return err
			}
		}
		return s.deletes(ctx)
	}); err != nil {
		return err
	}
	return s.with(false, func() error {
		if err := s.insert(ctx, "insert_ordered"); err != nil || !fromHost {
			return err
		}
		row := Row{Structure: s.structure, KeyBits: s.keyBits, ValueBits: s.valueBits}
		return s.host.measure(ctx, s.runner, s.table.(hostTable[K, V]), "_registered", s.hostPut, s.hostGet, row)
	})
}

func (s *sized[K, V]) with(unordered bool, body func() error) (err error) {
	n, seed := s.cols.n, s.Seed+1
	if s.structure == "slab" {
		s.table, err = openSlab[K, V](s.Device, &slab.Options{
			Capacity: n, MaxLoad: s.load, Fixed: true, Unordered: unordered, MaxTombstones: -1, Seed: seed,
		})
	} else {
		s.table, err = openLinear[K, V](s.Device, &linear.Options{Capacity: n, MaxLoad: s.load, Fixed: true, Unordered: unordered, Seed: seed})
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.table.Close()) }()
	return body()
}
