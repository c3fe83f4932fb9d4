package experiment

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/lab/internal/roofline"
)

var btreeLatenciesExperiment = Experiment{
	Name:  "awad-table2.1",
	Was:   "btree-latencies",
	Title: "What one access of memory takes",
	Doc: `After table 2.1 of Awad's thesis: one thread follows pointers, each of which it waits for, through all lines of 128 bytes of a region of 16 KiB to
8 GiB (256 MiB on a CPU), in an order that looks random. Each run goes on where the last has ended, behind one of as many accesses as there are lines, up to 2^20: what
a cache can keep of the region it has, and nothing else. time is that of one access. On a GPU, weak loads may be answered by the L1 cache of the multiprocessor
(weak), relaxed ones of the device's scope by the L2 cache at best (relaxed); between the sizes of caches the time rises to that of the next level, and where pages no
longer fit the TLBs once more. Random reads are limited by how many are under way, and not by this, which is what a search waits for at each of its levels. The parameters are the table, in seconds: L1 is that of the smallest region (on a GPU of weak loads), L2 that of a
quarter of the last cache, DRAM of four times that cache and more, TLB of the largest region. The thesis quotes for Volta
tens of cycles for a hit of the L1, some 193 for one of the L2, and up to a thousand behind all caches and TLBs.`,
	run: runBTreeLatencies,
	plots: func(res *Result) []Plot {
		p := Plot{Name: "awad-table2.1", Title: "Time of one access", XLabel: "bytes of the region", YLabel: "seconds", LogX: true, LogY: true}
		for _, row := range res.Rows {
			p.point(row.Op, float64(row.TableBytes), row.Seconds)
		}
		return nonEmpty(p)
	},
}

func runBTreeLatencies(ctx context.Context, r *runner) error {
	largest, steps := r.size(256<<20, 8<<30), r.size(1<<18, 1<<16)
	if r.N > 0 { // a trial run
		largest, steps = min(largest, 64*r.N), min(steps, r.N)
	}
	mem, err := r.Device.Memory()
	if err != nil {
		return err
	}
	for mem.Free > 0 && uint64(largest) > mem.Free/2 {
		largest /= 2
	}
	kinds := []struct {
		op   string
		weak bool
	}{{"weak", true}, {"relaxed", false}}
	if !r.onGPU() {
		kinds = kinds[:1]
	}
	step := map[Scale]int{Quick: 3, Default: 1, Full: 1}[r.Scale]
	for region := 16 << 10; region <= largest; region <<= step {
		for _, k := range kinds {
			r.step("awad-table2.1: %s loads in %d KiB", k.op, region>>10)
			t, err := roofline.Chase{Region: region, Steps: steps, Runs: r.Runs, Weak: k.weak}.Measure(ctx, r.Device)
			if err != nil {
				return fmt.Errorf("%d bytes: %w", region, err)
			}
			r.add(Row{Structure: "memory", Op: k.op, N: steps, TableBytes: region, OpsPerS: 1 / max(t, 1e-12), Seconds: t})
		}
	}
	for level, t := range memoryLevels(r.result.Rows, kinds[len(kinds)-1].op, r.props().L2) {
		r.result.Parameters[level] = t
	}
	return nil
}

// memoryLevels returns the seconds of one access to each level of memory in table 2.1. rows ascend
// by region size. L1 is the time of the first row. The other levels take the times of operation op,
// by the size of the last cache (0 if unknown).
func memoryLevels(rows []Row, op string, cache int) map[string]float64 {
	levels := map[string]float64{}
	for _, row := range rows {
		if _, ok := levels["L1"]; !ok {
			levels["L1"] = row.Seconds
		}
		if row.Op != op || cache == 0 {
			continue
		}
		_, hasDRAM := levels["DRAM"]
		switch {
		case row.TableBytes <= cache/4:
			levels["L2"] = row.Seconds
		case row.TableBytes >= 4*cache && !hasDRAM:
			levels["DRAM"] = row.Seconds
		case hasDRAM:
			levels["TLB"] = row.Seconds
		}
	}
	return levels
}
