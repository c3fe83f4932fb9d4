package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
)

// slabAllocators are the rates of allocators in the SlabHash paper (section V): 10^6 threads
// allocate 128 bytes each.
var slabAllocators = []Published{
	{"K40c, malloc", .8e6, "op/s"},
	{"K40c, Halloc", 16.1e6, "op/s"},
	{"K40c, SlabAlloc", 600e6, "op/s"},
}

var slabAllocExperiment = Experiment{
	Name:  "slabhash-alloc",
	Title: "SlabAlloc: units of 128 bytes, allocated and freed",
	Doc: `After section V of the SlabHash paper, which gives one unit of 128 bytes to each of 10^6 threads on a Tesla K40c:
CUDA's malloc 0.8 M units a second, Halloc 16.1 M, SlabAlloc 600 M. Here every lane of a warp asks for one unit.
allocate takes 2^22 units (2^16 on a CPU), or half of a small pool, from an empty pool, and free gives them back; units
is the size of the pool, of which 2^29 have a bitmap of 64 MiB, beyond the last cache of an H200. allocate_churn takes
as many units as free_churn has given back before, a 32nd of the pool in random order, in a pool that is otherwise as
full as load says. The limit is one compare-and-swap for each unit in memory as large as the bitmaps of 2^24 units (2^18
on a CPU); one atomic operation can serve all lanes of a warp, so a share may be above it.`,
	run:       runSlabAlloc,
	plots:     plotSlabAlloc,
	published: slabAllocators,
}

const (
	unitBytes  = 128
	blockUnits = 1 << 10 // units of a memory block
	superUnits = 1 << 24 // maximum units of a super block
)

func runSlabAlloc(ctx context.Context, r *runner) error {
	most, err := r.keys(1<<20, 1<<29, unitBytes+1)
	if err != nil {
		return err
	}
	most = max(most, blockUnits)
	if err := r.limits(ctx, r.size(1<<18, 1<<24)/8, roofline.CAS64); err != nil {
		return err
	}
	for shift := 8; shift >= 0; shift -= map[Scale]int{Quick: 4, Default: 2, Full: 1}[r.Scale] {
		if most>>shift < blockUnits {
			continue
		}
		a := newAllocTrial(r, most>>shift)
		if err := a.whole(ctx); err != nil {
			return fmt.Errorf("%d units: %w", a.units, err)
		}
	}
	a := newAllocTrial(r, max(most>>4, blockUnits))
	for _, load := range []float64{.125, .25, .5, .75, .875, .9375, .984375} {
		if err := a.churn(ctx, load); err != nil {
			return fmt.Errorf("%d units at load %g: %w", a.units, load, err)
		}
	}
	return nil
}

// allocTrial measures an allocator of a number of units.
type allocTrial struct {
	*runner
	supers, blocks, units int
	pool                  *alloc.Pool
	owner                 *alloc.Owner
	allocated             device.Slice[uint32] // addresses of units
	part                  device.Slice[uint32] // addresses to allocate and free now
	held                  bool                 // part is allocated
}

// newAllocTrial returns a trial of about the given number of units, in as few super blocks as
// possible.
func newAllocTrial(r *runner, units int) *allocTrial {
	supers := (units + superUnits - 1) / superUnits
	blocks := units / supers / blockUnits
	return &allocTrial{runner: r, supers: supers, blocks: blocks, units: supers * blocks * blockUnits}
}

// with opens a pool and a column of n addresses, calls body, and closes both.
func (a *allocTrial) with(ctx context.Context, n int, body func() error) (err error) {
	a.pool, err = alloc.New(a.Device, &alloc.Options{
		UnitBytes: unitBytes, Blocks: a.blocks, SuperBlocks: a.supers, MaxSuperBlocks: a.supers,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.pool.Close()) }()
	if a.owner, err = a.pool.Owner(); err != nil {
		return err
	}
	if err = a.owner.Reserve(ctx, a.units); err != nil {
		return err
	}
	if a.allocated, err = device.Make[uint32](a.Device, n); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.free(&a.allocated)) }()
	return body()
}

// hold submits allocating the part, and release submits freeing it. If the part already has the
// wanted state, they do nothing.
func (a *allocTrial) hold() error {
	if a.held {
		return nil
	}
	a.held = true
	return a.owner.AllocateOn(a.stream, a.part)
}

