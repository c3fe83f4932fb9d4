package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
)

var orderedLookupExperiment = Experiment{
	Name:  "awad-fig3.2a",
	Also:  []string{"awad-fig3.2c"},
	Was:   "ordered-lookup",
	Title: "Lookups in ordered maps over the number of keys",
	Doc: `After figures 3.2a and 3.2c of Awad's thesis: 2^24 (2^18 on a CPU) lookups of random 32-bit keys with 32-bit values in maps of 2^12 to 10^8
keys (2^20 on a CPU): keys that are there, any of them many times (get_hit), keys that are not (get_miss), the next larger key of such that are there
(successor), how many keys are smaller (rank), and of a sixteenth as many the key that so many come before (select).` + allOrdered + `
The limit is random reads of 64 bytes in a region as large as the pairs, a power of two: with the index in the cache, a lookup reads a line or two of it.
The thesis, on a TITAN V: B-tree 1020 lookups and 783 successors, sorted array 335, LSM 158 million a second.`,
	run:   runOrderedLookup,
	plots: plotOrderedLookup,
	published: []Published{{"TITAN V, B-tree, lookups", 1020.27e6, "op/s"}, {"TITAN V, sorted array, lookups", 335.17e6, "op/s"},
		{"TITAN V, LSM, lookups", 158.44e6, "op/s"}, {"TITAN V, B-tree, successors", 783.13e6, "op/s"}},
}

// The smallest map has 2^smallestMap keys. The binary logarithms of sizes differ by mapSteps.
const smallestMap = 12

var mapSteps = map[Scale]int{Quick: 4, Default: 2, Full: 1}

// orderedLookups measures lookups in ordered maps of any size.
type orderedLookups struct {
	*orderedTrial[uint32, uint32]
	next         device.Slice[uint32]
	ranks, after device.Slice[uint64]
}

func runOrderedLookup(ctx context.Context, r *runner) (err error) {
	n, err := r.keys(1<<20, 100_000_000, orderedBytes[uint32, uint32]())
	if err != nil {
		return err
	}
	lookups := r.size(1<<18, 1<<24)
	if r.N > 0 {
		lookups = min(lookups, r.N)
	}
	t, err := newOrderedTrial[uint32, uint32](r, n, n)
	if err != nil {
		return err
	}
	a := &orderedLookups{orderedTrial: t}
	defer func() { err = errors.Join(err, r.free(&a.next, &a.ranks, &a.after), t.free()) }()
	if err := a.makeColumns(lookups); err != nil {
		return err
	}
	for _, size := range r.mapSizes(smallestMap, n, mapSteps) {
		if err := a.atSize(ctx, size); err != nil {
			return fmt.Errorf("%d keys: %w", size, err)
		}
	}
	return nil
}

// mapSizes returns numbers of keys from 2^first to n, including n.
func (r *runner) mapSizes(first, n int, step map[Scale]int) []int {
	sizes := r.powers(first, n, step)
	if last := sizes[len(sizes)-1]; last < n {
		sizes = append(sizes, n)
	}
	return sizes
}

func (a *orderedLookups) makeColumns(n int) (err error) {
	a.cols.n = n
	for _, c := range []*device.Slice[uint32]{&a.cols.hits, &a.cols.miss, &a.cols.out, &a.next} {
		if *c, err = device.Make[uint32](a.Device, n); err != nil {
			return err
		}
	}
	for _, c := range []*device.Slice[uint64]{&a.ranks, &a.after} {
		if *c, err = device.Make[uint64](a.Device, n); err != nil {
			return err
		}
	}
	a.cols.flags, err = device.Make[bool](a.Device, n)
	return err
}

func (a *orderedLookups) atSize(ctx context.Context, n int) error {
	a.n = n
	region := regionOf(n * 8)
	a.read = roofline.In(roofline.Read64, region)
	if err := a.limitsIn(ctx, region, roofline.Read64); err != nil {
		return err
	}
	host := make([]uint32, a.cols.n)
	workload.Uniform(host, a.Seed, uint64(n), a.Seed+1)
	if err := a.cols.hits.CopyFrom(a.stream, host); err != nil {
		return err
	}
	workload.Unique(host, a.Seed, workload.Misses)
	if err := a.cols.miss.CopyFrom(a.stream, host); err != nil {
		return err
	}
	return a.each(ctx, func(m *orderedMap[uint32, uint32]) error {
		if err := errors.Join(a.reload(ctx)(), a.has(ctx, n)); err != nil {
			return err
		}
		before := len(a.result.Rows)
		if err := a.measure(ctx); err != nil {
			return err
		}
		var row Row
		if err := m.describe(ctx, &row); err != nil {
			return err
		}
		for i := range a.result.Rows[before:] {
			a.result.Rows[before+i].Keys, a.result.Rows[before+i].BytesPerEntry = n, row.BytesPerEntry
		}
		return nil
	})
}

