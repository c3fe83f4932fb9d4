package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/baseline"
	"github.com/weftgo/weft/lab/internal/roofline"
)

// shape is the number of levels, of hash locations per level, and of slots per bucket of an index.
type shape struct{ levels, hashes, slots int }

// String returns the notation of the GPHash paper, such as 2L-2H-8S.
func (s shape) String() string { return fmt.Sprintf("%dL-%dH-%dS", s.levels, s.hashes, s.slots) }

// gphashShapes returns the shapes to measure. The first is the default. Except in the last two, a
// key has 32 candidate slots, one per lane of a warp.
func (r *runner) gphashShapes() []shape {
	all := []shape{
		{2, 2, 8}, {1, 2, 16}, {2, 1, 16}, {1, 4, 8}, {4, 1, 8}, {2, 4, 4}, {4, 2, 4}, {4, 4, 2}, {1, 2, 8}, {2, 2, 4},
	}
	if r.Scale == Quick {
		return all[:2]
	}
	return all
}

// smallValue is the size of values in experiments in which their size does not matter.
const smallValue = 8

var gphashLoadExperiment = Experiment{
	Name:  "gphash-fig7",
	Was:   "gphash-load-factor",
	Title: "The load factor of the persistent index while it grows",
	Doc: `After figure 7 of the GPHash paper, for each configuration of figure 13 (2L-2H-8S: two levels, two hash locations in
each, buckets of eight slots): an index for 2^14 keys grows to 2^20 (2^24 on a GPU), and its load factor, keys over slots, is
looked at every 2^14 insertions (samples). load is the highest one seen; a resize that begins between two looks shows neither
its highest nor its lowest point, so that small indexes, of which these are the larger part, seem emptier than they get. Keys
have 8 bytes and values, which do not count here, too. Whoever grows the index moves all keys at once, as in the paper. In the
paper GPHash reaches .92, Clevel hashing, Dash and SEPH .85, a slab hash .82. Here a key makes way for another one, once, and an
index is enlarged at .95. Beside it the peers of gphash-baselines, on a CPU, up to 2^20 keys: Clevel hashing, which grows, too; and the slab hash (slab), which is
made for all of them, and does not: its chains do.`,
	run:       runGPHashLoad,
	plots:     plotLoads,
	published: gphashLoads,
}

var gphashLoads = []Published{
	{"GPHash, highest load factor", .92, "load"},
	{"Clevel hashing, Dash, SEPH, highest load factor", .85, "load"},
	{"slab hash with a log, highest load factor", .82, "load"},
}

// loadStep is the number of insertions between two reads of the load factor.
const loadStep = 1 << 14

