package experiment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
	"github.com/weftgo/weft/linear"
)

var groupOnExperiment = Experiment{
	Name:  "group-on",
	Title: "Rows and sums of groups in one pass over columns on the device",
	Doc: `group.GroupsOn counts n rows and adds up their values, keys and values of 64 bits, in groups that are drawn uniformly (uniform), by
Zipf's law with exponent .99 (zipf), or come in order (sorted); their number stands with the operation. It is told the
number of groups, or has to grow (grown). Values are small, or need all 64 bits (wide); minmax is the least and the greatest value beside, ends
the first and the last. Of nulls one value in eight is null, a pair is a key of two columns of 32 bits, and long one of two of 64. Beside it,
the same by two reductions of linear, of ones and of values. All counts and sums are added up and checked. The limit of many
groups is a compare-and-swap a row in memory as large as the records; that of few, rows, is reading the rows.`,
	run: runGroupOn,
}

// Sizes in group-on: bytes per row, bytes per record of a group, and the length of the column of
// ones.
const (
	wideRowBytes = 16
	recordBytes  = 32
	onesRows     = 1 << 26
)

// groupsCase is a number of groups and their distribution.
type groupsCase struct {
	op     string
	groups int
	// With grown, the number of groups is not requested. With wide, values use all bits. With
	// nulls, one value in eight is null. With concurrent, linear is measured, too.
	grown, wide, nulls, concurrent bool
	more                           []group.Func // functions in addition to Rows and Sum
}

func groupCases(scale Scale, n int) []groupsCase {
	most := max(n/4, 1)
	all := []groupsCase{
		{op: "uniform", groups: 1000, concurrent: true},
		{op: "uniform", groups: min(1_000_000, most), concurrent: true},
		{op: "uniform", groups: min(8_600_000, most), concurrent: true},
	}
	same := func(a, b groupsCase) bool { return a.op == b.op && a.groups == b.groups }
	if scale == Quick {
		return slices.CompactFunc(all, same)
	}
	all = append(all,
		groupsCase{op: "grown", groups: min(8_600_000, most), grown: true},
		groupsCase{op: "uniform", groups: 1},
		groupsCase{op: "uniform", groups: min(100_000, most)},
		groupsCase{op: "zipf", groups: min(1_000_000, most)},
		groupsCase{op: "sorted", groups: min(8_600_000, most)},
		groupsCase{op: "minmax", groups: 1000, more: []group.Func{group.Min, group.Max}},
		groupsCase{op: "minmax", groups: min(1_000_000, most), more: []group.Func{group.Min, group.Max}},
		groupsCase{op: "wide", groups: 1000, wide: true},
		groupsCase{op: "wide", groups: min(1_000_000, most), wide: true},
		groupsCase{op: "ends", groups: 1000, more: []group.Func{group.First, group.Last}},
		groupsCase{op: "nulls", groups: 1000, nulls: true},
		groupsCase{op: "nulls", groups: min(1_000_000, most), nulls: true},
		groupsCase{op: "pair", groups: 1000},
		groupsCase{op: "pair", groups: min(1_000_000, most)},
		groupsCase{op: "long", groups: 1000},
		groupsCase{op: "long", groups: min(1_000_000, most)},
	)
	return slices.CompactFunc(all, same)
}

// groupOn measures one case at a time.
type groupOn struct {
	*runner
	groupsCase
	groupVals
	keys  device.Slice[int64]
	short device.Slice[int32] // the keys in 32 bits, for op "pair"
	bits  device.Slice[uint8] // bitmap of valid values
}

// groupVals holds values on the device.
type groupVals struct {
	vals device.Slice[int64]
	sum  int64 // sum of all values, modulo 2^64
}

