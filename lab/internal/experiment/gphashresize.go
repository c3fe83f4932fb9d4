package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/lab/internal/roofline"
)

var gphashResizeExperiment = Experiment{
	Name:  "gphash-fig14-resizing",
	Was:   "gphash-resize",
	Title: "Batches while the persistent index grows",
	Doc: `After figure 14a of the GPHash paper, and what it leaves open: an index for 2^14 keys grows to 2^20 (2^21 on a GPU) by
batches of 2^12 insertions, whose latency is that of the calls (samples, one per batch). With Stop the batch that finds no
room moves all keys of the lowest level, as in the paper; with Beside each batch moves some. resize is how long a batch of
Stop took that did it, load that of the index before it, buckets those of the new level; its rate counts the keys that were
there. In the paper, too, a resize takes up to hundreds of milliseconds.` + hostMemory,
	run:   runGPHashResize,
	plots: plotResizes,
}

// resizePolicies determine which batches move the keys.
var resizePolicies = []struct {
	name string
	is   gphash.Resize
}{{"Stop", gphash.Stop}, {"Beside", gphash.Beside}}

// minResized is the minimum number of keys with which an index grows.
const minResized = 64

func runGPHashResize(ctx context.Context, r *runner) error {
	n, err := r.gphashKeys(1<<20, 1<<21, 8)
	if err == nil && n < minResized {
		err = errTooFew(n, minResized)
	}
	if err != nil {
		return err
	}
	if err := r.gphashLimits(ctx, n); err != nil {
		return err
	}
	for _, policy := range resizePolicies {
		r.step("gphash-fig14-resizing: %s", policy.name)
		if err := gphashResize(ctx, r, policy.name, policy.is, n); err != nil {
			return fmt.Errorf("%s: %w", policy.name, err)
		}
	}
	return nil
}

// gphashResize lets an index grow to n keys, batch by batch.
func gphashResize(ctx context.Context, r *runner, name string, policy gphash.Resize, n int) (err error) {
	o := r.gphashOptions(8, n, defaultBatch)
	o.Capacity, o.Resize = min(n/8, 1<<14), policy
	o.Size += int64(3 * slotSize(8) * n) // space for drained levels
	x, err := r.createIndex(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	g := newGrowth(r, x)
	batch := min(defaultBatch, n/8)
	var times []time.Duration
	var resizes []Row
	for g.keys < n {
		before := g.stats
		elapsed, err := g.insert(ctx, min(batch, n-g.keys))
		if err != nil {
			return err
		}
		times = append(times, elapsed)
		if g.stats.Resizes > before.Resizes && policy == gphash.Stop {
			resizes = append(resizes, Row{
				Structure: name, Op: "resize", KeyBits: 64, ValueBits: 8 * valueSize, N: before.Keys, Keys: before.Keys, Load: before.LoadFactor,
				Buckets: (g.stats.Slots - g.stats.Slots/3) / 8, Seconds: elapsed.Seconds(), OpsPerS: roofline.Rate(before.Keys, elapsed), Limit: r.poolSwap(),
			})
		}
	}
	if g.stats.Resizes == 0 {
		return fmt.Errorf("%w: an index for %d keys has not grown for %d", errWrong, o.Capacity, n)
	}
	row := timed(name, "insert", 8, n, batch, times, r.poolSwap())
	row.Load = g.stats.LoadFactor
	for _, t := range times {
		row.Samples = append(row.Samples, t.Seconds())
	}
	r.add(row)
	for _, resize := range resizes {
		r.add(resize)
	}
	return g.verify(ctx)
}

// plotResizes plots the latency of batches over the number of keys, and the time of a resize over
// the number of buckets that it adds.
func plotResizes(res *Result) []Plot {
	batches := Plot{Name: res.Experiment + "-batches", Title: "Batches while the index grows", XLabel: "keys", YLabel: "seconds", LogY: true}
	stops := Plot{Name: res.Experiment, Title: "A resize at once", XLabel: "buckets of the new level", YLabel: "seconds", LogX: true, LogY: true}
	for _, row := range res.Rows {
		if row.Op == "resize" {
			stops.point(row.Structure, float64(row.Buckets), row.Seconds)
		}
		for i, seconds := range row.Samples {
			batches.point(row.Structure, float64(min((i+1)*row.Batch, row.N)), seconds)
		}
	}
	return []Plot{batches, stops}
}
