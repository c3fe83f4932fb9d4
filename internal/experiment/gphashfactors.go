package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/workload"
)

var gphashFactorsExperiment = Experiment{
	Name:  "gphash-factors",
	Title: "What each part of the design of the persistent index brings",
	GPU:   true,
	Doc: `After figure 9 of the GPHash paper: YCSB LOAD, C, B, A, F and D on 2^22 records with keys of 8 bytes, 2^20 operations of each, in
batches of 2^12 and 2^16, while one thing after the other is added. plain: a warp for each key, hashed by SipHash, lookups in the order in
which they come. sorted: batches of lookups are sorted by the regions of the pool, from 2^14 on; batches that change anything always are.
fast hash: for trusted keys. cache: 20 % of the buckets in the memory of the GPU, by LFU. mirror: instead of the cache, control words and tags of
all. Before C the cache is loaded four times, with 2^18 lookups before each; mixed batches read it, but do not say what to load. speedup is that of the median call
over plain, in the fastest of several rounds. In the paper warps that work on a key together bring up to 104.1 % of throughput over
single threads, keys in their slots up to 13.7 % over keys behind pointers, and the cache up to 40.9 % (17.6 % for A, 35.5 for B, 7.6 for D and LOAD).
Neither of the first two is here: single threads would need other kernels for lookups and changes, which settle the operations of a batch on a key by a warp;
keys behind pointers would be another format of pools, and would gain less than in the paper: a slot has 64 bits of a key's hash, so that a lookup
compares one key, and that lies beside the value that is read anyway.` + onDevice + hostPool,
	run:   runGPHashFactors,
	plots: plotFactors,
}

// gphashFactors are added one after the other, but for the last.
var gphashFactors = []struct {
	name string
	hash gphash.HashID
	open gphash.OpenOptions
}{
	{"plain", gphash.SipHash, gphash.OpenOptions{Unsorted: true}},
	{"+ sorted", gphash.SipHash, gphash.OpenOptions{}},
	{"+ fast hash", gphash.Fast, gphash.OpenOptions{}},
	{"+ cache", gphash.Fast, gphash.OpenOptions{Cache: .2}},
	{"mirror", gphash.Fast, gphash.OpenOptions{Mirror: true}},
}

func runGPHashFactors(ctx context.Context, r *runner) (err error) {
	n, err := r.gphashKeys(1<<19, 1<<22, 8)
	if err != nil {
		return err
	}
	if err := r.gphashLimits(ctx, n); err != nil {
		return err
	}
	f := factors{n: n, ops: min(n, cacheOps)}
	for _, mix := range factorMixes {
		records := uint64(n)
		if mix.InsertEvery == 1 {
			records = 0
		}
		q, err := workload.NewRequests(mix, records, zipfTheta, r.Seed)
		if err != nil {
			return err
		}
		f.requests = append(f.requests, q)
	}
	batches := r.deviceBatches(n) // of which modifications take two rows
	if f.residence, err = r.newResidence(8, 2*batches[len(batches)-1]); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.free()) }()
	for _, batch := range batches {
		err := r.inTurns(len(gphashFactors), func(i int) ([]Row, error) { return f.measure(ctx, i, batch) })
		if err != nil {
			return fmt.Errorf("batches of %d: %w", batch, err)
		}
	}
	return nil
}

// factorMixes are LOAD, C, B, A, F and D, in this order on one index.
var factorMixes = []workload.Mix{workload.Mixes[5], workload.Mixes[2], workload.Mixes[1], workload.Mixes[0], workload.Mixes[4], workload.Mixes[3]}

// factors are the workloads, and what all settings share.
type factors struct {
	*residence
	n, ops   int
	requests []*workload.Requests // of factorMixes
}

// measure runs all mixes on an index of one setting.
func (f *factors) measure(ctx context.Context, i, batch int) (rows []Row, err error) {
	c := gphashFactors[i]
	f.step("gphash-factors: %s, batches of %d", c.name, batch)
	insertions := int(f.requests[len(f.requests)-1].Inserts(uint64(f.ops)))
	o := f.gphashOptions(8, f.n+insertions, batch)
	o.Hash = c.hash
	x, err := f.reopened(ctx, o, c.open)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	s := newSession(f.runner, resident{x, f.residence, nil}, 8, true)
	for j, mix := range factorMixes {
		ops := f.ops
		if mix.InsertEvery == 1 {
			ops = f.n
		}
		s.at = 0 // what D inserts follows from the number of the request
		times, err := s.run(ctx, f.requests[j], ops, batch)
		if err != nil {
			return nil, fmt.Errorf("%s: YCSB %s: %w", c.name, mix.Name, err)
		}
		rows = append(rows, timed(c.name, mix.Name, 8, ops, batch, times, f.mixLimit(mix)))
		if mix.InsertEvery == 1 {
			if err := s.warm(ctx, x, f.requests[1], batch); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

// reopened is an index in an unnamed pool that has been opened with options which creating it
// does not have.
func (r *runner) reopened(ctx context.Context, o gphash.Options, open gphash.OpenOptions) (*gphash.Index, error) {
	return unnamed(func(path string) (*gphash.Index, error) {
		x, err := gphash.Create(path, r.Device, o)
		if err == nil {
			err = x.Close()
		}
		if err != nil {
			return nil, err
		}
		x, _, err = gphash.Open(ctx, path, r.Device, open)
		return x, err
	})
}

// plotFactors draws the rate of each workload, over the size of batches, by setting.
func plotFactors(res *Result) []Plot {
	var plots []Plot
	for _, row := range res.Rows {
		plotFor(&plots, res.Experiment+"-"+row.Op, func() Plot {
			return Plot{Title: "YCSB " + row.Op, XLabel: "operations of a batch", YLabel: "operations per second", LogX: true}
		}).point(row.Structure, float64(row.Batch), row.OpsPerS)
	}
	return plots
}
