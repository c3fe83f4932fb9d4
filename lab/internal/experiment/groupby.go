package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/slab"
)

var groupByExperiment = Experiment{
	Name:  "groupby",
	Title: "Sums of groups: Reduce, from many groups to one",
	Doc: `ReduceOn adds n values of 32 bits to the sums of their groups, by keys of 32 bits, in a map that is empty before and
made for as many groups; equal keys in any order. Groups are drawn uniformly (uniform) or by Zipf's law with exponent
.99 (zipf); their number stands with the operation. Their total and the number of keys are checked. The limit of many groups is a compare-and-swap each;
that of few, rows, is reading the rows.`,
	run: runGroupBy,
}

// rowBytes is the size of a key and a value of 32 bits each.
const rowBytes = 8

// zipfExponent is the exponent closest to 1 that the generator supports.
const zipfExponent = .99

// mapMaker opens maps of one structure with 32-bit keys and values.
type mapMaker struct {
	structure string
	open      func(capacity int, unordered bool) (*weft.Map[uint32, uint32], error)
}

func (r *runner) mapMakers() []mapMaker {
	return []mapMaker{
		{"linear", func(capacity int, unordered bool) (*weft.Map[uint32, uint32], error) {
			m, err := linear.New[uint32, uint32](r.Device, &linear.Options{Capacity: capacity, Fixed: true, Unordered: unordered, Seed: r.Seed + 1})
			if err != nil {
				return nil, err
			}
			return m.Map, nil
		}},
		{"slab", func(capacity int, unordered bool) (*weft.Map[uint32, uint32], error) {
			m, err := slab.New[uint32, uint32](r.Device, &slab.Options{Capacity: capacity, Fixed: true, Unordered: unordered, Seed: r.Seed + 1})
			if err != nil {
				return nil, err
			}
			return m.Map, nil
		}},
	}
}

// grouping measures one number of groups in one distribution.
type grouping struct {
	*runner
	op     string
	groups int
	limit  string

	keys, vals device.Slice[uint32]
	sum        uint32 // sum of all values
}

func runGroupBy(ctx context.Context, r *runner) error {
	// The memory per row covers the row, a group, and the widest table.
	n, err := r.keys(1<<21, 100_000_000, rowBytes+rowBytes+3*rowBytes)
	if err != nil {
		return err
	}
	n = max(n, 1000)
	r.result.Parameters["rows"] = n
	if err := r.limits(ctx, 3*n*rowBytes, r.writeLimit(rowBytes), roofline.Copy); err != nil {
		return err
	}
	const rows = "rows"
	r.result.Limits[rows] = r.result.Limits[roofline.Copy] / rowBytes
	for _, g := range []grouping{
		{op: "uniform", groups: n, limit: r.writeLimit(rowBytes)},
		{op: "uniform", groups: max(n/100, 1), limit: rows},
		{op: "uniform", groups: 1000, limit: rows},
		{op: "uniform", groups: 1, limit: rows},
		{op: "zipf", groups: max(n/100, 1), limit: rows},
	} {
		g.runner = r
		if err := g.run(ctx, n); err != nil {
			return fmt.Errorf("%d groups, %s: %w", g.groups, g.op, err)
		}
	}
	return nil
}

func (g *grouping) run(ctx context.Context, n int) (err error) {
	g.step("groupby: %d rows of %d groups, %s", n, g.groups, g.op)
	defer func() { err = errors.Join(err, g.free(&g.keys, &g.vals)) }()
	if err := g.upload(n); err != nil {
		return err
	}
	for _, m := range g.mapMakers() {
		if err := g.measure(ctx, m); err != nil {
			return fmt.Errorf("%s: %w", m.structure, err)
		}
	}
	return nil
}

func (g *grouping) upload(n int) (err error) {
	keys, vals := make([]uint32, n), make([]uint32, n)
	if g.op == "zipf" {
		z, err := workload.NewZipf(uint64(g.groups), zipfExponent)
		if err != nil {
			return err
		}
		workload.Zipfian(keys, g.Seed, z, g.Seed+2)
	} else {
		workload.Uniform(keys, g.Seed, uint64(g.groups), g.Seed+2)
	}
	for i := range vals {
		vals[i] = uint32(i)
		g.sum += vals[i]
	}
	if g.keys, err = device.Upload(g.stream, keys); err != nil {
		return err
	}
	g.vals, err = device.Upload(g.stream, vals)
	return err
}

func (g *grouping) measure(ctx context.Context, maker mapMaker) (err error) {
	m, err := maker.open(g.groups, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	t, err := g.median(ctx, func() error { return m.Clear(ctx) }, func() error {
		return m.ReduceOn(g.stream, g.keys, g.vals, weft.Sum)
	})
	if err != nil {
		return err
	}
	if err := g.check(ctx, m); err != nil {
		return err
	}
	g.add(Row{
		Structure: maker.structure, Op: fmt.Sprintf("%s_%d", g.op, g.groups), KeyBits: 32, ValueBits: 32, N: g.keys.Len(),
		Seconds: t.Seconds(), OpsPerS: roofline.Rate(g.keys.Len(), t), Limit: g.limit,
	})
	return nil
}

// check verifies that the sums of all groups add up to the sum of all values.
func (g *grouping) check(ctx context.Context, m *weft.Map[uint32, uint32]) error {
	if err := m.Sync(ctx); err != nil {
		return err
	}
	keys, sums := make([]uint32, g.groups), make([]uint32, g.groups)
	workload.Unique(keys, g.Seed, 0)
	found, err := m.Get(ctx, keys, sums, nil)
	if err != nil {
		return err
	}
	left := g.sum
	for _, s := range sums {
		left -= s
	}
	if left != 0 || found != m.Len() {
		return fmt.Errorf("%w: sums of %d of %d groups are off by %d", errWrong, found, m.Len(), left)
	}
	return nil
}
