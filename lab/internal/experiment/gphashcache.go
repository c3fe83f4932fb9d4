package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/workload"
)

var gphashCacheExperiment = Experiment{
	Name:  "gphash-fig11",
	Was:   "gphash-cache",
	Title: "Policy and size of the cache of buckets",
	GPU:   true,
	Doc: `After figure 11 of the GPHash paper: YCSB C (reads) and A (half updates), 2^20 operations of each, in batches of 2^12 and 2^16, on
an index of 2^22 records with keys of 8 bytes, of whose buckets a GPU has from none to 40 % in its memory (cache): those read most often (LFU), those
read lately (LRU), or any (Random). none is an index without a cache; with a size of 0 it has a single bucket, so that all that is left is
what keeping it takes. It is loaded four times before, with 2^18 lookups before each, and not while anything is measured. hits is the share of the
buckets read that were read in the cache, four of each key that is looked up; mixed batches, those of A, read the cache, too, and do not
count. speedup is that of the median call over none, in the fastest of several rounds, as many as fit into 40 s. In the paper LFU and LRU are ahead of Random but at size 0; LFU brings 45.7 % of
throughput for C from 0 to 10 %, and another 16.0 from 10 to 40 %.` + onDevice + hostPool,
	run:   runGPHashCache,
	plots: plotCache,
}

// hostPool is a note on pools, for the texts of experiments that have batches on the device.
const hostPool = ` The pool is a file in memory of the host, which stands in for persistent memory. Values have 128 bytes.`

// cacheOps is the number of measured operations of a mix.
const cacheOps = 1 << 20

// cacheLoads is the number of times that the cache is loaded before a measurement. cacheWarm is the
// number of lookups before each load.
const (
	cacheLoads = 4
	cacheWarm  = 1 << 18
)

// deviceSizes returns batch sizes up to n: the GPHash paper's size, and a size at which launches
// take negligible time.
func (r *runner) deviceSizes(n int) []int {
	if r.Scale == Quick || n <= defaultBatch {
		return []int{min(n, defaultBatch)}
	}
	return []int{defaultBatch, min(n, 1<<16)}
}

// cacheSetting is a cache policy and the share of the buckets in the cache.
type cacheSetting struct {
	name   string
	share  float64
	policy gphash.CachePolicy
}

func (r *runner) cacheSettings() []cacheSetting {
	all := []cacheSetting{{"none", 0, gphash.LFU}}
	shares := []float64{0, .1, .2, .3, .4}
	if r.Scale == Quick {
		shares = []float64{0, .2}
	}
	for _, share := range shares {
		all = append(all, cacheSetting{"LFU", share, gphash.LFU}, cacheSetting{"LRU", share, gphash.LRU}, cacheSetting{"Random", share, gphash.Random})
	}
	return all
}

func runGPHashCache(ctx context.Context, r *runner) (err error) {
	n, err := r.gphashKeys(1<<19, 1<<22, 8)
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
	settings := r.cacheSettings()
	return r.inTurns(len(settings), func(i int) (rows []Row, err error) {
		r.step("gphash-fig11: %s, %g of the buckets", settings[i].name, settings[i].share)
		return l.cacheRows(ctx, settings[i])
	})
}

// loaded is a pool that contains an index of n records. Each setting opens it anew.
type loaded struct {
	*session
	*deviceBatches
	n            int
	folder, path string
	buckets      int
	read, update *workload.Requests // YCSB C and A
}

// loadPool makes a pool, loads n records into it, and allocates columns for batches of the given
// number of rows.
func (r *runner) loadPool(ctx context.Context, n, rows int, o gphash.Options) (l *loaded, err error) {
	r.step("%s: loading %d records", r.result.Experiment, n)
	l = &loaded{n: n}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.free())
		}
	}()
	if l.deviceBatches, err = r.newDeviceBatches(8, rows); err != nil {
		return l, err
	}
	records := uint64(max(n, 1)) // an empty index gets no requests
	if l.read, err = workload.NewRequests(sweepMixes[0], records, zipfTheta, r.Seed); err != nil {
		return l, err
	}
	if l.update, err = workload.NewRequests(sweepMixes[1], records, zipfTheta, r.Seed); err != nil {
		return l, err
	}
	var x *gphash.Index
	x, l.folder, err = inPool(func(path string) (*gphash.Index, error) {
		l.path = path
		return gphash.Create(path, r.Device, o)
	})
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	l.session = newSession(r, resident{x, l.deviceBatches, nil}, 8, true)
	if err := l.session.load(ctx, n); err != nil {
		return l, err
	}
	stats, err := x.Stats(ctx)
	l.buckets = stats.Slots / 8
	return l, err
}

