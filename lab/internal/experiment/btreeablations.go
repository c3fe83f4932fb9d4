package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/lab/internal/roofline"
	"github.com/weftgo/weft/lab/internal/treeways"
)

var btreeAblationsExperiment = Experiment{
	Name:  "btree-ablations",
	GPU:   true,
	Title: "B-trees without the parts that make them fast",
	Doc: `After chapter 3 of Awad's thesis: kernels that change a B-tree of 32-bit keys and values by the code of btree, each without one of its parts. btree is the map itself,
by unordered batches, whose warps do what they can with all tiles in step; alone the same with each tile going its way, which is what the others are compared with
(speedup): restart starts over at once where a latch is taken, alone behind a pause; spin waits for the latch; backoff waits with pauses that double; fences has fences of
the device where others acquire and release, one for each access; coupled takes the latch of a child before it gives that of the parent back, from the root on, as the thesis' baseline does (nodes
have 128 bytes, 14 pairs and a header, here as there 16 words). build: all keys of a tree of 2^16 (2^10 on a simulated GPU) are inserted into an empty one. insert: 2^18 (2^8) new keys into trees of 2^20 and 2^24
(2^12; as many as --n says). erase deletes a tenth of the keys and merges no nodes, so that no inner node changes; erase_l1 reads inner nodes through the L1 cache, so does find_l1 beside find, for all keys.
The limits are random compare-and-swaps of 64 bits, and random reads of 64 bytes, in a region as large as the pairs. The thesis, on a TITAN V: restarts 6.39 times as fast as spinning on a tree of 2^16 keys and back-off 1.47 times, fences and going past
the L1 1.77 times as slow, deletions through the L1 2.4 times as fast, latch coupling .166 million insertions a second in place of 182.9.`,
	run:   runBTreeAblations,
	plots: plotBTreeAblations,
	published: []Published{{"TITAN V, restart over spin", 6.39, "x"}, {"TITAN V, backoff over spin", 1.47, "x"}, {"TITAN V, none over fences", 1.77, "x"},
		{"TITAN V, deletions through L1", 2.4, "x"}, {"TITAN V, latch coupling", .166e6, "op/s"}, {"TITAN V, insertions", 182.9e6, "op/s"}},
}

// plotBTreeAblations plots the rate of each variant, and its speedup over the base variant, over
// the number of keys.
func plotBTreeAblations(res *Result) []Plot {
	rates := Plot{Name: "btree-ablations", Title: "Ways to change a B-tree", XLabel: "keys", YLabel: "operations per second", LogX: true, LogY: true}
	ratios := Plot{Name: "btree-ablations-speedup", Title: "Ways to change a B-tree, over the base", XLabel: "keys", YLabel: "speedup", LogX: true, LogY: true}
	for _, row := range res.Rows {
		name, keys := row.Op+", "+row.Structure, float64(max(row.Keys, row.Batch, 1))
		rates.point(name, keys, row.OpsPerS)
		if row.Speedup != nil {
			ratios.point(name, keys, *row.Speedup)
		}
	}
	plots := nonEmpty(rates, ratios)
	for i := range plots {
		for _, f := range res.Published {
			if (f.Unit == "x") == (plots[i].Name == ratios.Name) {
				plots[i].level(f)
			}
		}
	}
	return plots
}

// treeWays holds a tree and the kernel variants that run on it.
type treeWays struct {
	*orderedTrial[uint32, uint32]
	tree    *btree.Map[uint32, uint32]
	kernels *treeways.Kernels
	out     device.Slice[uint32]
	flags   device.Slice[bool]
}

// newTreeWays makes the given number of pairs for a tree of at most n pairs.
func newTreeWays(r *runner, pairs, n int) (x *treeWays, err error) {
	x = &treeWays{}
	x.orderedTrial, err = newTrialOf(r, pairs, n, func() (maps []*orderedMap[uint32, uint32], err error) {
		if x.tree, err = btree.New[uint32, uint32](r.Device, &btree.Options{Unordered: true}); err != nil {
			return nil, err
		}
		return []*orderedMap[uint32, uint32]{{mapOf: x.tree.OrderedMap, name: "btree"}}, nil
	})
	if err != nil {
		return nil, err
	}
	x.use(x.maps[0])
	if x.kernels, err = treeways.Open(r.Device); err == nil {
		x.out, err = device.Make[uint32](r.Device, pairs)
	}
	if err == nil {
		x.flags, err = device.Make[bool](r.Device, pairs)
	}
	if err != nil {
		return nil, errors.Join(err, x.free())
	}
	return x, nil
}

func (x *treeWays) free() error {
	return errors.Join(x.orderedTrial.free(), x.out.Free(), x.flags.Free())
}

