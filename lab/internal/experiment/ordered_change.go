package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/lab/internal/roofline"
)

var orderedInsertExperiment = Experiment{
	Name:  "awad-table3.3",
	Also:  []string{"awad-fig3.3"},
	Was:   "ordered-insert",
	Title: "Batches of new keys into ordered maps, and loading all of it again",
	Doc: `After table 3.3 and figure 3.3 of Awad's thesis: batches of 2^16 to 2^24 (2^10 to 2^18 on a CPU) new random 32-bit keys with 32-bit values
into a map of 10^8 pairs (2^20 on a CPU; as many as --n says): eight batches of a size one behind the other, or as many as make the largest. Beside each
the rate at which a batch comes in if the map is loaded again as a whole instead (rebuild): the pairs of the map and of the batch, unsorted. The
parameters have the smallest batch from which that is faster (crossover).` + allOrdered + `
The limit is random compare-and-swaps of 64 bits in a region as large as the pairs: what a hash table pays for a key. Published beside it: the thesis' B-tree, its LSM and its sorted array, on a TITAN V, mean rates while maps of all sizes are built.`,
	run:   runOrderedInsert,
	plots: plotOrderedInsert,
}

// published33 is table 3.3 in 10^6 keys per second, by the logarithm of the batch size.
var published33 = map[string]map[int]float64{
	"btree":  {16: 168, 17: 139.7, 18: 171.7, 19: 190.3, 20: 205.1, 21: 211.9, 22: 223},
	"lsm":    {16: 61.5, 17: 121.3, 18: 218.6, 19: 402.5, 20: 685.9, 21: 1103.8, 22: 1603.1},
	"sorted": {16: 44.9, 17: 87.6, 18: 160.6, 19: 292.6, 20: 543, 21: 907.5, 22: 1472.7},
}

// insertedBatches is the maximum number of batches that are inserted per size.
const insertedBatches = 8

func runOrderedInsert(ctx context.Context, r *runner) (err error) {
	first, last := r.size(10, 16), r.size(18, 24)
	n, err := r.keys(1<<20, 100_000_000, orderedBytes[uint32, uint32]())
	if err != nil {
		return err
	}
	for last > 4 && 1<<last > n { // a small map gets small batches
		first, last = max(first-2, 2), last-2
	}
	step := map[Scale]int{Quick: 4, Default: 2, Full: 1}[r.Scale]
	limit, err := r.changeLimit(ctx, n)
	if err != nil {
		return err
	}
	t, err := newOrderedTrial[uint32, uint32](r, n+1<<last, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.free()) }()
	t.write = limit
	return t.each(ctx, func(m *orderedMap[uint32, uint32]) error {
		for shift := first; shift <= last; shift += step {
			if err := t.batches(ctx, 1<<shift, min(insertedBatches, 1<<(last-shift))); err != nil {
				return fmt.Errorf("batches of 2^%d: %w", shift, err)
			}
		}
		r.result.Parameters["crossover_"+m.name] = rebuildFrom(r.result.Rows, m.name)
		return nil
	})
}

// changeLimit measures the limits of changes and of lookups in maps of n pairs. It returns the name
// of the limit of changes.
func (r *runner) changeLimit(ctx context.Context, n int) (string, error) {
	region := regionOf(n * 8)
	err := r.limits(ctx, region, roofline.CAS64, roofline.Read64, roofline.Copy)
	return roofline.CAS64, err
}

