package experiment

import (
	"context"
	"errors"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
)

var orderedGrownExperiment = Experiment{
	Name:  "ordered-grown",
	Title: "Lookups in ordered maps that have doubled by batches",
	Doc: `2^24 (2^18 on a CPU) lookups of random keys that are there, any of them many times (get_hit), and of keys that are not (get_miss), in maps of 10^8 pairs (2^20 on a
CPU; as many as --n says) as they were loaded; behind as many insertions of new keys, in batches of 2^20 (2^14 on a CPU) (get_hit_grown, get_miss_grown); and then while a snapshot is
held and a batch has followed it (get_hit_held, get_miss_held). Keys and values of 32 and of 64 bits.` + allOrdered + `
speedup is the rate over that of the map as it was loaded. The limit is random reads of 64 bytes in a region as large as the pairs.`,
	run: runOrderedGrown,
}

func runOrderedGrown(ctx context.Context, r *runner) error {
	return errors.Join(grownOf[uint32, uint32](ctx, r), grownOf[uint64, uint64](ctx, r))
}

func grownOf[K weft.Key, V weft.Value](ctx context.Context, r *runner) (err error) {
	n, err := r.keys(1<<20, 100_000_000, 2*orderedBytes[K, V]())
	if err != nil {
		return err
	}
	t, err := newOrderedTrial[K, V](r, 2*n, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.free()) }()
	g := &grown[K, V]{orderedTrial: t, batch: min(n, r.size(1<<14, 1<<20)), bulk: map[string]float64{}}
	if err := g.open(min(n, r.size(1<<18, 1<<24))); err != nil {
		return err
	}
	r.result.Parameters["batch"] = g.batch
	return t.each(ctx, func(*orderedMap[K, V]) error { return g.measure(ctx) })
}

// grown measures a map of n pairs into which n further pairs are inserted.
type grown[K weft.Key, V weft.Value] struct {
	*orderedTrial[K, V]
	batch int                // insertions per batch
	bulk  map[string]float64 // rates in the map as loaded, by operation
}

func (g *grown[K, V]) open(lookups int) (err error) {
	g.cols.n = lookups
	host := make([]K, lookups)
	workload.Uniform(host, g.Seed, uint64(g.n), g.Seed+1)
	if g.cols.hits, err = device.Upload(g.stream, host); err != nil {
		return err
	}
	workload.Unique(host, g.Seed, workload.Misses)
	if g.cols.miss, err = device.Upload(g.stream, host); err != nil {
		return err
	}
	if g.cols.out, err = device.Make[V](g.Device, lookups); err != nil {
		return err
	}
	g.cols.flags, err = device.Make[bool](g.Device, lookups)
	return err
}

func (g *grown[K, V]) measure(ctx context.Context) (err error) {
	if err := errors.Join(g.reload(ctx)(), g.has(ctx, g.n)); err != nil {
		return err
	}
	if err := g.lookups(ctx, ""); err != nil {
		return err
	}
	if err := errors.Join(g.insert(g.n, 2*g.n), g.has(ctx, 2*g.n)); err != nil {
		return err
	}
	if err := g.lookups(ctx, "_grown"); err != nil {
		return err
	}
	at, err := g.m.mapOf.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close()) }()
	keys, _ := g.of(2*g.n-g.batch, 2*g.n)
	if err := errors.Join(g.m.remove(g.stream, keys, device.Slice[bool]{}), g.insert(2*g.n-g.batch, 2*g.n), g.has(ctx, 2*g.n)); err != nil {
		return err
	}
	return g.lookups(ctx, "_held")
}

func (g *grown[K, V]) insert(lo, hi int) error {
	for ; lo < hi; lo += g.batch {
		keys, vals := g.of(lo, min(lo+g.batch, hi))
		if err := g.m.put(g.stream, keys, vals); err != nil {
			return err
		}
	}
	return nil
}

// lookups measures lookups in the current map. Names of operations end in suffix.
func (g *grown[K, V]) lookups(ctx context.Context, suffix string) error {
	pairs := g.m.Len()
	region := regionOf(pairs * slotBytes[K, V]())
	g.read = roofline.In(roofline.Read64, region)
	if err := g.limitsIn(ctx, region, roofline.Read64); err != nil {
		return err
	}
	for _, op := range []string{"get_hit", "get_miss"} {
		if err := g.lookup(ctx, op+suffix); err != nil {
			return err
		}
		row := &g.result.Rows[len(g.result.Rows)-1]
		row.Keys = pairs
		if suffix == "" {
			g.bulk[op] = row.OpsPerS
		} else {
			row.Speedup = figure(row.OpsPerS / g.bulk[op])
		}
		if err := g.m.describe(ctx, row); err != nil {
			return err
		}
	}
	return nil
}