func (l *loaded) free() (err error) {
	if l.deviceBatches != nil {
		err = l.deviceBatches.free()
	}
	if l.folder != "" {
		err = errors.Join(err, os.RemoveAll(l.folder))
	}
	return err
}

// with opens the index, calls do, and closes the index.
func (l *loaded) with(ctx context.Context, o gphash.OpenOptions, do func(x *gphash.Index) error) (err error) {
	x, _, err := gphash.Open(ctx, l.path, l.deviceBatches.Device, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	l.table = resident{x, l.deviceBatches, nil}
	return do(x)
}

// warm loads the cache with the records that requests read.
func (s *session) warm(ctx context.Context, x *gphash.Index, reads *workload.Requests, batch int) error {
	for range cacheLoads {
		if _, err := s.run(ctx, reads, min(len(s.stamps), cacheWarm), batch); err != nil {
			return err
		}
		if err := x.LoadCache(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *cacheSetting) options(buckets int) gphash.OpenOptions {
	o := gphash.OpenOptions{Cache: c.share, CachePolicy: c.policy}
	if c.share == 0 && c.name != "none" {
		o.Cache = 1.5 / float64(buckets) // one bucket
	}
	return o
}

func (l *loaded) cacheRows(ctx context.Context, c cacheSetting) (rows []Row, err error) {
	return rows, l.with(ctx, c.options(l.buckets), func(x *gphash.Index) error {
		if err := l.warm(ctx, x, l.read, min(l.n, loadBatch)); err != nil {
			return err
		}
		for _, batch := range l.session.deviceSizes(l.n) {
			for i, q := range []*workload.Requests{l.read, l.update} {
				row, err := l.cacheRow(ctx, x, c, sweepMixes[i], q, batch)
				if err != nil {
					return fmt.Errorf("%s, %g of the buckets: YCSB %s: %w", c.name, c.share, sweepMixes[i].Name, err)
				}
				rows = append(rows, row)
			}
		}
		return nil
	})
}

func (l *loaded) cacheRow(ctx context.Context, x *gphash.Index, c cacheSetting, mix workload.Mix, q *workload.Requests, batch int) (Row, error) {
	ops := min(l.n, cacheOps)
	times, err := l.run(ctx, q, ops, batch)
	if err != nil {
		return Row{}, err
	}
	row := timed(c.name, mix.Name, 8, ops, batch, times, l.session.mixLimit(mix))
	row.Cache = figure(c.share)
	if mix.Read == 1 && c.name != "none" {
		stats, err := x.Stats(ctx)
		if err != nil {
			return row, err
		}
		row.HitRatio = figure(stats.CacheHitRate)
	}
	return row, nil
}

// plotCache plots rates and cache hits over the size of the cache, one line per policy.
func plotCache(res *Result) []Plot {
	var plots []Plot
	for _, row := range res.Rows {
		name := fmt.Sprintf("%s-%s-%d", res.Experiment, row.Op, row.Batch)
		plotFor(&plots, name, func() Plot {
			return Plot{Title: fmt.Sprintf("YCSB %s, batches of %d", row.Op, row.Batch), XLabel: "share of buckets in the cache", YLabel: "operations per second"}
		}).point(row.Structure, *row.Cache, row.OpsPerS)
		if row.HitRatio == nil {
			continue
		}
		plotFor(&plots, name+"-hits", func() Plot {
			return Plot{Title: fmt.Sprintf("Buckets read in the cache, YCSB %s, batches of %d", row.Op, row.Batch), XLabel: "share of buckets in the cache", YLabel: "share of buckets read"}
		}).point(row.Structure, *row.Cache, *row.HitRatio)
	}
	return plots
}