func runGroupOn(ctx context.Context, r *runner) (err error) {
	n, err := r.keys(1<<21, 1_000_000_000, wideRowBytes+12)
	if err != nil {
		return err
	}
	n = max(n, 4000)
	r.result.Parameters["rows"] = n
	if err := r.limits(ctx, r.region(), roofline.Copy); err != nil {
		return err
	}
	r.result.Limits["rows"] = r.result.Limits[roofline.Copy] / wideRowBytes
	g := &groupOn{runner: r}
	defer func() { err = errors.Join(err, r.free(&g.keys, &g.vals), r.free(&g.short), r.free(&g.bits)) }()
	for i, c := range groupCases(r.Scale, n) {
		anew := i == 0 || c.wide != g.wide || c.nulls != g.nulls
		g.groupsCase = c
		if err := g.run(ctx, n, anew); err != nil {
			return fmt.Errorf("%d groups, %s: %w", c.groups, c.op, err)
		}
	}
	return nil
}

// run measures a case. It uploads new values if anew is set.
func (g *groupOn) run(ctx context.Context, n int, anew bool) error {
	g.step("group-on: %d rows of %d groups, %s", n, g.groups, g.op)
	limit, err := g.limit(ctx)
	if err != nil {
		return err
	}
	if err := g.upload(n, anew); err != nil {
		return err
	}
	if err := g.measure(ctx, limit); err != nil {
		return fmt.Errorf("group: %w", err)
	}
	if !g.concurrent {
		return nil
	}
	if err := g.measureLinear(ctx, limit); err != nil {
		return fmt.Errorf("linear: %w", err)
	}
	return nil
}

// limit returns the name of the limit for the case, and measures it if necessary.
func (g *groupOn) limit(ctx context.Context) (string, error) {
	const fewGroups = 100_000
	if g.groups < fewGroups || g.op == "sorted" {
		return "rows", nil
	}
	region := 1 << bits.Len(uint(g.groups*recordBytes))
	name := roofline.In(roofline.CAS64, region)
	return name, g.limitsIn(ctx, region, roofline.CAS64)
}

func (g *groupOn) upload(n int, anew bool) (err error) {
	host := make([]int64, n)
	switch g.op {
	case "zipf":
		z, err := workload.NewZipf(uint64(g.groups), zipfExponent)
		if err != nil {
			return err
		}
		workload.Zipfian(host, g.Seed, z, g.Seed+2)
	case "sorted":
		for i := range host {
			host[i] = int64(uint64(i) * uint64(g.groups) / uint64(n))
		}
	default:
		workload.Uniform(host, g.Seed, uint64(g.groups), g.Seed+2)
	}
	if err := errors.Join(renew(g, &g.keys, host), g.pairs(host)); err != nil || !anew {
		return err
	}
	g.sum = 0
	for i := range host {
		if host[i] = int64(i%1999) - 999; g.wide {
			host[i] = int64(workload.Random(g.Seed, uint64(i)))
		}
		if !g.nulls || i%8 != 0 {
			g.sum += host[i]
		}
	}
	if err := g.free(&g.bits); err != nil {
		return err
	}
	if g.nulls {
		g.bits, err = device.Upload(g.stream, bytes.Repeat([]byte{0xfe}, n/8+1))
	}
	return errors.Join(err, renew(g, &g.vals, host))
}

func (g *groupOn) pairs(keys []int64) error {
	var short []int32
	if g.op == "pair" {
		short = make([]int32, len(keys))
		for i, k := range keys {
			short[i] = int32(k)
		}
	}
	return renew(g, &g.short, short)
}

func (g *groupOn) columns() (keys, values []column.On) {
	keys, v := []column.On{column.OfSlice(g.keys)}, column.OfSlice(g.vals)
	switch g.op {
	case "pair":
		keys = []column.On{column.OfSlice(g.short), column.OfSlice(g.short)}
	case "long":
		keys = append(keys, keys[0])
	}
	if g.nulls {
		v = v.WithValid(g.bits, 0)
	}
	return keys, []column.On{v}
}

func renew[T int32 | int64](g *groupOn, to *device.Slice[T], host []T) (err error) {
	if err := g.free(to); err != nil {
		return err
	}
	*to, err = device.Upload(g.stream, host)
	return err
}

