package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
)

var gphashCacheLoadingExperiment = Experiment{
	Name:  "gphash-fig15",
	Was:   "gphash-cache-loading",
	Title: "Lookups while the cache of buckets is loaded",
	GPU:   true,
	Doc: `After figure 15 of the GPHash paper: lookups in batches of 2^12 (YCSB C), one batch behind the other, on an index of 2^22 records (2^24 with --full) with
keys of 8 bytes, while its cache of 10, 20 or 40 % of the buckets, by LFU, is loaded again. beside: by another goroutine, as LoadCache is
made for: lookups go on, and read the pool until the cache is back. stop: between two batches, as if lookups had to wait; the paper's
index without concurrent fetching. get is all batches (samples: what each took, in seconds, with what came before it), and get_before, get_during and get_after are those before
the loading, at the same time, and behind it; load is the loading, n how many buckets it fetches. The rates of buckets are a share of random reads of 128
bytes, their size. In the paper a loading takes up to hundreds of milliseconds; without concurrent fetching throughput drops to 0, with it it does not fall significantly.` + onDevice + hostPool,
	run:   runGPHashCacheLoading,
	plots: plotCacheLoading,
}

// cachedBucket is the size in bytes of a cached bucket, which has 8 slots.
const cachedBucket = 128

func runGPHashCacheLoading(ctx context.Context, r *runner) (err error) {
	n, err := r.gphashKeys(1<<19, r.paperSize(1<<22), 8)
	if err != nil {
		return err
	}
	if err := r.gphashLimits(ctx, n); err != nil {
		return err
	}
	l, err := r.loadPool(ctx, n, min(n, loadBatch), r.gphashOptions(8, n, loadBatch))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.free()) }()
	c, err := r.newBatchCycle(l, min(n, defaultBatch))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.free(&c.keys)) }()
	shares := []float64{.1, .2, .4}
	if r.Scale == Quick {
		shares = shares[1:2]
	}
	for _, share := range shares {
		for _, mode := range loadingModes {
			r.step("gphash-fig15: %s, %g of the buckets", mode.name, share)
			err := l.with(ctx, gphash.OpenOptions{Cache: share}, func(x *gphash.Index) error {
				return c.measure(ctx, x, mode.name, share, mode.concurrent)
			})
			if err != nil {
				return fmt.Errorf("%s, %g of the buckets: %w", mode.name, share, err)
			}
		}
	}
	return nil
}

// loadingModes determine whether lookups continue while the cache is loaded.
var loadingModes = []struct {
	name       string
	concurrent bool
}{{"beside", true}, {"stop", false}}

// batchCycle repeats a series of lookup batches in the memory of a GPU.
type batchCycle struct {
	*loaded
	size     int // rows per batch
	batches  int
	requests []workload.Request
	keys     device.Slice[byte]

	begun time.Time
	ends  []time.Duration // end times of the batches so far
}

func (r *runner) newBatchCycle(l *loaded, size int) (c *batchCycle, err error) {
	c = &batchCycle{loaded: l, size: size, batches: 256}
	if r.Scale == Quick {
		c.batches = 4
	}
	c.requests = make([]workload.Request, c.batches*size)
	l.read.Fill(c.requests, 0)
	keys := make([]byte, 8*len(c.requests))
	for i, q := range c.requests {
		workload.RecordKey(keys[8*i:8*i+8], r.Seed, q.Record)
	}
	c.keys, err = device.Upload(r.stream, keys)
	return c, err
}

func (c *batchCycle) next(ctx context.Context, x *gphash.Index) error {
	at := len(c.ends) % c.batches * c.size
	d := c.deviceBatches
	err := x.GetOn(d.stream, c.keys.Sub(8*at, 8*(at+c.size)), d.all.vals.Sub(0, c.size*valueSize), d.all.ok.Sub(0, c.size), d.count)
	if err == nil {
		err = d.stream.Sync(ctx)
	}
	c.ends = append(c.ends, time.Since(c.begun))
	return err
}