// runBTreeAblations measures trees of several sizes. The first is empty.
func runBTreeAblations(ctx context.Context, r *runner) (err error) {
	n, err := r.keys(1<<12, 1<<24, orderedBytes[uint32, uint32]())
	if err != nil {
		return err
	}
	small := min(1<<16, max(n/4, 1))
	batch := min(1<<18, max(n/4, 1))
	x, err := newTreeWays(r, n+batch, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.free()) }()
	if err := x.sized(ctx, 0, small); err != nil {
		return err
	}
	sizes := []int{n}
	if middle := n / 16; middle > small {
		sizes = []int{middle, n}
	}
	for _, size := range sizes {
		if err := x.sized(ctx, size, batch); err != nil {
			return fmt.Errorf("%d pairs: %w", size, err)
		}
	}
	return nil
}

// sized measures all variants on a tree of n pairs. batch is the number of pairs that insertions
// add.
func (x *treeWays) sized(ctx context.Context, n, batch int) error {
	x.n = n
	region := regionOf(max(n, batch) * 8)
	if err := x.limitsIn(ctx, region, roofline.CAS64, roofline.Read64); err != nil {
		return err
	}
	x.write, x.read = roofline.In(roofline.CAS64, region), roofline.In(roofline.Read64, region)
	if err := x.inserts(ctx, n, batch); err != nil || n == 0 {
		return err
	}
	return errors.Join(x.erases(ctx, n/10), x.finds(ctx, n))
}

func (x *treeWays) prepared(ctx context.Context) func() error {
	if x.n == 0 {
		return func() error { return x.m.Clear(ctx) }
	}
	return x.reload(ctx)
}

func (x *treeWays) inserts(ctx context.Context, n, batch int) error {
	op := "insert"
	if n == 0 {
		op = "build"
	}
	keys, vals := x.of(n, n+batch)
	measure := func(name string, submit func() error) error {
		x.structure = name
		x.begin(fmt.Sprintf("%s of %d into %d", op, batch, n))
		elapsed, err := x.median(ctx, x.prepared(ctx), submit)
		if err == nil {
			err = x.has(ctx, n+batch)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		row := x.row()
		row.Batch = batch
		x.against(treeways.PerTile.String(), op, float64(batch)/elapsed.Seconds(), &row)
		x.report(op, batch, elapsed, x.write, row)
		return nil
	}
	for _, way := range treeways.Inserts {
		if way == treeways.Coupled && n > 0 {
			continue // the root's latch limits its rate
		}
		if err := measure(way.String(), func() error { return x.kernels.Insert(ctx, x.stream, x.tree, way, keys, vals) }); err != nil {
			return err
		}
	}
	if n == 0 {
		return nil // an empty map is built at once
	}
	return measure("btree", func() error { return x.m.put(x.stream, keys, vals) })
}

// against sets the speedup in a row: its rate over the rate of another structure that has been
// measured already.
func (x *treeWays) against(structure, op string, rate float64, row *Row) {
	for _, base := range x.result.Rows {
		if base.Structure == structure && base.Op == op && base.Keys == row.Keys && x.structure != structure {
			row.Speedup = figure(rate / base.OpsPerS)
		}
	}
}

func (x *treeWays) erases(ctx context.Context, removed int) error {
	removed = max(removed, 1)
	keys, _ := x.of(0, removed)
	for _, way := range treeways.Erases {
		x.structure = way.String()
		x.begin("delete")
		elapsed, err := x.median(ctx, x.prepared(ctx), func() error { return x.kernels.Erase(ctx, x.stream, x.tree, way, keys) })
		if err == nil {
			err = x.has(ctx, x.n-removed)
		}
		if err != nil {
			return fmt.Errorf("%v: %w", way, err)
		}
		row := x.row()
		x.against(treeways.Erase.String(), "delete", float64(removed)/elapsed.Seconds(), &row)
		x.report("delete", removed, elapsed, x.write, row)
	}
	return nil
}

func (x *treeWays) finds(ctx context.Context, n int) error {
	if err := x.reload(ctx)(); err != nil {
		return err
	}
	keys, _ := x.of(0, n)
	out, flags := x.out.Sub(0, n), x.flags.Sub(0, n)
	for _, throughL1 := range []bool{false, true} {
		x.structure = map[bool]string{false: "find", true: "find_l1"}[throughL1]
		x.begin("get_hit")
		elapsed, err := x.median(ctx, nil, func() error { return x.kernels.Find(ctx, x.stream, x.tree, throughL1, keys, out, flags) })
		if err == nil {
			err = errors.Join(checkFlags(ctx, x.runner, flags, "get_hit", n), checkValues(ctx, x.runner, keys, out))
		}
		if err != nil {
			return err
		}
		row := x.row()
		x.against("find", "get_hit", float64(n)/elapsed.Seconds(), &row)
		x.report("get_hit", n, elapsed, x.read, row)
	}
	return nil
}