func (g *groupOn) measure(ctx context.Context, limit string) (err error) {
	aggs := []group.Aggregate{{Func: group.Rows}, {Func: group.Sum}}
	for _, f := range g.more {
		aggs = append(aggs, group.Aggregate{Func: f})
	}
	keys, values := g.columns()
	opts := &group.Options{WrapSums: true, Capacity: g.groups}
	if g.grown {
		opts.Capacity = 0
	}
	var groups *group.GroupsOn
	free := func() (err error) {
		if groups != nil {
			err = groups.Close()
		}
		groups = nil
		return err
	}
	defer func() { err = errors.Join(err, g.stream.Sync(context.WithoutCancel(ctx)), free()) }()
	t, err := g.median(ctx, func() (err error) {
		if err := free(); err != nil {
			return err
		}
		groups, err = group.NewOn(g.Device, aggs, opts)
		return err
	}, func() error { return groups.AddOn(g.stream, keys, values) })
	if err != nil {
		return err
	}
	r, err := groups.Result(ctx)
	if err != nil {
		return err
	}
	if err := g.check(r.Len(), column.Values[int64](r.Values[0]), column.Values[int64](r.Values[1])); err != nil {
		return err
	}
	g.report("group", limit, t.Seconds())
	return nil
}

func (g *groupOn) report(structure, limit string, seconds float64) {
	g.add(Row{
		Structure: structure, Op: fmt.Sprintf("%s_%d", g.op, g.groups), KeyBits: 64, ValueBits: 64, N: g.keys.Len(),
		Seconds: seconds, OpsPerS: float64(g.keys.Len()) / seconds, Limit: limit,
	})
}

// check verifies that all rows have been counted and all values added up.
func (g *groupOn) check(groups int, counts, sums []int64) error {
	var rows, sum int64
	for i := range counts {
		rows += counts[i]
		sum += sums[i]
	}
	if groups > g.groups || rows != int64(g.keys.Len()) || sum != g.sum {
		return fmt.Errorf("%w: %d groups of %d rows with the sum %d, want at most %d, %d and %d", errWrong, groups, rows, sum, g.groups, g.keys.Len(), g.sum)
	}
	return nil
}

// measureLinear computes the same counts and sums with two maps.
func (g *groupOn) measureLinear(ctx context.Context, limit string) (err error) {
	ones, err := device.Upload(g.stream, slices.Repeat([]int64{1}, min(g.keys.Len(), onesRows)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.free(&ones)) }()
	opts := &linear.Options{Capacity: g.groups, Unordered: true, Seed: g.Seed + 1}
	counts, err := linear.New[int64, int64](g.Device, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, counts.Close()) }()
	sums, err := linear.New[int64, int64](g.Device, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sums.Close()) }()
	t, err := g.median(ctx, func() error { return errors.Join(counts.Clear(ctx), sums.Clear(ctx)) }, func() error {
		for lo := 0; lo < g.keys.Len(); lo += ones.Len() {
			hi := min(lo+ones.Len(), g.keys.Len())
			keys := g.keys.Sub(lo, hi)
			if err := errors.Join(counts.ReduceOn(g.stream, keys, ones.Sub(0, hi-lo), weft.Sum), sums.ReduceOn(g.stream, keys, g.vals.Sub(lo, hi), weft.Sum)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	n, err := valuesOf(ctx, counts)
	if err != nil {
		return err
	}
	s, err := valuesOf(ctx, sums)
	if err != nil {
		return err
	}
	if err := g.check(len(n), n, s); err != nil {
		return err
	}
	g.report("linear, twice", limit, t.Seconds())
	return nil
}

func valuesOf(ctx context.Context, m *linear.Map[int64, int64]) (all []int64, err error) {
	if err := m.Sync(ctx); err != nil {
		return nil, err
	}
	for p, err := range m.Pages(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, p.Vals...)
	}
	return all, nil
}
