package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/variant"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/gphashkernels"
)

var gphashFactorsExperiment = Experiment{
	Name:  "gphash-fig9",
	Was:   "gphash-factors",
	Title: "What each part of the design of the persistent index brings",
	GPU:   true,
	Doc: `After figure 9 of the GPHash paper: YCSB LOAD, C, B, A, F and D on 2^20 records with keys of 8 bytes, 2^18 operations of each, in
batches of 2^12 and 2^16, while one thing after the other is added. threads: a thread for each key, as if it had no warp, reads the slots where it may be one
after the other; keys are hashed by SipHash, and lookups go in the order in which they come. warps: a warp for each key reads all of these slots at
once (the paper's one-shot warp access). sorted: batches of lookups are sorted by the regions of the pool, from 2^10 on; batches that change anything always are.
fast hash: for trusted keys. rounds: a warp has several changes of a batch, as soon as there are so many that all multiprocessors have enough
(on an H200 in the larger batches, a few each), and publishes them behind one fence. cache: 20 % of the buckets in the memory of the GPU, by LFU. mirror:
instead of the cache, control words and tags of all. reserved keys: rounds, without a cache, on slots as the paper has them, where three keys say the state of
a slot in the word of the key, and the other word says where the value is: a warp reads half of each bucket, and then the word of the value. Before each size of batches the cache is loaded four times, with 2^18 lookups before each; mixed batches
read it, and warm what they look up. All settings with one hash open the same pool, from which what a mix inserts is deleted behind it; LOAD has an empty one.
speedup is that of the median call over threads, in the fastest of several rounds, as many as fit into 40 s. The published figures are of throughput over what was
there before; the cache brought 17.6 % for A, 35.5 for B, 7.6 for D and LOAD. The paper's keys in their slots, over keys behind pointers, are not here: that is another format
of pools. Keys of more than 8 bytes show what it would be (gphash-fig12a): a slot has 64 bits of their hash, and the key of the one slot that agrees is read where it lies.` + onDevice + hostPool,
	run:       runGPHashFactors,
	plots:     plotFactors,
	published: gphashGains,
}

var gphashGains = []Published{
	{"warps that work on a key together, at most", 2.041, "x"}, {"keys in their slots, at most", 1.137, "x"}, {"the cache, at most", 1.409, "x"},
}

// gphashFactors are the compared settings. Each adds one part to the setting before it, except the
// last two.
var gphashFactors = []struct {
	name    string
	hash    gphash.HashID
	open    gphash.OpenOptions
	variant variant.GPHash
}{
	{"threads", gphash.SipHash, gphash.OpenOptions{Unsorted: true}, gphashkernels.Threads},
	{"+ warps", gphash.SipHash, gphash.OpenOptions{Unsorted: true}, variant.GPHash{MaxRound: 1}},
	{"+ sorted", gphash.SipHash, gphash.OpenOptions{}, variant.GPHash{MaxRound: 1}},
	{"+ fast hash", gphash.Fast, gphash.OpenOptions{}, variant.GPHash{MaxRound: 1}},
	{"+ rounds", gphash.Fast, gphash.OpenOptions{}, variant.GPHash{}},
	{"+ cache", gphash.Fast, gphash.OpenOptions{Cache: .2}, variant.GPHash{}},
	{"mirror", gphash.Fast, gphash.OpenOptions{Mirror: true}, variant.GPHash{}},
	{reservedKeys, gphash.Fast, gphash.OpenOptions{}, gphashkernels.Reserved},
}

// reservedKeys is the setting with the GPHash paper's form of slots, an alternative to "+ rounds".
const reservedKeys = "reserved keys"

func runGPHashFactors(ctx context.Context, r *runner) (err error) {
	n, err := r.gphashKeys(1<<19, 1<<20, 8)
	if err != nil {
		return err
	}
	if err := r.gphashLimits(ctx, n); err != nil {
		return err
	}
	f := factors{n: n, ops: min(n, factorOps), pools: map[gphash.HashID]*factorPools{}}
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
	defer func() { err = errors.Join(err, f.free()) }()
	f.batches = r.deviceSizes(n)
	for _, hash := range []gphash.HashID{gphash.SipHash, gphash.Fast} {
		if err := f.makePools(ctx, r, hash); err != nil {
			return err
		}
	}
	return r.inTurns(len(gphashFactors), func(i int) ([]Row, error) { return f.measure(ctx, r, i) })
}

// factorOps is the number of measured operations of each mix.
const factorOps = 1 << 18

// factorMixes are YCSB LOAD, C, B, A, F and D, in this order.
var factorMixes = []workload.Mix{workload.Mixes[5], workload.Mixes[2], workload.Mixes[1], workload.Mixes[0], workload.Mixes[4], workload.Mixes[3]}

