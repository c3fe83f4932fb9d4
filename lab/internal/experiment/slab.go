package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/lab/internal/roofline"
	"github.com/weftgo/weft/slab"
)

// The experiments of the SlabHash paper (Ashkiani, Farach-Colton and Owens, "A Dynamic Hash Table
// for the GPU", 2018) use its figure numbers. The paper used a Tesla K40c. Load is the paper's
// memory utilization: the bytes of all pairs over the bytes of all slabs in use.

const (
	slabPair     = 8   // bytes of a key and a value
	slabMaxShare = .15 // share of a table's bytes in slabs beyond the first of each bucket
)

// slabBytes returns the device memory per key at a utilization. It covers the slabs, units for any
// distribution of keys, columns, and a batch.
func slabBytes(utilization float64) int {
	return int(slabPair/utilization*(1+slabMaxShare)) + 2*slabPair + columnBytes[uint32, uint32]() + mixedBytes
}

func (r *runner) slabLimits(ctx context.Context, n int, utilization float64) error {
	return r.limits(ctx, int(slabPair/utilization*float64(n)), r.slabLimit(), r.readLimit(slabPair), roofline.CAS64)
}

// slabTrial measures slab hashes that contain the keys of the columns.
type slabTrial struct {
	trial[uint32, uint32]
	grows bool // the table may grow, so its pool is not the paper's SlabAlloc-light
}

// newSlabTrial makes the columns, which the caller frees. The limits must have been measured.
func newSlabTrial(r *runner, n int) (*slabTrial, error) {
	r.step("%s: columns of %d keys", r.result.Experiment, n)
	cols, err := newColumns[uint32, uint32](r, n)
	return &slabTrial{trial: trial[uint32, uint32]{
		runner: r, structure: "slab", keyBits: 32, valueBits: 32,
		read: r.slabLimit(), write: roofline.CAS64, cols: cols,
	}}, err
}

// at opens and fills a table at a utilization, sets the load that it has reached, and calls body.
func (t *slabTrial) at(ctx context.Context, utilization float64, body func() error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("slab at utilization %g: %w", utilization, err)
		}
	}()
	buckets, err := t.buckets(ctx, utilization)
	if err != nil {
		return err
	}
	// Reserve space for mixed batches, so that submitting them waits for nothing.
	t.table, err = openSlab[uint32, uint32](t.Device, &slab.Options{
		Capacity: t.cols.n + t.cols.n/2, Buckets: buckets, Fixed: !t.grows, Unordered: true, MaxTombstones: -1, Seed: t.Seed + 1,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.table.Close()) }()
	var row Row
	if err := errors.Join(t.fill(), t.table.Sync(ctx), t.table.describe(ctx, &row)); err != nil {
		return err
	}
	t.load = row.Load
	return body()
}

// buckets returns the number of buckets for the keys of the trial at a utilization.
func (t *slabTrial) buckets(ctx context.Context, utilization float64) (int, error) {
	m, err := slab.New[uint32, uint32](t.Device, &slab.Options{Capacity: t.cols.n, MaxLoad: utilization})
	if err != nil {
		return 0, err
	}
	s, err := m.Stats(ctx)
	return s.Buckets, errors.Join(err, m.Close())
}

// sweepSlab calls body with a filled table of n keys for each utilization.
func sweepSlab(ctx context.Context, r *runner, n int, utilizations []float64, body func(t *slabTrial) error) (err error) {
	r.result.Parameters["keys"] = n
	if err := r.slabLimits(ctx, n, utilizations[0]); err != nil {
		return err
	}
	t, err := newSlabTrial(r, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.cols.free()) }()
	for _, u := range utilizations {
		if err := t.at(ctx, u, func() error { return body(t) }); err != nil {
			return err
		}
	}
	return nil
}

func (t *slabTrial) lookups(ctx context.Context) error {
	if err := t.lookup(ctx, "get_hit"); err != nil {
		return err
	}
	return t.lookup(ctx, "get_miss")
}

// slabMixes are the SlabHash paper's Γ0, Γ1 and Γ2 (section VI-C), named by the percentage of
// updates.
var slabMixes = []mix{
	{"mixed_100", .5, .5, 0},
	{"mixed_40", .2, .2, .3},
	fewUpdates,
}

var slabH200Experiment = Experiment{
	Name:  "slabhash-h200",
	Title: "The slab hash beside the published code on an H200",
	Doc: `A slab hash of 2^25 keys (2^19 on a CPU) of 32 bits with 32-bit values at three memory utilizations: inserting
unique keys, searching for keys that all exist (get_hit) and for keys none of which does (get_miss), deleting all, and
a batch with 20 % updates, half as many operations as keys. published is the rate of the paper's own code, measured on
another H200 on 2026-11-20, deletions at .55 only, mixes not at all. On a GPU a lookup is compared with random reads of 128
bytes, an update with random compare-and-swaps.`,
	run:   runSlabH200,
	plots: plotSlabH200,
}

// slabMeasured are the rates of the SlabHash paper's code on an H200, with 2^25 keys.
var slabMeasured = []struct {
	utilization float64
	ops         map[string]float64
}{
	{.28, map[string]float64{"insert": 8.6e9, "get_hit": 14.7e9, "get_miss": 14.4e9}},
	{.55, map[string]float64{"insert": 8.8e9, "get_hit": 14.9e9, "get_miss": 14.2e9, "delete": 10.2e9}},
	{.66, map[string]float64{"insert": 8.1e9, "get_hit": 13.7e9, "get_miss": 10.2e9}},
}

func runSlabH200(ctx context.Context, r *runner) error {
	var utilizations []float64
	for _, m := range slabMeasured {
		utilizations = append(utilizations, m.utilization)
	}
	n, err := r.keys(1<<19, 1<<25, slabBytes(utilizations[0]))
	if err != nil {
		return err
	}
	number := 0
	return sweepSlab(ctx, r, n, utilizations, func(t *slabTrial) error {
		before := len(r.result.Rows)
		if err := t.insert(ctx, "insert"); err != nil {
			return err
		}
		if err := t.lookups(ctx); err != nil {
			return err
		}
		if err := t.deletes(ctx); err != nil {
			return err
		}
		if err := t.mixed(ctx, fewUpdates, n/2); err != nil {
			return err
		}
		rows := r.result.Rows[before:]
		for i := range rows {
			if rate, ok := slabMeasured[number].ops[rows[i].Op]; ok && r.onGPU() {
				rows[i].PublishedOpsPerS = figure(rate)
			}
		}
		number++
		return nil
	})
}

func plotSlabH200(res *Result) []Plot {
	p := Plot{
		Name: "slabhash-h200", Title: "Slab hash, 32-bit keys and values",
		XLabel: "memory utilization", YLabel: "operations per second",
	}
	for _, row := range res.Rows {
		p.point(row.Op, row.Load, row.OpsPerS)
	}
	p.limits(res, func(row Row) bool { return row.Op != fewUpdates.op })
	for _, op := range []string{"insert", "get_hit", "get_miss"} {
		s := Series{Name: "published code: " + op, Published: true}
		for _, m := range slabMeasured {
			s.X, s.Y = append(s.X, m.utilization), append(s.Y, m.ops[op])
		}
		p.Series = append(p.Series, s)
	}
	return []Plot{p}
}
