package experiment

import (
	"context"
	"errors"

	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/variant"
)

var gphashFencesExperiment = Experiment{
	Name:  "gphash-fences",
	Title: "What fences cost the persistent index",
	Doc: `The operations of gphash-fig5 in batches of 2^12 on 2^18 records (2^22 on a GPU), with keys of 8 bytes. On a CPU in an index that has
to survive the process (process), whose fences order stores that are ordered anyway and cost nothing, and in one that has to survive a
power failure (pmem), which writes every line back out of the caches and waits for that. The memory is asserted to be persistent,
which it is not: persistent memory is slower. On a GPU, which fences for both alike, in one that has to survive the process, and in one
whose kernels have no fence of system scope (no fences), which loses what it has acknowledged in a crash. speedup is
that of the median call over process, in the fastest of several rounds in which both have their turn.` + hostMemory,
	run: runGPHashFences,
}

// fencing is a way in which an index orders its writes.
type fencing struct {
	name    string
	is      gphash.Durability
	variant variant.GPHash
}

// fencings returns the compared ways. Speedups refer to the first.
func (r *runner) fencings() []fencing {
	process := fencing{name: "process", is: gphash.Process}
	if r.onGPU() {
		return []fencing{process, {noFences, gphash.Process, variant.GPHash{Unfenced: true}}}
	}
	return []fencing{process, {name: "pmem", is: gphash.PMem}}
}

const noFences = "no fences"

func runGPHashFences(ctx context.Context, r *runner) error {
	n, err := r.gphashKeys(1<<18, 1<<22, 8)
	if err != nil {
		return err
	}
	if err := r.gphashLimits(ctx, n); err != nil {
		return err
	}
	batch := min(n, defaultBatch)
	all := r.fencings()
	return r.inTurns(len(all), func(i int) (rows []Row, err error) {
		o := r.gphashOptions(8, n, batch)
		o.Durability, o.AssertPMem = all[i].is, gphash.PMemConditions{Persistent: true, DDIOOff: true}
		open := gphash.OpenOptions{Durability: o.Durability, AssertPMem: o.AssertPMem}
		x, err := r.reopened(variant.Context(ctx, all[i].variant), o, open)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, x.Close()) }()
		return newSession(r, x, 8, true).microRows(ctx, all[i].name, x, n, batch)
	})
}
