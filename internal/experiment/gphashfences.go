package experiment

import (
	"context"

	"github.com/weftgo/weft/gphash"
)

var gphashFencesExperiment = Experiment{
	Name:  "gphash-fences",
	Title: "What fences cost the persistent index",
	Doc: `The operations of gphash-micro in batches of 2^12 on 2^18 records (2^22 on a GPU), with keys of 8 bytes, in an index that has
to survive the process (process), whose fences order stores that are ordered anyway and cost nothing, and in one that has to survive a
power failure (pmem), which writes every line back out of the caches and waits for that. The memory is asserted to be persistent,
which it is not: persistent memory is slower. speedup is that of the median call over process, in the fastest of several rounds
in which both have their turn.` + hostMemory,
	run: runGPHashFences,
}

// durabilities are what an index has to survive.
var durabilities = []struct {
	name string
	is   gphash.Durability
}{{"process", gphash.Process}, {"pmem", gphash.PMem}}

func runGPHashFences(ctx context.Context, r *runner) error {
	n, err := r.gphashKeys(1<<18, 1<<22, 8)
	if err != nil {
		return err
	}
	if err := r.gphashLimits(ctx, n); err != nil {
		return err
	}
	batch := min(n, defaultBatch)
	return r.inTurns(len(durabilities), func(i int) ([]Row, error) {
		o := r.gphashOptions(8, n, batch)
		o.Durability, o.AssertPMem = durabilities[i].is, gphash.PMemConditions{Persistent: true, DDIOOff: true}
		return r.microRows(ctx, durabilities[i].name, o, n, batch)
	})
}