func (a *orderedLookups) measure(ctx context.Context) error {
	for _, op := range []string{"get_hit", "get_miss"} {
		if err := a.lookup(ctx, op); err != nil {
			return err
		}
	}
	some := max(a.cols.n/16, 1)
	empty := device.Slice[uint32]{}
	for _, c := range []struct {
		op     string
		n      int
		submit func() error
	}{
		{"successor", a.cols.n, func() error {
			return a.m.mapOf.SuccessorOn(a.stream, a.cols.hits, a.next, a.cols.out, a.cols.flags)
		}},
		{"rank", a.cols.n, func() error { return a.m.mapOf.RankOn(a.stream, a.cols.hits, a.ranks) }},
		{"select", some, func() error {
			return a.m.mapOf.SelectOn(a.stream, a.ranks.Sub(0, some), a.cols.out.Sub(0, some), empty, device.Slice[bool]{})
		}},
	} {
		a.begin(c.op)
		t, err := a.median(ctx, nil, c.submit)
		if err != nil {
			return err
		}
		a.report(c.op, c.n, t, a.read, Row{})
	}
	return a.checkOrder(ctx, some)
}

// checkOrder verifies that results agree. Select must return the key from its rank, and the
// successor of a key must have the next rank, unless the key is the last.
func (a *orderedLookups) checkOrder(ctx context.Context, selected int) error {
	if err := a.m.mapOf.RankOn(a.stream, a.next, a.after); err != nil {
		return err
	}
	n := a.cols.n
	ranks, after, found := make([]uint64, n), make([]uint64, n), make([]bool, n)
	keys, got := make([]uint32, n), make([]uint32, n)
	for _, err := range []error{
		a.ranks.CopyTo(ctx, a.stream, ranks), a.after.CopyTo(ctx, a.stream, after), a.cols.flags.CopyTo(ctx, a.stream, found),
		a.cols.hits.CopyTo(ctx, a.stream, keys), a.cols.out.CopyTo(ctx, a.stream, got),
	} {
		if err != nil {
			return err
		}
	}
	for i, rank := range ranks {
		last := rank+1 == uint64(a.n)
		if rank >= uint64(a.n) || found[i] == last || !last && after[i] != rank+1 || i < selected && got[i] != keys[i] {
			return fmt.Errorf("%w: key %d has rank %d of %d, which selects %d, and its successor rank %d", errWrong, keys[i], rank, a.n, got[i], after[i])
		}
	}
	return nil
}

func plotOrderedLookup(res *Result) []Plot {
	var plots []Plot
	for _, c := range []struct{ op, name, title string }{
		{"get_hit", "3.2a", "Lookups of keys that are there"}, {"get_miss", "3.2a-miss", "Lookups of keys that are not there"},
		{"successor", "3.2c", "Successors"}, {"rank", "rank", "Ranks"}, {"select", "select", "Keys of ranks"},
	} {
		p := plotOverKeys(res, "awad-fig"+c.name, c.title, func(row Row) bool { return row.Op == c.op })
		for i, f := range res.Published {
			if len(p.Series) > 0 && (c.op == "get_hit" && i < 3 || c.op == "successor" && i == 3) {
				p.level(f)
			}
		}
		plots = append(plots, p)
	}
	return nonEmpty(plots...)
}

var orderedScalingExperiment = Experiment{
	Name:  "awad-table3.1",
	Was:   "ordered-scaling",
	Title: "How the time of a batch grows with an ordered map",
	Doc: `Table 3.1 of Awad's thesis, measured: batches of 2^16 (2^10 on a CPU) operations on maps of four times as many to 10^8 keys (2^20 on a CPU): insertions of
new keys and deletions of some that are there, lookups, counts of ranges and the first eight pairs of ranges. The parameters have the exponent of each: by which power of
the number of keys the time grows, from a sixteenth of the largest map on, least squares of logarithms. In theory it is 1 for changes of a sorted array, and 0 but for
logarithms in all else; a merge of an lsm falls due every few batches, of which a row has the median.` + allOrdered,
	run: runOrderedScaling,
	plots: func(res *Result) []Plot {
		var plots []Plot
		for _, op := range []string{"insert", "delete", "get", "count", "range_8"} {
			plots = append(plots, plotOverKeys(res, "ordered-table3.1-"+op, "Batches: "+op, func(row Row) bool { return row.Op == op }))
		}
		return nonEmpty(plots...)
	},
}