// factors holds the workloads and the pools that settings share.
type factors struct {
	n, ops   int
	batches  []int
	requests []*workload.Requests // one element per mix in factorMixes
	pools    map[gphash.HashID]*factorPools
}

// factorPools are the pools of all settings with one hash. full contains all records. empty starts
// without records, for LOAD.
type factorPools struct{ full, empty *loaded }

func (f *factors) makePools(ctx context.Context, r *runner, hash gphash.HashID) (err error) {
	p := &factorPools{}
	f.pools[hash] = p
	rows := max(2*slices.Max(f.batches), min(f.n, loadBatch)) // a modification takes two rows
	insertions := int(f.requests[len(f.requests)-1].Inserts(uint64(f.ops)))
	for _, made := range []struct {
		to            **loaded
		records, keys int
	}{{&p.full, f.n, f.n + insertions}, {&p.empty, 0, f.ops}} {
		o := r.gphashOptions(8, made.keys, loadBatch)
		o.Hash = hash
		if *made.to, err = r.loadPool(ctx, made.records, rows, o); err != nil {
			return err
		}
	}
	return nil
}

func (f *factors) free() (err error) {
	for _, p := range f.pools {
		for _, l := range []*loaded{p.full, p.empty} {
			if l != nil {
				err = errors.Join(err, l.free())
			}
		}
	}
	return err
}

func (f *factors) measure(ctx context.Context, r *runner, i int) (rows []Row, err error) {
	c := gphashFactors[i]
	for _, l := range []*loaded{f.pools[c.hash].empty, f.pools[c.hash].full} {
		err := l.with(variant.Context(ctx, c.variant), c.open, func(x *gphash.Index) error {
			for _, batch := range f.batches {
				r.step("gphash-fig9: %s, batches of %d", c.name, batch)
				some, err := f.mixes(ctx, l, x, c.name, batch)
				if err != nil {
					return err
				}
				rows = append(rows, some...)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return rows, nil
}

// mixes runs the mixes on a pool and deletes what they have inserted.
func (f *factors) mixes(ctx context.Context, l *loaded, x *gphash.Index, name string, batch int) (rows []Row, err error) {
	if l.n > 0 {
		if err := l.warm(ctx, x, f.requests[1], min(l.n, loadBatch)); err != nil {
			return nil, err
		}
	}
	for j, mix := range factorMixes {
		if (mix.InsertEvery == 1) != (l.n == 0) {
			continue
		}
		l.at = 0 // the insertions of D depend on the number of the request
		times, err := l.run(ctx, f.requests[j], f.ops, batch)
		if err != nil {
			return nil, fmt.Errorf("YCSB %s, batches of %d: %w", mix.Name, batch, err)
		}
		rows = append(rows, timed(name, mix.Name, 8, f.ops, batch, times, l.session.mixLimit(mix)))
		if err := l.shrink(ctx, x); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// shrink deletes the records that were inserted after loadPool.
func (l *loaded) shrink(ctx context.Context, x *gphash.Index) error {
	nNew := len(l.stamps) - l.n
	if nNew == 0 {
		return nil
	}
	keys := make([]byte, 8*nNew)
	onCores(nNew, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			workload.RecordKey(keys[8*i:8*i+8], l.session.Seed, uint64(l.n+i))
		}
	})
	n, err := x.Delete(ctx, keys, nil)
	if err == nil && n != nNew {
		err = fmt.Errorf("%w: %d of %d records were deleted", errWrong, n, nNew)
	}
	l.stamps = l.stamps[:l.n]
	return err
}

// reopened returns an index in an unnamed pool. It opens the index anew, because creation lacks
// some options.
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

// plotFactors plots the rate of each workload over the batch size, one line per setting. It also
// plots the speedup of each setting over the previous one.
func plotFactors(res *Result) []Plot {
	var plots []Plot
	gains := Plot{Name: res.Experiment + "-gains", Title: "Times as fast as before", XLabel: "operations of a batch", YLabel: "times", LogX: true}
	before := map[string]float64{}
	for _, row := range res.Rows {
		plotFor(&plots, res.Experiment+"-"+row.Op, func() Plot {
			return Plot{Title: "YCSB " + row.Op, XLabel: "operations of a batch", YLabel: "operations per second", LogX: true}
		}).point(row.Structure, float64(row.Batch), row.OpsPerS)
		call := fmt.Sprint(row.Op, row.Batch)
		// Alternatives to the cache and to rounds do not continue the series.
		if row.Structure == "mirror" || row.Structure == reservedKeys {
			continue
		}
		was, ok := before[call]
		if !ok {
			was = row.OpsPerS
		}
		gains.point(row.Structure+", "+row.Op, float64(row.Batch), row.OpsPerS/was)
		before[call] = row.OpsPerS
	}
	for _, f := range gphashGains {
		gains.level(f)
	}
	return append(plots, gains)
}