// batches measures inserting a number of batches of one size. It also measures loading all pairs of
// the map and one batch.
func (t *orderedTrial[K, V]) batches(ctx context.Context, size, number int) error {
	t.begin(fmt.Sprintf("%d batches of %d", number, size))
	elapsed, err := t.median(ctx, t.reload(ctx), func() error {
		for i := range number {
			keys, vals := t.of(t.n+i*size, t.n+(i+1)*size)
			if err := t.m.put(t.stream, keys, vals); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = t.has(ctx, t.n+number*size)
	}
	if err != nil {
		return err
	}
	row := t.row()
	row.Batch = size
	if rate := published33[t.m.name][bits.TrailingZeros(uint(size))]; t.onGPU() && rate > 0 {
		row.PublishedOpsPerS = figure(1e6 * rate)
	}
	t.report("insert", number*size, elapsed, t.write, row)

	t.begin("rebuild")
	keys, vals := t.of(0, t.n+size)
	elapsed, err = t.median(ctx, func() error { return t.m.Clear(ctx) }, func() error { return t.m.mapOf.BuildOn(t.stream, keys, vals) })
	if err == nil {
		err = t.has(ctx, t.n+size)
	}
	row.PublishedOpsPerS = nil
	t.report("rebuild", size, elapsed, t.write, row)
	return err
}

// rebuildFrom returns the smallest batch size from which on loading all pairs again was never
// slower than inserting the batch, or "none".
func rebuildFrom(rows []Row, structure string) any {
	var from any = "none"
	insert := 0.
	for _, row := range rows { // sizes ascend
		switch {
		case row.Structure != structure:
		case row.Op == "insert":
			insert = row.OpsPerS
		case row.Op == "rebuild" && row.OpsPerS < insert:
			from = "none"
		case row.Op == "rebuild" && from == "none":
			from = row.Batch
		}
	}
	return from
}

func plotOrderedInsert(res *Result) []Plot {
	p := Plot{Name: "awad-table3.3", Title: "Batches of new keys", XLabel: "keys of a batch", YLabel: "keys per second", LogX: true, LogY: true}
	for _, row := range res.Rows {
		if row.Reason != "" {
			continue
		}
		name := row.Structure
		if row.Op == "rebuild" {
			name += ", loaded again"
		}
		p.point(name, float64(row.Batch), row.OpsPerS)
	}
	return nonEmpty(p)
}

var orderedDeleteExperiment = Experiment{
	Name:  "awad-fig3.4",
	Was:   "ordered-delete",
	Title: "Deleting a share of an ordered map",
	Doc: `After figure 3.4 of Awad's thesis: a batch deletes 10 to 50 % of the pairs of a map of 10^8 (2^20 on a CPU; as many as --n says) random 32-bit keys
with 32-bit values, in random order.` + allOrdered + `
The limit is random compare-and-swaps of 64 bits in a region as large as the pairs. The thesis, on a TITAN V: 571 million a second for 10 %, 582 to 583 for more.`,
	run: func(ctx context.Context, r *runner) error {
		n, err := r.keys(1<<20, 100_000_000, orderedBytes[uint32, uint32]())
		if err != nil {
			return err
		}
		return r.changes(ctx, n, func(t *orderedTrial[uint32, uint32]) error {
			for _, percent := range map[Scale][]int{Quick: {10, 50}, Default: {10, 20, 30, 40, 50}, Full: {1, 10, 20, 30, 40, 50, 100}}[r.Scale] {
				if err := t.deleteShare(ctx, percent); err != nil {
					return err
				}
			}
			return nil
		})
	},
	plots: func(res *Result) []Plot {
		p := Plot{Name: "awad-fig3.4", Title: "Deleting a share of the pairs", XLabel: "share deleted", YLabel: "deletes per second"}
		for _, row := range res.Rows {
			if row.Reason == "" {
				p.point(row.Structure, row.Load, row.OpsPerS)
			}
		}
		if len(p.Series) > 0 && len(res.Published) > 0 {
			p.level(res.Published[0])
		}
		return nonEmpty(p)
	},
	published: []Published{{"TITAN V, B-tree, 20 to 50 %", 582e6, "op/s"}},
}

// changes calls measure for each ordered map. Maps have n pairs.
func (r *runner) changes(ctx context.Context, n int, measure func(t *orderedTrial[uint32, uint32]) error) (err error) {
	limit, err := r.changeLimit(ctx, n)
	if err != nil {
		return err
	}
	t, err := newOrderedTrial[uint32, uint32](r, n, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.free()) }()
	t.read, t.write = roofline.Read64, limit
	return t.each(ctx, func(*orderedMap[uint32, uint32]) error { return measure(t) })
}

func (t *orderedTrial[K, V]) deleteShare(ctx context.Context, percent int) error {
	t.begin(fmt.Sprintf("delete %d %%", percent))
	removed := max(t.n*percent/100, 1)
	keys, _ := t.of(0, removed)
	elapsed, err := t.median(ctx, t.reload(ctx), func() error { return t.m.remove(t.stream, keys, device.Slice[bool]{}) })
	if err == nil {
		err = t.has(ctx, t.n-removed)
	}
	row := t.row()
	row.Load = float64(percent) / 100
	t.report("delete", removed, elapsed, t.write, row)
	return err
}

var orderedMixedExperiment = Experiment{
	Name:  "awad-fig3.5",
	Was:   "ordered-mixed",
	Title: "Mixed batches on ordered maps",
	Doc: `After figure 3.5 of Awad's thesis: batches of 2^22 (2^16 on a CPU) operations, a share of which are updates, half of them insertions of
new keys and half deletions, and the rest lookups of keys that are there, in random order, on a map of 10^8 pairs (2^20 on a CPU; as many as --n says) of 32-bit keys and
values. Each operation returns what it would alone, in the order of the batch. No key is in a batch twice.` + allOrdered + `
The limit is the harmonic mean of random reads of 64 bytes and compare-and-swaps of 64 bits in a region as large as the pairs. In the thesis operations of a batch
have no order: on a TITAN V 248, 257 and 238 million a second at 20, 60 and 100 % updates.`,
	run: runOrderedMixed,
	plots: func(res *Result) []Plot {
		p := Plot{Name: "awad-fig3.5", Title: "Mixed batches", XLabel: "share of updates", YLabel: "operations per second"}
		for _, row := range res.Rows {
			if row.Reason == "" {
				p.point(row.Structure, row.Load, row.OpsPerS)
			}
		}
		for _, f := range res.Published {
			if len(p.Series) > 0 {
				p.level(f)
			}
		}
		return nonEmpty(p)
	},
	published: []Published{{"TITAN V, B-tree, 60 % updates", 257.25e6, "op/s"}},
}

func runOrderedMixed(ctx context.Context, r *runner) error {
	n, err := r.keysFrom(minMixed, 1<<20, 100_000_000, orderedBytes[uint32, uint32]()+mixedBytes)
	if err != nil {
		return err
	}
	size := min(r.size(1<<16, 1<<22), n/2)
	return r.changes(ctx, n, func(t *orderedTrial[uint32, uint32]) error {
		for _, percent := range map[Scale][]int{Quick: {60}, Default: {5, 20, 50, 60, 100}, Full: {0, 5, 20, 50, 60, 90, 100}}[r.Scale] {
			if err := t.mixedShare(ctx, percent, size); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *orderedTrial[K, V]) mixedShare(ctx context.Context, percent, size int) (err error) {
	updates := float64(percent) / 100
	m := mix{op: fmt.Sprintf("mixed_%d", percent), insert: updates / 2, remove: updates / 2, hit: 1 - updates}
	t.begin(m.op)
	b, err := newBatch[K, V](t.runner, m, t.n, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.free()) }()
	prepare := func() error {
		keys, vals := t.of(0, b.before)
		if err := t.m.load(ctx, t.stream, keys, vals); err != nil {
			return err
		}
		return t.stream.Copy(b.vals.Ptr(), b.put.Ptr(), size*t.valueBits/8)
	}
	elapsed, err := t.median(ctx, prepare, func() error { return t.m.ApplyOn(t.stream, b.kinds, b.keys, b.vals, b.ok) })
	if err == nil {
		err = t.m.Sync(ctx)
	}
	if err == nil {
		err = checkFlags(ctx, t.runner, b.ok, m.op, b.succeed)
	}
	if err != nil {
		return err
	}
	row := t.row()
	row.Load, row.Batch = updates, size
	limit := t.read
	if percent > 0 {
		limit = t.mixedLimit(t.read, t.write, updates)
	}
	t.report(m.op, size, elapsed, limit, row)
	return nil
}

var orderedLoadExperiment = Experiment{
	Name:  "ordered-load",
	Title: "Loading ordered maps at once",
	Doc: `Pairs in random and in ascending order, which no one says, loaded into an empty map (Build) of 2^16 to 10^8 pairs (2^20 on a CPU), of 32-bit keys and values, and with
--full of 64-bit ones. The limit is reading and writing each pair once, as fast as the device copies; random ones have to be sorted first.` + allOrdered + `
Here all of them are loaded at once. The thesis builds its B-tree on a TITAN V at 3.1 billion pairs a second.`,
	run: func(ctx context.Context, r *runner) error {
		if err := loadOrdered[uint32, uint32](ctx, r); err != nil || r.Scale != Full {
			return err
		}
		return loadOrdered[uint64, uint64](ctx, r)
	},
	plots: func(res *Result) []Plot {
		var plots []Plot
		for _, width := range []int{32, 64} {
			for _, op := range []string{"load_random", "load_ascending"} {
				p := plotOverKeys(res, fmt.Sprintf("ordered-%s-%d", op, width), fmt.Sprintf("%s, %d-bit pairs", op, width), func(row Row) bool { return row.Op == op && row.KeyBits == width })
				for _, f := range res.Published {
					if len(p.Series) > 0 && op == "load_random" && width == 32 {
						p.level(f)
					}
				}
				plots = append(plots, p)
			}
		}
		return nonEmpty(plots...)
	},
	published: []Published{{"TITAN V, B-tree", 3124.32e6, "op/s"}},
}

func loadOrdered[K weft.Key, V weft.Value](ctx context.Context, r *runner) (err error) {
	n, err := r.keys(1<<20, 100_000_000, orderedBytes[K, V]())
	if err != nil {
		return err
	}
	bytes := 2 * (bitsOf[K]() + bitsOf[V]()) / 8
	region := regionOf(n * bytes)
	if err := r.limitsIn(ctx, region, roofline.Copy); err != nil {
		return err
	}
	limit := fmt.Sprintf("pairs_%d", bytes)
	r.result.Limits[limit] = r.result.Limits[roofline.In(roofline.Copy, region)] / float64(bytes)
	t, err := newOrderedTrial[K, V](r, n, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.free()) }()
	sizes := r.mapSizes(16, n, map[Scale]int{Quick: 8, Default: 4, Full: 2})
	for _, order := range []string{"random", "ascending"} {
		if order == "ascending" {
			if err := t.ascend(); err != nil {
				return err
			}
		}
		err := t.each(ctx, func(*orderedMap[K, V]) error {
			for _, t.n = range sizes {
				if err := t.loadAll(ctx, "load_"+order, limit); err != nil {
					return fmt.Errorf("%d pairs: %w", t.n, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *orderedTrial[K, V]) loadAll(ctx context.Context, op, limit string) error {
	t.begin(op)
	keys, vals := t.of(0, t.n)
	elapsed, err := t.median(ctx, func() error { return t.m.Clear(ctx) }, func() error { return t.m.mapOf.BuildOn(t.stream, keys, vals) })
	if err == nil {
		err = t.has(ctx, t.n)
	}
	row := t.row()
	if err == nil {
		err = t.m.describe(ctx, &row)
	}
	if err != nil {
		return err
	}
	t.report(op, t.n, elapsed, limit, row)
	return nil
}

// ascend replaces the keys by ascending keys.
func (t *orderedTrial[K, V]) ascend() error {
	keys := make([]K, t.keys.Len())
	for i := range keys {
		keys[i] = K(i)
	}
	return t.keys.CopyFrom(t.stream, keys)
}