func (a *allocTrial) release() error {
	if !a.held {
		return nil
	}
	a.held = false
	return a.owner.FreeOn(a.stream, a.part)
}

// whole measures allocating from an empty pool, and freeing.
func (a *allocTrial) whole(ctx context.Context) error {
	n := min(a.units/2, a.size(1<<16, 1<<22))
	load := float64(n) / float64(a.units)
	return a.with(ctx, n, func() error {
		a.part, a.held = a.allocated, false
		if err := a.measure(ctx, "allocate", load, a.release, a.hold); err != nil {
			return err
		}
		if err := a.check(ctx); err != nil {
			return err
		}
		return a.measure(ctx, "free", load, a.hold, a.release)
	})
}

// churn measures freeing random units of a pool and allocating the same number.
func (a *allocTrial) churn(ctx context.Context, load float64) error {
	n := int(load * float64(a.units))
	return a.with(ctx, n, func() error {
		a.part, a.held = a.allocated, false
		if err := errors.Join(a.hold(), a.shuffle(ctx)); err != nil {
			return err
		}
		piece, round := a.units/32, 0
		next := func() error { // selects a different part each time
			err := a.hold()
			lo := round % (n / piece) * piece
			a.part = a.allocated.Sub(lo, lo+piece)
			round++
			return err
		}
		if err := a.measure(ctx, "allocate_churn", load, func() error { return errors.Join(next(), a.release()) }, a.hold); err != nil {
			return err
		}
		if err := a.measure(ctx, "free_churn", load, next, a.release); err != nil {
			return err
		}
		return errors.Join(a.hold(), a.check(ctx))
	})
}

func (a *allocTrial) shuffle(ctx context.Context) error {
	units := make([]uint32, a.allocated.Len())
	if err := a.allocated.CopyTo(ctx, a.stream, units); err != nil {
		return err
	}
	shuffled := make([]uint32, len(units))
	order := workload.NewPermutation(uint64(max(len(units), 1)), a.Seed)
	for i := range shuffled {
		shuffled[i] = units[order.At(uint64(i))]
	}
	return a.allocated.CopyFrom(a.stream, shuffled)
}

// check verifies that every address is valid and occurs once.
func (a *allocTrial) check(ctx context.Context) error {
	units := make([]uint32, a.allocated.Len())
	if err := a.allocated.CopyTo(ctx, a.stream, units); err != nil {
		return err
	}
	seen := make([]uint64, a.supers*superUnits/64) // one bit per address
	for i, u := range units {
		if int(u/64) >= len(seen) || seen[u/64]>>(u%64)&1 != 0 {
			return fmt.Errorf("%w: allocation %d of %d got the address %#x, nobody's or somebody else's", errWrong, i, len(units), u)
		}
		seen[u/64] |= 1 << (u % 64)
	}
	return nil
}

func (a *allocTrial) measure(ctx context.Context, op string, load float64, prepare, submit func() error) error {
	a.step("%s: %d units: %s", a.result.Experiment, a.units, op)
	t, err := a.median(ctx, prepare, submit)
	if err != nil {
		return err
	}
	n := a.part.Len()
	a.add(Row{
		Structure: "slab alloc", Op: op, N: n, Units: a.units, Load: load, Seconds: t.Seconds(),
		OpsPerS: roofline.Rate(n, t), Limit: roofline.CAS64,
	})
	return nil
}

func plotSlabAlloc(res *Result) []Plot {
	sizes := Plot{
		Name: "slabhash-alloc", Title: "Allocating from an empty pool, and freeing",
		XLabel: "units of the pool", YLabel: "units per second", LogX: true, LogY: true,
	}
	loads := Plot{
		Name: "slabhash-alloc-churn", Title: "Allocating and freeing in a pool in use",
		XLabel: "share of the units in use", YLabel: "units per second", LogY: true,
	}
	for _, row := range res.Rows {
		switch row.Op {
		case "allocate", "free":
			sizes.point(row.Op, float64(row.Units), row.OpsPerS)
		default:
			loads.point(row.Op, row.Load, row.OpsPerS)
		}
	}
	for _, p := range []*Plot{&sizes, &loads} {
		p.limits(res, func(Row) bool { return true })
		for _, f := range slabAllocators {
			p.level(f)
		}
	}
	return []Plot{sizes, loads}
}
