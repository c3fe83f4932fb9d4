package experiment

import (
	"context"
	"errors"
)

var (
	slabPeakInsert = Published{"K40c, peak insert", 512e6, "op/s"}
	slabPeakSearch = Published{"K40c, peak search", 937e6, "op/s"}
)

// Numbers from the figures of the SlabHash paper. Ratios are geometric means.
var (
	slabFig4a = []Published{slabPeakInsert, {"K40c, CUDPP cuckoo build over slab hash", 1.33, "x"}}
	slabFig4b = []Published{
		slabPeakSearch,
		{"K40c, CUDPP cuckoo search-all over slab hash", 2.08, "x"},
		{"K40c, CUDPP cuckoo search-none over slab hash", 2.04, "x"},
	}
	slabFig5a = []Published{slabPeakInsert, {"K40c, CUDPP cuckoo build over slab hash", 1.19, "x"}}
	slabFig5b = []Published{
		slabSearchAll, slabSearchNone,
		{"K40c, CUDPP cuckoo search-all over slab hash", 1.19, "x"},
		{"K40c, CUDPP cuckoo search-none over slab hash", .94, "x"},
	}
)

// slabDrop is the utilization at which the SlabHash paper's rates drop. Above it, most buckets have
// more than one slab.
const slabDrop = .65

func (r *runner) utilizations() []float64 {
	switch r.Scale {
	case Quick:
		return []float64{.3, .6}
	case Full:
		return []float64{.1, .15, .2, .25, .3, .35, .4, .45, .5, .55, .6, .625, .65, .675, .7, .75, .8, .85, .9}
	}
	return []float64{.1, .2, .3, .4, .5, .6, .65, .7, .8, .9}
}

const slabBesideCuckoo = ` Beside it stands a cuckoo table as full, of one slot, four functions and a
stash, like CUDPP's. speedup is its rate over that of the slab hash in the same run, and its geometric means are among the
parameters.`

const slabFig4Doc = ` of 2^22 keys (2^19 on a CPU) of 32 bits with 32-bit values, at memory utilizations from .1 to .9. load is the
utilization reached.`

var slabFig4aExperiment = Experiment{
	Name:  "slabhash-fig4a",
	Title: "Slab hash: building over the utilization",
	Doc: `After figure 4a of the SlabHash paper: building a slab hash` + slabFig4Doc + ` On the paper's Tesla K40c the
peak was 512 M insertions a second, the best range .19 to .6, and the rate dropped at .65; CUDPP's cuckoo hash built
1.33 times as fast in the geometric mean.` + slabBesideCuckoo,
	run: func(ctx context.Context, r *runner) error {
		defer r.meanSpeedups("insert")
		return sweepFig4(ctx, r, func(t *slabTrial) error {
			return t.measureWithCuckoo(ctx, func(t *slabTrial) error { return t.insert(ctx, "insert") })
		})
	},
	plots: func(res *Result) []Plot {
		p := plotUtilization(res, "slabhash-fig4a", "Building, n = keys", "insertions per second")
		p.level(slabPeakInsert)
		p.upright("drop at 0.65", slabDrop)
		return []Plot{p, speedupsOverUtilization(res, "slabhash-fig4a", slabFig4a)}
	},
	published: slabFig4a,
}

var slabFig4bExperiment = Experiment{
	Name:  "slabhash-fig4b",
	Title: "Slab hash: searching over the utilization",
	Doc: `After figure 4b of the SlabHash paper: as many searches as keys, for keys that all exist (get_hit, the paper's
search-all) and for keys none of which does (get_miss, search-none), in a slab hash` + slabFig4Doc + ` On the paper's
Tesla K40c the peak was 937 M searches a second, and the rate dropped at .65; CUDPP's cuckoo hash was 2.08 and 2.04
times as fast in the geometric mean.` + slabBesideCuckoo,
	run: func(ctx context.Context, r *runner) error {
		defer r.meanSpeedups("get_hit", "get_miss")
		return sweepFig4(ctx, r, func(t *slabTrial) error {
			return t.measureWithCuckoo(ctx, func(t *slabTrial) error { return t.lookups(ctx) })
		})
	},
	plots: func(res *Result) []Plot {
		p := plotUtilization(res, "slabhash-fig4b", "Searching, all or none of the keys present", "searches per second")
		p.level(slabPeakSearch)
		p.upright("drop at 0.65", slabDrop)
		return []Plot{p, speedupsOverUtilization(res, "slabhash-fig4b", slabFig4b)}
	},
	published: slabFig4b,
}

func speedupsOverUtilization(res *Result, name string, published []Published) Plot {
	return plotSpeedups(res, name, "memory utilization", func(row Row) float64 { return row.Load }, published)
}

func speedupsOverKeys(res *Result, name string, published []Published) Plot {
	return plotSpeedups(res, name, "keys", func(row Row) float64 { return float64(row.N) }, published)
}

func sweepFig4(ctx context.Context, r *runner, body func(*slabTrial) error) error {
	utilizations := r.utilizations()
	n, err := r.keys(1<<19, 1<<22, slabBytes(utilizations[0])+cuckooBytes(utilizations[0]))
	if err != nil {
		return err
	}
	return sweepSlab(ctx, r, n, utilizations, body)
}

// slabSeries returns the name of a row's series: the operation and, for the cuckoo table, its name.
func slabSeries(row Row) string {
	if row.Structure == cuckooName {
		return cuckooName + ", " + row.Op
	}
	return row.Op
}

func plotUtilization(res *Result, name, title, what string) Plot {
	p := Plot{Name: name, Title: title, XLabel: "memory utilization", YLabel: what, LogY: true}
	for _, row := range res.Rows {
		p.point(slabSeries(row), row.Load, row.OpsPerS)
	}
	p.limits(res, func(Row) bool { return true })
	return p
}

