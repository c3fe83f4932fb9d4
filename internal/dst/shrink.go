package dst

import (
	"slices"
	"time"

	"github.com/weftgo/weft/device/sim"
)

const (
	// shrinkTime is the time limit for finding a smaller program.
	shrinkTime = 10 * time.Second
	// shrinkSeeds is the number of schedules under which a smaller program is tried. With fewer
	// operations, the same seed determines a different schedule, so one schedule may hide the
	// failure.
	shrinkSeeds = 6
)

// shrink removes batches and operations as long as the program still fails. It returns the program,
// the seed of the schedule under which it fails, and the error.
func (cfg *setup) shrink(shape Shape, opts sim.Options, p program, err error) (program, uint64, error) {
	end := time.Now().Add(shrinkTime)
	fails := func(q program) bool {
		for i := range uint64(shrinkSeeds) {
			if time.Now().After(end) {
				return false
			}
			o := opts
			o.Seed += i
			if _, e := cfg.attempt(shape, o, q); e != nil {
				opts, err = o, e
				return true
			}
		}
		return false
	}
	for i := 0; i < len(p); {
		if q := slices.Delete(slices.Clone(p), i, i+1); fails(q) {
			p = q
		} else {
			i++
		}
	}
	for i := range p {
		for size := (len(p[i].ops) + 1) / 2; size > 0; size /= 2 {
			for at := 0; at < len(p[i].ops); {
				q := slices.Clone(p)
				q[i].ops = slices.Delete(slices.Clone(p[i].ops), at, min(at+size, len(p[i].ops)))
				if fails(q) {
					p = q
				} else {
					at += size
				}
			}
		}
	}
	return p, opts.Seed, err
}
