package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftgo/weft/internal/workload"
)

var gphashKeySizeExperiment = Experiment{
	Name:  "gphash-key-size",
	Title: "The persistent index over the length of keys",
	Doc: `After figure 12a of the GPHash paper: YCSB C (reads) and A (half updates), batches of 2^12, on an index of 2^19 records
(2^22 on a GPU) whose keys have 8 to 128 bytes. speedup is that of the median call over keys of 8 bytes, in the fastest of several rounds, in each of which all have their turn. Longer keys are compared
only where their 64-bit hashes agree, but whoever reads the record reads the key, too. In the paper GPHash loses 13.1 % from 8
to 128 bytes, and a slab hash, which compares whole keys, 38.6 %.` + hostMemory,
	run:   runGPHashKeySize,
	plots: plotSweep("bytes of a key", func(row Row) float64 { return float64(row.KeyBits / 8) }),
}

var gphashSkewExperiment = Experiment{
	Name:  "gphash-skew",
	Title: "The persistent index over the skew of requests",
	Doc: `After figure 12b of the GPHash paper: YCSB C (reads) and A (half updates), batches of 2^12, on an index of 2^19 records
(2^22 on a GPU) with keys of 8 bytes, which are asked for by Zipf distributions of exponents from 0, all alike, to .99. speedup
is that of the median call over exponent 0, in the fastest of several rounds. What skew brings a CPU are its caches; updates of one record must run one after the other.` + hostMemory,
	run:   runGPHashSkew,
	plots: plotSweep("exponent of the Zipf distribution", func(row Row) float64 { return row.Theta }),
}

// sweepMixes are those of both experiments: C and A.
var sweepMixes = []workload.Mix{workload.Mixes[2], workload.Mixes[0]}

func runGPHashKeySize(ctx context.Context, r *runner) error {
	sizes := []int{8, 16, 32, 64, 128}
	if r.Scale == Quick {
		sizes = []int{8, 128}
	}
	n, err := r.gphashKeys(1<<19, 1<<22, sizes[len(sizes)-1])
	if err != nil {
		return err
	}
	if err := r.gphashLimits(ctx, n); err != nil {
		return err
	}
	return r.inTurns(len(sizes), func(i int) ([]Row, error) { return r.gphashSweep(ctx, sizes[i], n, zipfTheta) })
}

func runGPHashSkew(ctx context.Context, r *runner) error {
	thetas := []float64{0, .5, .7, .8, .9, .99}
	if r.Scale == Quick {
		thetas = []float64{0, .99}
	}
	n, err := r.gphashKeys(1<<19, 1<<22, 8)
	if err != nil {
		return err
	}
	if err := r.gphashLimits(ctx, n); err != nil {
		return err
	}
	return r.inTurns(len(thetas), func(i int) ([]Row, error) { return r.gphashSweep(ctx, 8, n, thetas[i]) })
}

// gphashSweep measures both mixes on one index.
func (r *runner) gphashSweep(ctx context.Context, keySize, n int, theta float64) (rows []Row, err error) {
	r.step("%s: keys of %d bytes, exponent %g", r.result.Experiment, keySize, theta)
	x, err := r.createIndex(r.gphashOptions(keySize, n, loadBatch))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	s := newSession(r, x, keySize, true)
	if err := s.load(ctx, n); err != nil {
		return nil, err
	}
	for _, mix := range sweepMixes {
		q, err := workload.NewRequests(mix, uint64(n), theta, r.Seed)
		if err != nil {
			return nil, err
		}
		times, err := s.run(ctx, q, n, min(n, defaultBatch))
		if err != nil {
			return nil, fmt.Errorf("keys of %d bytes, exponent %g: %w", keySize, theta, err)
		}
		row := timed(gphashName, mix.Name, keySize, n, min(n, defaultBatch), times, r.mixLimit(mix))
		row.Theta = theta
		rows = append(rows, row)
	}
	return rows, nil
}

// inTurnsFor is how long settings are measured in turns, about.
const inTurnsFor = 40 * time.Second

// inTurns measures n settings, round by round, so that whatever else the machine does meets
// all of them, and adds the rows of each one's fastest rounds, which it has met least. Their
// speedups are over the first setting, by the median call. Unless the user has said how many rounds there are, none
// begins that would end behind inTurnsFor, or the share of it that each part of an experiment has.
func (r *runner) inTurns(n int, measure func(i int) ([]Row, error)) error {
	rounds := make([][][]Row, n) // by setting, and row
	start := time.Now()
	for round := range r.Runs {
		if took := time.Since(start); !r.chosen && round > 0 && took+took/time.Duration(round) > inTurnsFor/time.Duration(max(r.parts, 1)) {
			break
		}
		r.result.Parameters["rounds"] = round + 1
		for i := range rounds {
			rows, err := measure(i)
			if err != nil {
				return err
			}
			rounds[i] = slices.Grow(rounds[i], len(rows))[:len(rows)]
			for j, row := range rows {
				rounds[i][j] = append(rounds[i][j], row)
			}
		}
	}
	type call struct {
		op    string
		batch int
	}
	first := map[call]float64{}
	for _, rows := range rounds {
		for _, of := range rows {
			row := slices.MinFunc(of, func(a, b Row) int { return cmp.Compare(a.Latency.P50, b.Latency.P50) })
			c := call{row.Op, row.Batch}
			if first[c] == 0 {
				first[c] = row.Latency.P50
			}
			row.Speedup = figure(first[c] / row.Latency.P50)
			r.add(row)
		}
	}
	return nil
}

// plotSweep draws the rate of each operation over what an experiment varies.
func plotSweep(xLabel string, x func(Row) float64) func(*Result) []Plot {
	return func(res *Result) []Plot {
		p := Plot{Name: res.Experiment, Title: res.Title, XLabel: xLabel, YLabel: "operations per second"}
		for _, row := range res.Rows {
			p.point(row.Op, x(row), row.OpsPerS)
		}
		return []Plot{p}
	}
}