var slabFig7aExperiment = Experiment{
	Name:  "slabhash-fig7a",
	Title: "Slab hash: concurrent insertions, deletions and searches",
	Doc: `After figure 7a of the SlabHash paper: one launch of mixed operations, in random order, on a slab hash of 2^22
keys (2^19 on a CPU), a quarter as many operations as keys. Of them .5 insert new keys and .5 delete keys (mixed_100);
.2, .2, and .3 search for keys that exist, .3 for keys that don't (mixed_40); .1, .1, .4 and .4 (mixed_20): the paper's
distributions of 100, 40 and 20 % updates. load is the memory utilization before. On the paper's Tesla K40c the rates
rose with the share of searches and fell to about 100 M operations a second at .9.`,
	run: func(ctx context.Context, r *runner) error {
		return sweepFig4(ctx, r, func(t *slabTrial) error {
			for _, m := range slabMixes {
				if err := t.mixed(ctx, m, t.cols.n/4); err != nil {
					return err
				}
			}
			return nil
		})
	},
	plots: func(res *Result) []Plot {
		p := plotUtilization(res, "slabhash-fig7a", "Mixed batches by their share of updates, in percent", "operations per second")
		p.Series = append(p.Series, Series{Name: "published: K40c at 0.9, about", X: []float64{.9}, Y: []float64{slabFig7a.Value}, Published: true})
		return []Plot{p}
	},
	published: []Published{slabFig7a},
}

var slabFig7a = Published{"K40c, mixed batches at utilization 0.9, about", 100e6, "op/s"}

const slabFig5Utilization = .6

const slabFig5Doc = `, for 2^16 to 2^26 keys (2^10 to 2^20 on a CPU) of 32 bits with 32-bit values at a memory utilization of .6.
Small tables lie in caches and pass the limits, which are measured in memory as large as the largest table.`

var (
	slabSearchAll  = Published{"K40c, search-all", 861e6, "op/s"}
	slabSearchNone = Published{"K40c, search-none", 793e6, "op/s"}
)

var slabFig5aExperiment = Experiment{
	Name:  "slabhash-fig5a",
	Title: "Slab hash: building over the number of keys",
	Doc: `After figure 5a of the SlabHash paper: building a slab hash` + slabFig5Doc + ` The paper's Tesla K40c was
saturated from 2^20 to 2^24 keys; its peak rate at any size was 512 M insertions a second. CUDPP's cuckoo hash built
1.19 times as fast in the geometric mean.` + slabBesideCuckoo,
	run: func(ctx context.Context, r *runner) error {
		defer r.meanSpeedups("insert")
		return sweepFig5(ctx, r, func(t *slabTrial) error {
			return t.measureWithCuckoo(ctx, func(t *slabTrial) error { return t.insert(ctx, "insert") })
		})
	},
	plots: func(res *Result) []Plot {
		p := plotSizes(res, "slabhash-fig5a", "Building at utilization 0.6", "insertions per second")
		p.level(slabPeakInsert)
		return []Plot{p, speedupsOverKeys(res, "slabhash-fig5a", slabFig5a)}
	},
	published: slabFig5a,
}

var slabFig5bExperiment = Experiment{
	Name:  "slabhash-fig5b",
	Title: "Slab hash: searching over the number of keys",
	Doc: `After figure 5b of the SlabHash paper: as many searches as keys, all of which exist (get_hit, search-all) or none
(get_miss, search-none)` + slabFig5Doc + ` The paper's harmonic means over all sizes on a Tesla K40c were 861 and 793 M
searches a second; CUDPP's cuckoo hash was 1.19 and .94 times as fast in the geometric mean.` + slabBesideCuckoo,
	run: func(ctx context.Context, r *runner) error {
		defer r.meanSpeedups("get_hit", "get_miss")
		return sweepFig5(ctx, r, func(t *slabTrial) error {
			return t.measureWithCuckoo(ctx, func(t *slabTrial) error { return t.lookups(ctx) })
		})
	},
	plots: func(res *Result) []Plot {
		p := plotSizes(res, "slabhash-fig5b", "Searching at utilization 0.6", "searches per second")
		p.level(slabSearchAll)
		p.level(slabSearchNone)
		return []Plot{p, speedupsOverKeys(res, "slabhash-fig5b", slabFig5b)}
	},
	published: slabFig5b,
}

// sweepFig5 calls body with tables of several sizes.
func sweepFig5(ctx context.Context, r *runner, body func(*slabTrial) error) error {
	largest, err := r.keys(1<<20, 1<<26, slabBytes(slabFig5Utilization)+cuckooBytes(slabFig5Utilization))
	if err != nil {
		return err
	}
	r.result.Parameters["keys"] = largest
	if err := r.slabLimits(ctx, largest, slabFig5Utilization); err != nil {
		return err
	}
	step := map[Scale]int{Quick: 5, Default: 2, Full: 1}[r.Scale]
	for shift := 10; shift >= 0; shift -= step {
		n := largest >> shift
		if n < 1 {
			continue
		}
		t, err := newSlabTrial(r, n)
		if err != nil {
			return err
		}
		err = t.at(ctx, slabFig5Utilization, func() error { return body(t) })
		if err := errors.Join(err, t.cols.free()); err != nil {
			return err
		}
	}
	return nil
}

func plotSizes(res *Result, name, title, what string) Plot {
	p := Plot{Name: name, Title: title, XLabel: "keys", YLabel: what, LogX: true, LogY: true}
	for _, row := range res.Rows {
		p.point(slabSeries(row), float64(row.N), row.OpsPerS)
	}
	p.limits(res, func(Row) bool { return true })
	return p
}