func runOrderedScaling(ctx context.Context, r *runner) (err error) {
	n, err := r.keys(1<<20, 100_000_000, orderedBytes[uint32, uint32]())
	if err != nil {
		return err
	}
	batch := max(min(r.size(1<<10, 1<<16), n/4), 1)
	runs := r.withMoreRuns(batch).Runs
	t, err := newOrderedTrial[uint32, uint32](r, n+(runs+1)*batch, n)
	if err != nil {
		return err
	}
	s := &scaling{orderedTrial: t, batch: batch}
	defer func() { err = errors.Join(err, s.close(), t.free()) }()
	if err := s.open(); err != nil {
		return err
	}
	r.result.Parameters["batch"] = batch
	// A batch is small relative to the map.
	for _, size := range r.mapSizes(bits.Len(uint(4*batch-1)), n, mapSteps) {
		if err := s.atSize(ctx, size); err != nil {
			return fmt.Errorf("%d keys: %w", size, err)
		}
	}
	exponents(r.result)
	return nil
}

// scaling measures batches of one size on maps of any size.
type scaling struct {
	*orderedTrial[uint32, uint32]
	batch            int
	lo, hi, out, val device.Slice[uint32]
	counts           device.Slice[uint32]
}

// scalingRange is the number of pairs per range lookup.
const scalingRange = 8

func (s *scaling) open() (err error) {
	for c, n := range map[*device.Slice[uint32]]int{&s.lo: s.batch, &s.hi: s.batch, &s.counts: s.batch, &s.out: scalingRange * s.batch, &s.val: scalingRange * s.batch} {
		if *c, err = device.Make[uint32](s.Device, n); err != nil {
			return err
		}
	}
	s.cols.n = s.batch
	return nil
}

func (s *scaling) close() error { return s.runner.free(&s.lo, &s.hi, &s.counts, &s.out, &s.val) }

func (s *scaling) atSize(ctx context.Context, n int) error {
	s.n = n
	region := regionOf(n * 8)
	read, write := roofline.In(roofline.Read64, region), roofline.In(roofline.CAS64, region)
	if err := s.limitsIn(ctx, region, roofline.Read64, roofline.CAS64); err != nil {
		return err
	}
	lo, hi := make([]uint32, s.batch), make([]uint32, s.batch)
	workload.Uniform(lo, s.Seed, uint64(n), s.Seed+1)
	for i, k := range lo { // ranges of about 16 pairs
		hi[i] = k + min(^uint32(0)-k, uint32(16*(1<<32)/n))
	}
	if err := errors.Join(s.lo.CopyFrom(s.stream, lo), s.hi.CopyFrom(s.stream, hi)); err != nil {
		return err
	}
	return s.each(ctx, func(m *orderedMap[uint32, uint32]) error {
		if err := errors.Join(s.reload(ctx)(), s.has(ctx, n)); err != nil {
			return err
		}
		empty, last := device.Slice[bool]{}, 0
		for _, c := range []struct {
			op, limit string
			submit    func() error
		}{
			{"get", read, func() error { return m.get(s.stream, s.lo, s.val.Sub(0, s.batch), empty) }},
			{"count", read, func() error { return m.mapOf.CountOn(s.stream, s.lo, s.hi, s.counts) }},
			{"range_8", read, func() error {
				return m.mapOf.RangeFirstOn(s.stream, s.lo, s.hi, scalingRange, s.counts, s.out, s.val)
			}},
			{"insert", write, func() error {
				keys, vals := s.of(n+last*s.batch, n+(last+1)*s.batch)
				last++
				return m.put(s.stream, keys, vals)
			}},
			{"delete", write, func() error {
				last--
				keys, _ := s.of(n+last*s.batch, n+(last+1)*s.batch)
				return m.remove(s.stream, keys, empty)
			}},
		} {
			s.begin(c.op)
			t, err := s.repeat(ctx, s.withMoreRuns(s.batch).Runs, func() (time.Duration, error) { return s.watch.Time(ctx, c.submit) })
			if err != nil {
				return err
			}
			s.report(c.op, s.batch, t, c.limit, s.row())
		}
		return s.has(ctx, n)
	})
}
