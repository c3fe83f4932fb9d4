package experiment

import (
	"context"
	"errors"
	"math"
)

// slabLight is the SlabHash paper's speedup of searches by SlabAlloc-light (section V-C).
var slabLight = []Published{{"K40c, SlabAlloc-light over SlabAlloc, bulk searches, up to", 1.25, "x"}}

var slabLightExperiment = Experiment{
	Name:  "slabhash-light",
	Title: "SlabAlloc-light beside SlabAlloc, under searches of a slab hash",
	Doc: `After section V of the SlabHash paper: as many searches as keys, all of which exist (get_hit) or none (get_miss), in a slab hash` +
		slabFig4Doc + ` Of light, all super blocks are one block of memory, so a slab's address is computed; it is what tables of a fixed size have, and all
other experiments with them. Of super blocks, a table has the addresses of these, from which each slab behind the first of its bucket is looked up; it is
what tables that grow have. speedup is the rate with light over that without. On the paper's Tesla K40c it was up to 1.25.`,
	run: func(ctx context.Context, r *runner) (err error) {
		utilizations := r.utilizations()
		n, err := r.keys(1<<19, 1<<22, slabBytes(utilizations[0]))
		if err != nil {
			return err
		}
		defer func() {
			best := 0.
			for _, row := range r.result.Rows {
				if row.Speedup != nil {
					best = max(best, *row.Speedup)
				}
			}
			r.result.Parameters["largest_speedup"] = math.Round(100*best) / 100
		}()
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
			if err := t.measureWithSuperBlocks(ctx, u); err != nil {
				return err
			}
		}
		return nil
	},
	plots: func(res *Result) []Plot {
		p := Plot{Name: res.Experiment, Title: "Searches with SlabAlloc-light", XLabel: "memory utilization", YLabel: "times as fast as with SlabAlloc"}
		for _, row := range res.Rows {
			if row.Speedup != nil {
				p.point(row.Op, row.Load, *row.Speedup)
			}
		}
		if len(p.Series) > 0 {
			p.level(slabLight[0])
		}
		return nonEmpty(p)
	},
	published: slabLight,
}

// measureWithSuperBlocks measures searches in tables of one utilization, first with a pool of super
// blocks and then with a light pool.
func (t *slabTrial) measureWithSuperBlocks(ctx context.Context, utilization float64) error {
	first := len(t.result.Rows)
	for _, pool := range []struct {
		name  string
		grows bool
	}{{"slab, super blocks", true}, {"slab, light", false}} {
		t.structure, t.grows = pool.name, pool.grows
		if err := t.at(ctx, utilization, func() error { return t.lookups(ctx) }); err != nil {
			return err
		}
	}
	rows := t.result.Rows[first:]
	for i := range rows[:len(rows)/2] {
		light := &rows[len(rows)/2+i]
		light.Speedup = figure(light.OpsPerS / rows[i].OpsPerS)
	}
	return nil
}