func (c *batchCycle) runCycle(ctx context.Context, x *gphash.Index) error {
	for range c.batches {
		if err := c.next(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

func (c *batchCycle) begin() error {
	c.begun, c.ends = time.Now(), c.ends[:0]
	return c.deviceBatches.stream.Fill(c.deviceBatches.count.Ptr(), 0, 2)
}

// loading is the time span in which the cache was loaded.
type loading struct {
	from, to time.Duration
	err      error
}

func (c *batchCycle) load(ctx context.Context, x *gphash.Index) loading {
	from := time.Since(c.begun)
	err := x.LoadCache(ctx)
	return loading{from, time.Since(c.begun), err}
}

// measure runs a cycle, loads the cache and runs another cycle. If concurrent is set, batches
// continue while the cache is loaded.
func (c *batchCycle) measure(ctx context.Context, x *gphash.Index, name string, share float64, concurrent bool) error {
	for range 2 { // determines the hot records and warms the cache
		if err := errors.Join(c.begin(), c.runCycle(ctx, x), x.LoadCache(ctx)); err != nil {
			return err
		}
	}
	if err := errors.Join(c.begin(), c.runCycle(ctx, x)); err != nil {
		return err
	}
	var is loading
	var err error
	if concurrent {
		is, err = c.loadConcurrently(ctx, x)
	} else {
		is = c.load(ctx, x)
	}
	if err = errors.Join(err, is.err); err != nil {
		return err
	}
	if err := errors.Join(c.runCycle(ctx, x), c.check(ctx)); err != nil {
		return err
	}
	return c.report(ctx, x, name, share, is)
}

// loadConcurrently runs batches until the cache has been loaded.
func (c *batchCycle) loadConcurrently(ctx context.Context, x *gphash.Index) (is loading, err error) {
	done := make(chan loading, 1)
	go func() { done <- c.load(ctx, x) }()
	for err == nil {
		select {
		case is = <-done:
			return is, nil
		default:
			err = c.next(ctx, x)
		}
	}
	return <-done, err
}

// check verifies that all lookups have found their keys, and that the last batch has found its
// values.
func (c *batchCycle) check(ctx context.Context) error {
	d, hits := c.deviceBatches, make([]uint64, 1)
	values := make([]byte, c.size*valueSize)
	if err := errors.Join(d.count.CopyTo(ctx, d.stream, hits), d.all.vals.CopyTo(ctx, d.stream, values)); err != nil {
		return err
	}
	if want := len(c.ends) * c.size; int(hits[0]) != want {
		return fmt.Errorf("%w: %d of %d lookups found their key", errWrong, hits[0], want)
	}
	last := (len(c.ends) - 1) % c.batches * c.size
	for i, q := range c.requests[last : last+c.size] {
		if !workload.IsRecordValue(values[i*valueSize:(i+1)*valueSize], q.Record, 0) {
			return fmt.Errorf("%w: record %d has the value of another one", errWrong, q.Record)
		}
	}
	return nil
}

// report adds the rows. The time of a batch is the time since the end of the previous batch.
func (c *batchCycle) report(ctx context.Context, x *gphash.Index, name string, share float64, is loading) error {
	times := make([]time.Duration, len(c.ends))
	var before, during int
	for i, end := range c.ends {
		times[i] = end
		if i > 0 {
			times[i] -= c.ends[i-1]
		}
		switch {
		case end <= is.from:
			before++
		case end-times[i] < is.to:
			during++
		}
	}
	add := func(op string, times []time.Duration, samples []float64) {
		if len(times) == 0 {
			return
		}
		row := timed(name, op, 8, len(times)*c.size, c.size, times, c.deviceBatches.poolRead())
		row.Cache, row.Samples = figure(share), samples
		c.deviceBatches.add(row)
	}
	samples := make([]float64, len(times))
	for i, t := range times {
		samples[i] = t.Seconds()
	}
	add("get", times, samples)
	add("get_before", times[:before], nil)
	add("get_during", times[before:before+during], nil)
	add("get_after", times[before+during:], nil)
	stats, err := x.Stats(ctx)
	if err != nil {
		return err
	}
	elapsed, n := max(is.to-is.from, 1), stats.CacheBytes/cachedBucket
	c.deviceBatches.add(Row{
		Structure: name, Op: "load", KeyBits: 64, ValueBits: 8 * valueSize, N: n, Cache: figure(share),
		Seconds: elapsed.Seconds(), OpsPerS: roofline.Rate(n, elapsed), Unit: "bucket/s", Limit: c.deviceBatches.poolRead(),
	})
	return nil
}

// plotCacheLoading plots the throughput over time, one plot per size of the cache.
func plotCacheLoading(res *Result) []Plot {
	var plots []Plot
	for _, row := range res.Rows {
		at := 0.
		for _, seconds := range row.Samples {
			at += seconds
			plotFor(&plots, fmt.Sprintf("%s-%.0f", res.Experiment, 100*(*row.Cache)), func() Plot {
				return Plot{Title: fmt.Sprintf("Lookups while %.0f %% of the buckets are loaded", 100*(*row.Cache)), XLabel: "seconds", YLabel: "operations per second"}
			}).point(row.Structure, at, float64(row.Batch)/seconds)
		}
	}
	return plots
}