func runGPHashLoad(ctx context.Context, r *runner) error {
	n, err := r.gphashKeys(1<<20, 1<<24, 8)
	if err != nil {
		return err
	}
	if err := r.poolLimits(ctx, n*slotSize(8), roofline.CAS64); err != nil {
		return err
	}
	for _, s := range r.gphashShapes() {
		r.step("gphash-fig7: %v", s)
		if err := gphashGrowth(ctx, r, s, n); err != nil {
			return fmt.Errorf("%v: %w", s, err)
		}
	}
	for _, p := range []struct {
		name     string
		create   func(path string, o baseline.Options) (*baseline.Index, error)
		capacity int
	}{{"clevel", baseline.CreateClevel, loadStep}, {"slab", baseline.CreateSlab, min(n, peerLoadKeys)}} {
		r.step("gphash-fig7: %s", p.name)
		x, err := unnamed(func(path string) (*baseline.Index, error) {
			return p.create(path, r.peerLoadOptions(p.capacity, min(n, peerLoadKeys)))
		})
		if err == nil {
			err = errors.Join(r.peerLoads(ctx, p.name, x, min(n, peerLoadKeys)), x.Close())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// peerLoadKeys is the maximum number of keys in a peer whose load factor is measured.
const peerLoadKeys = 1 << 20

func (r *runner) peerLoadOptions(capacity, n int) baseline.Options {
	return baseline.Options{KeySize: 8, ValueSize: smallValue, Capacity: capacity, Size: int64(512*n + 16<<20), Seed: r.Seed + 1, NoLog: true}
}

// peerLoads inserts n keys into a peer and records its load factor.
func (r *runner) peerLoads(ctx context.Context, name string, x *baseline.Index, n int) error {
	row := Row{Structure: name, Op: "insert", KeyBits: 64, ValueBits: 8 * smallValue, N: n, Batch: loadStep, Limit: r.poolSwap()}
	for at := 0; at < n; {
		some := min(loadStep, n-at)
		keys, vals := make([]byte, 8*some), make([]byte, smallValue*some)
		for i := range some {
			workload.RecordKey(keys[8*i:8*i+8], r.Seed, uint64(at+i))
		}
		start := time.Now()
		inserted, err := x.Put(ctx, keys, vals)
		row.Seconds += time.Since(start).Seconds()
		if err != nil {
			return err
		}
		if inserted != some {
			return fmt.Errorf("%w: %d of %d new keys were inserted", errWrong, inserted, some)
		}
		at += some
		row.Samples = append(row.Samples, float64(at)/float64(x.Slots()))
		row.Load = max(row.Load, row.Samples[len(row.Samples)-1])
	}
	row.OpsPerS = float64(n) / row.Seconds
	r.add(row)
	return nil
}

// shapedOptions returns the options of an index of small values that may grow to n keys.
func (r *runner) shapedOptions(s shape, capacity, n int) gphash.Options {
	o := r.gphashOptions(8, capacity, 0)
	// Space for the previous levels, and for two levels that are twice as large.
	o.Size = int64(8*slotSize(8)*n + 3*(smallValue+8)*n + 2*loose(n))
	o.ValueSize, o.Resize = smallValue, gphash.Stop
	o.Levels, o.Hashes, o.Slots = s.levels, s.hashes, s.slots
	return o
}

func gphashGrowth(ctx context.Context, r *runner, s shape, n int) (err error) {
	x, err := r.createIndex(r.shapedOptions(s, loadStep, n))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	g := newGrowth(r, x)
	row := Row{Structure: s.String(), Op: "insert", KeyBits: 64, ValueBits: 8 * smallValue, N: n, Batch: loadStep, Limit: r.poolSwap()}
	for g.keys < n {
		if _, err := g.insert(ctx, min(loadStep, n-g.keys)); err != nil {
			return err
		}
		row.Samples = append(row.Samples, g.stats.LoadFactor)
		row.Load = max(row.Load, g.stats.LoadFactor)
	}
	row.Seconds, row.OpsPerS = g.seconds, float64(n)/g.seconds
	r.add(row)
	return g.verify(ctx)
}

func plotLoads(res *Result) []Plot {
	p := Plot{Name: res.Experiment, Title: "Load factor while the index grows", XLabel: "keys", YLabel: "load factor"}
	for _, row := range res.Rows {
		for i, load := range row.Samples {
			p.point(row.Structure, float64(min((i+1)*row.Batch, row.N)), load)
		}
	}
	for _, f := range gphashLoads {
		p.level(f)
	}
	return []Plot{p}
}

var gphashConfigExperiment = Experiment{
	Name:  "gphash-fig13",
	Was:   "gphash-config",
	Title: "Levels, hash locations and slots of the persistent index",
	Doc: `After figure 13 of the GPHash paper: throughput over the highest load factor, by configuration (2L-2H-8S: two levels,
two hash locations in each, buckets of eight slots). An index for 2^18 keys (2^20 on a GPU) is filled in batches of 2^10 (of fewer keys if it
is for less than 2^16) until it is about to grow: that is load. On a GPU, where warps race for slots, the same keys may make another index grow earlier:
load is the lowest of those that were filled. insert is the rate of all of that, get_hit and get_miss are those of an index filled up to
there, whose buckets are as full as they get. Keys have 8 bytes and values, which do not count here, too. A GPU reads the 32
slots of a key at once; a CPU reads them bucket by bucket, and ends at the key.`,
	run:   runGPHashConfig,
	plots: plotConfigs,
}

func runGPHashConfig(ctx context.Context, r *runner) error {
	n, err := r.gphashKeys(1<<18, 1<<20, 8)
	if err != nil {
		return err
	}
	if err := r.poolLimits(ctx, n*slotSize(8), roofline.Read64, roofline.CAS64); err != nil {
		return err
	}
	r.result.Parameters["runs"] = r.Runs // runs of lookups
	for _, s := range r.gphashShapes() {
		r.step("gphash-fig13: %v", s)
		if err := gphashConfig(ctx, r, s, n); err != nil {
			return fmt.Errorf("%v: %w", s, err)
		}
	}
	return nil
}

// configBatch returns the number of insertions after which an index for n keys is checked for
// growth.
func configBatch(n int) int { return max(min(1<<10, n/64), 1) }

func gphashConfig(ctx context.Context, r *runner, s shape, n int) (err error) {
	row := Row{Structure: s.String(), KeyBits: 64, ValueBits: 8 * smallValue}
	most, err := maxKeysBeforeGrowth(ctx, r, s, n)
	if err != nil {
		return err
	}
	var g *growth
	most, err = fillUntilStable(most, configFills, func(most int) (before int, err error) {
		if g != nil {
			if err := g.index.Close(); err != nil {
				return 0, err
			}
		}
		x, err := r.createIndex(r.shapedOptions(s, n, n))
		if err != nil {
			return 0, err
		}
		g = newGrowth(r, x)
		return g.insertUntilGrown(ctx, most, configBatch(n))
	})
	if g != nil {
		defer func() { err = errors.Join(err, g.index.Close()) }()
	}
	if err != nil {
		return err
	}
	report := func(op string, seconds float64, limit string) {
		row.Op, row.N, row.Load, row.Seconds, row.OpsPerS, row.Limit = op, most, g.stats.LoadFactor, seconds, float64(most)/seconds, limit
		r.add(row)
	}
	report("insert", g.seconds, r.poolSwap())
	for _, op := range []struct {
		name  string
		first uint64
		hits  int
	}{{"get_hit", 0, most}, {"get_miss", workload.Misses, 0}} {
		elapsed, err := r.repeat(ctx, r.Runs, func() (time.Duration, error) { return g.lookups(ctx, op.first, op.hits) })
		if err != nil {
			return err
		}
		report(op.name, elapsed.Seconds(), r.poolRead())
	}
	return nil
}

// configFills is the maximum number of attempts to fill an index that does not grow. On a GPU the
// warps of a batch race for free slots, so the keys that find no slot differ between runs. With
// equal keys, one index has grown two batches of 64 earlier than another.
const configFills = 16

// fillUntilStable fills indexes with n keys, or fewer if an index grows before. fill returns the
// number of keys before the growth. fillUntilStable returns the number of keys that fit without
// growth.
func fillUntilStable(n, fills int, fill func(n int) (before int, err error)) (int, error) {
	for range fills {
		before, err := fill(n)
		if err != nil || before == n {
			return before, err
		}
		n = before
	}
	return 0, fmt.Errorf("%w: each of %d indexes has grown with fewer keys than the one before, the last at %d", errWrong, fills, n)
}

// insertUntilGrown inserts keys in batches until the index grows. most is the maximum number of
// keys. insertUntilGrown returns the number of keys before the growth.
func (g *growth) insertUntilGrown(ctx context.Context, most, batch int) (before int, err error) {
	for g.keys < most && g.stats.Resizes == 0 {
		before = g.keys
		if _, err := g.insert(ctx, min(batch, most-g.keys)); err != nil {
			return 0, err
		}
	}
	if g.stats.Resizes == 0 {
		before = g.keys
	}
	return before, nil
}

// maxKeysBeforeGrowth returns the number of keys before the batch that makes an index grow.
func maxKeysBeforeGrowth(ctx context.Context, r *runner, s shape, n int) (keys int, err error) {
	x, err := r.createIndex(r.shapedOptions(s, n, n))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	return newGrowth(r, x).insertUntilGrown(ctx, math.MaxInt, configBatch(n))
}

// plotConfigs plots the rates of each operation over the highest load, one point per shape.
func plotConfigs(res *Result) []Plot {
	var plots []Plot
	for _, row := range res.Rows {
		plotFor(&plots, res.Experiment+"-"+row.Op, func() Plot {
			return Plot{Title: "Configurations: " + row.Op, XLabel: "highest load factor", YLabel: "operations per second"}
		}).point(row.Structure, row.Load, row.OpsPerS)
	}
	return plots
}
