package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/lab/internal/roofline"
)

var btreeCacheExperiment = Experiment{
	Name:  "awad-fig3.6",
	Was:   "btree-cache",
	GPU:   true,
	Title: "What lookups in B-trees request of the caches",
	Doc: `After figure 3.6 of Awad's thesis, which has the throughput and the hit rates of each level of the memory while a tree of up to 10^8 keys (2^12 on a simulated GPU) is asked for all of its
32-bit keys: find goes past the L1 cache, as lookups of btree do, which may run beside changes, and find_l1 has inner nodes from it. B/op is computed: 128 bytes of a node for each
level; B/op times the rate is what the caches and the memory deliver together (the plot), which may be more than the memory alone can do: speedup is that over copy, the bytes of it that are read. Hit rates are for a profiler; each size has two warm-up launches of
a kernel and then those of the runs:
  ncu --csv --kernel-name regex:treeways_find --metrics l1tex__t_sector_hit_rate.pct,lts__t_sector_hit_rate.pct,l1tex__t_bytes.sum,lts__t_bytes.sum,dram__bytes_read.sum,gpu__time_duration.sum weft-bench run awad-fig3.6 --quick --device cuda
The thesis: on a TITAN V the L1 has 1.47 times the hit rate of that of a K40c, and all levels together deliver more than the memory can.`,
	run: runBTreeCache,
	plots: func(res *Result) []Plot {
		p := Plot{Name: "awad-fig3.6", Title: "Bytes of nodes that lookups read", XLabel: "keys", YLabel: "bytes per second", LogX: true}
		for _, row := range res.Rows {
			p.point(row.Structure, float64(row.Keys), row.OpsPerS**row.BytesPerOp)
		}
		if len(p.Series) > 0 && res.Limits[roofline.Copy] > 0 {
			lo, hi := p.span()
			half := res.Limits[roofline.Copy] / 2
			p.Series = append(p.Series, Series{Name: "copy, bytes read", X: []float64{lo, hi}, Y: []float64{half, half}, Limit: true})
		}
		return nonEmpty(p)
	},
}

func runBTreeCache(ctx context.Context, r *runner) (err error) {
	n, err := r.keys(1<<12, 100_000_000, orderedBytes[uint32, uint32]())
	if err != nil {
		return err
	}
	if err := r.limits(ctx, r.region(), roofline.Copy); err != nil {
		return err
	}
	x, err := newTreeWays(r, n, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.free()) }()
	for _, size := range r.mapSizes(smallestMap, n, mapSteps) {
		x.n = size
		region := regionOf(size * 8)
		x.read = roofline.In(roofline.Read64, region)
		if err := r.limitsIn(ctx, region, roofline.Read64); err != nil {
			return err
		}
		before := len(r.result.Rows)
		if err := x.finds(ctx, size); err != nil {
			return fmt.Errorf("%d keys: %w", size, err)
		}
		stats, err := x.tree.Stats(ctx)
		if err != nil {
			return err
		}
		for i := range r.result.Rows[before:] {
			row := &r.result.Rows[before+i]
			row.BytesPerOp = figure(float64(nodeBytes * levelsOf(size, stats.Nodes)))
			row.Speedup = figure(row.OpsPerS * *row.BytesPerOp / (r.result.Limits[roofline.Copy] / 2))
		}
	}
	return nil
}

// nodeBytes is the size of a node that has slots of 8 bytes.
const nodeBytes = 128

// levelsOf returns the number of levels of a tree that was built at once. All nodes of such a tree
// are equally full, so about 1/fill of them are inner nodes.
func levelsOf(pairs, nodes int) int {
	fill := max(2, (pairs+nodes/2)/max(1, nodes)+1)
	levels := 1
	for left := pairs; left > fill; left = (left + fill - 1) / fill {
		levels++
	}
	return max(2, levels)
}
