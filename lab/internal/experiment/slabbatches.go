package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/lab/internal/roofline"
)

const slabFig6Utilization = .65

// slabSpeedups are the SlabHash paper's final speedups, by the number of batches that insert 2^21
// keys.
var slabSpeedups = []struct {
	batches int
	Published
}{
	{64, Published{"K40c, 64 batches", 17.3, "x"}},
	{32, Published{"K40c, 32 batches", 10.4, "x"}},
	{16, Published{"K40c, 16 batches", 6.4, "x"}},
}

var slabFig6Experiment = Experiment{
	Name:  "slabhash-fig6",
	Title: "Slab hash: adding batches beside rebuilding",
	Doc: `After figure 6 of the SlabHash paper: 2^21 keys of 32 bits with 32-bit values come in batches of 32 k, 64 k or
128 k. A slab hash, at a memory utilization of .65 in the end, takes each batch as it comes; a static table is built
anew from all keys so far, at a load of .65: a cuckoo table of one slot, four functions and a stash, like CUDPP's, which
the paper rebuilds. n is the number of keys so far, the time is that of all batches so far without
clearing and allocating, the rate is n over that time. speedup is the rebuilding table's time over the slab hash's; the
paper's, after the last batch on a Tesla K40c, were 17.3, 10.4 and 6.4.`,
	run:       runSlabFig6,
	plots:     plotSlabFig6,
	published: []Published{slabSpeedups[0].Published, slabSpeedups[1].Published, slabSpeedups[2].Published},
}

func runSlabFig6(ctx context.Context, r *runner) (err error) {
	n, err := r.keys(1<<21, 1<<21, slabBytes(slabFig6Utilization)+cuckooBytes(slabFig6Utilization))
	if err != nil {
		return err
	}
	if err := r.slabLimits(ctx, n, slabFig6Utilization); err != nil {
		return err
	}
	t, err := newSlabTrial(r, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.cols.free()) }()
	r.result.Parameters["keys"] = n
	for _, s := range slabSpeedups {
		if n < s.batches {
			continue
		}
		added, err := t.addBatches(ctx, s.batches)
		if err != nil {
			return err
		}
		rebuilt, err := t.rebuild(ctx, s.batches)
		if err != nil {
			return err
		}
		t.reportBatches(s.batches, added, rebuilt)
	}
	return nil
}

func (t *slabTrial) batchEnd(b, batches int) int { return (b + 1) * t.cols.n / batches }

// addBatches times inserting each batch into one slab hash.
func (t *slabTrial) addBatches(ctx context.Context, batches int) (medians []time.Duration, err error) {
	times := make([][]time.Duration, batches)
	err = t.at(ctx, slabFig6Utilization, func() error {
		t.begin(fmt.Sprintf("adding %d batches", batches))
		for run := range t.Runs + 1 {
			if err := t.table.Clear(ctx); err != nil {
				return err
			}
			lo := 0
			for b := range times {
				hi := t.batchEnd(b, batches)
				elapsed, err := t.watch.Time(ctx, func() error {
					return t.table.put(t.stream, t.cols.keys.Sub(lo, hi), t.cols.vals.Sub(lo, hi))
				})
				if err != nil {
					return err
				}
				if run > 0 { // the first run warms up
					times[b] = append(times[b], elapsed)
				}
				lo = hi
			}
		}
		if err := t.table.Sync(ctx); err != nil {
			return err
		}
		return t.checkLookup(ctx, t.cols.hits, "lookup of what batches added", t.cols.n)
	})
	for _, ts := range times {
		slices.Sort(ts)
		if len(ts) > 0 {
			medians = append(medians, max(ts[len(ts)/2], 1))
		}
	}
	return medians, err
}

// rebuild times building a table of all keys so far, after each batch.
func (t *slabTrial) rebuild(ctx context.Context, batches int) (medians []time.Duration, err error) {
	t.begin(fmt.Sprintf("rebuilding for %d batches", batches))
	for b := range batches {
		elapsed, err := t.build(ctx, t.batchEnd(b, batches))
		if err != nil {
			return nil, err
		}
		medians = append(medians, elapsed)
	}
	return medians, nil
}

func (t *slabTrial) build(ctx context.Context, n int) (elapsed time.Duration, err error) {
	m, err := cuckoo.New[uint32, uint32](t.Device, t.cuckooOptions(n, slabFig6Utilization))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	elapsed, err = t.median(ctx, func() error { return m.Clear(ctx) }, func() error {
		return m.PutOn(t.stream, t.cols.keys.Sub(0, n), t.cols.vals.Sub(0, n))
	})
	if err != nil {
		return 0, err
	}
	if err := m.Sync(ctx); err != nil {
		return 0, err
	}
	if got := m.Len(); got != n {
		return 0, fmt.Errorf("%w: a table built from %d keys has %d", errWrong, n, got)
	}
	return elapsed, nil
}

// reportBatches adds two rows after every eighth of the batches: for adding and for rebuilding.
func (t *slabTrial) reportBatches(batches int, added, rebuilt []time.Duration) {
	var slabTime, cuckooTime time.Duration
	for b := range batches {
		slabTime += added[b]
		cuckooTime += rebuilt[b]
		if (b+1)%(batches/8) != 0 {
			continue
		}
		row := Row{Op: fmt.Sprintf("%d_batches", batches), KeyBits: 32, ValueBits: 32, N: t.batchEnd(b, batches), Limit: t.write}
		row.Structure, row.Load = cuckooName+", rebuilt", slabFig6Utilization
		row.Seconds, row.OpsPerS = cuckooTime.Seconds(), roofline.Rate(row.N, cuckooTime)
		t.add(row)
		row.Structure, row.Load = "slab", t.load
		row.Seconds, row.OpsPerS = slabTime.Seconds(), roofline.Rate(row.N, slabTime)
		row.Speedup = figure(cuckooTime.Seconds() / slabTime.Seconds())
		t.add(row)
	}
}

func plotSlabFig6(res *Result) []Plot {
	times := Plot{
		Name: "slabhash-fig6", Title: "Adding batches to a slab hash, rebuilding a static table",
		XLabel: "keys so far", YLabel: "time so far, ms", LogY: true,
	}
	speedups := Plot{
		Name: "slabhash-fig6-speedup", Title: "How many times the slab hash is as fast",
		XLabel: "keys so far", YLabel: "speedup", LogY: true,
	}
	last := 0.
	for _, row := range res.Rows {
		times.point(row.Structure+", "+row.Op, float64(row.N), row.Seconds*1e3)
		if row.Speedup != nil {
			speedups.point(row.Op, float64(row.N), *row.Speedup)
			last = float64(row.N)
		}
	}
	for _, s := range slabSpeedups {
		speedups.Series = append(speedups.Series, Series{Name: "published: " + s.What, X: []float64{last}, Y: []float64{s.Value}, Published: true})
	}
	return []Plot{times, speedups}
}
