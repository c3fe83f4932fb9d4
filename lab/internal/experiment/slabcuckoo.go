package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/weftgo/weft/cuckoo"
)

// cuckooName names, in rows, a cuckoo table that has one slot, four functions and a stash. CUDPP's
// table, with which the SlabHash paper compares, is of this kind.
const cuckooName = "cuckoo"

// cuckooBytes returns the device memory per key that such a table needs in addition to a slab hash.
// It includes the second table during a rehash.
func cuckooBytes(utilization float64) int { return int(2*slabPair/utilization) + 1 }

// measureWithCuckoo measures the slab hash of a trial, and then a cuckoo table of equal load. The
// speedups in the rows of the cuckoo table are over the slab hash.
func (t *slabTrial) measureWithCuckoo(ctx context.Context, measure func(*slabTrial) error) (err error) {
	before := len(t.result.Rows)
	if err := measure(t); err != nil {
		return err
	}
	firstCuckoo := len(t.result.Rows)
	// A few keys may fill their slabs to the last slot.
	c := &slabTrial{trial: t.trial}
	c.structure, c.read, c.load = cuckooName, t.readLimit(slabPair), min(t.load, .9)
	c.table, err = openCuckoo[uint32, uint32](t.Device, t.cuckooOptions(t.cols.n, c.load))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.table.Close()) }()
	if err := errors.Join(c.fill(), c.table.Sync(ctx), measure(c)); err != nil {
		return fmt.Errorf("%s: %w", cuckooName, err)
	}
	slabs, cuckoos := t.result.Rows[before:firstCuckoo], t.result.Rows[firstCuckoo:]
	for i := range cuckoos {
		cuckoos[i].Speedup = figure(cuckoos[i].OpsPerS / slabs[i].OpsPerS)
	}
	return nil
}

func (t *slabTrial) cuckooOptions(n int, load float64) *cuckoo.Options {
	return &cuckoo.Options{Capacity: n, MaxLoad: load, Fixed: true, Unordered: true, Slots: 1, Seed: t.Seed + 1}
}

// meanSpeedups adds a parameter per operation with the geometric mean of its speedups.
func (r *runner) meanSpeedups(ops ...string) {
	for _, op := range ops {
		r.result.Parameters["mean_speedup_"+op] = math.Round(100*geometricMean(r.result.Rows, op)) / 100
	}
}

// plotSpeedups plots the speedup of the cuckoo table over x, with the SlabHash paper's geometric
// means.
func plotSpeedups(res *Result, name, xLabel string, x func(Row) float64, published []Published) Plot {
	p := Plot{
		Name: name + "-cuckoo", Title: "How many times the cuckoo table is as fast as the slab hash",
		XLabel: xLabel, YLabel: "speedup", LogX: xLabel == "keys",
	}
	for _, row := range res.Rows {
		if row.Speedup != nil {
			p.point(row.Op, x(row), *row.Speedup)
		}
	}
	for _, f := range published {
		if f.Unit == "x" && len(p.Series) > 0 { // old results have none
			p.level(f)
		}
	}
	return p
}
