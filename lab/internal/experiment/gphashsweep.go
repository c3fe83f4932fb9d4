package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/workload"
)

var gphashKeySizeExperiment = Experiment{
	Name:  "gphash-fig12a",
	Was:   "gphash-key-size",
	Title: "The persistent index over the length of keys",
	Doc: `After figure 12a of the GPHash paper: YCSB C (reads) and A (half updates), batches of 2^12, on an index of 2^19 records
(2^20 on a GPU) whose keys have 8 to 128 bytes. speedup is that of the median call over keys of 8 bytes, in the fastest of several rounds, as many as fit into 40 s, in each of which all have their turn. Longer keys are compared
only where their 64-bit hashes agree, but whoever reads the record reads the key, too. In the paper GPHash loses 13.1 % from 8
to 128 bytes, and a slab hash, which compares whole keys, 38.6 %.` + peersDoc + hostMemory,
	run:   runGPHashKeySize,
	plots: plotSweep("bytes of a key", func(row Row) float64 { return float64(row.KeyBits / 8) }),
}

var gphashSkewExperiment = Experiment{
	Name:  "gphash-fig12b",
	Was:   "gphash-skew",
	Title: "The persistent index over the skew of requests",
	Doc: `After figure 12b of the GPHash paper: YCSB C (reads) and A (half updates), batches of 2^12, on an index of 2^19 records
(2^20 on a GPU) with keys of 8 bytes, which are asked for by Zipf distributions of exponents from 0, all alike, to .99. speedup
is that of the median call over exponent 0, in the fastest of several rounds. What skew brings a CPU are its caches; updates of one record must run one after the other.` + peersDoc + hostMemory,
	run:   runGPHashSkew,
	plots: plotSweep("exponent of the Zipf distribution", func(row Row) float64 { return row.Theta }),
}

// sweepMixes are the mixes of both experiments: YCSB C and A.
var sweepMixes = []workload.Mix{workload.Mixes[2], workload.Mixes[0]}

func runGPHashKeySize(ctx context.Context, r *runner) error {
	sizes := []int{8, 16, 32, 64, 128}
	if r.Scale == Quick {
		sizes = []int{8, 128}
	}
	n, err := r.gphashKeys(1<<19, 1<<20, sizes[len(sizes)-1])
	if err != nil {
		return err
	}
	if err := r.gphashLimits(ctx, n); err != nil {
		return err
	}
	return r.sweep(ctx, n, len(sizes), func(i int) (keySize int, theta float64) { return sizes[i], zipfTheta })
}

func runGPHashSkew(ctx context.Context, r *runner) error {
	thetas := []float64{0, .5, .7, .8, .9, .99}
	if r.Scale == Quick {
		thetas = []float64{0, .99}
	}
	n, err := r.gphashKeys(1<<19, 1<<20, 8)
	if err != nil {
		return err
	}
	if err := r.gphashLimits(ctx, n); err != nil {
		return err
	}
	return r.sweep(ctx, n, len(thetas), func(i int) (keySize int, theta float64) { return 8, thetas[i] })
}

// sweep measures both mixes on all indexes with n records each. at returns the key size and the
// Zipf exponent of point i.
func (r *runner) sweep(ctx context.Context, n, points int, at func(i int) (keySize int, theta float64)) (err error) {
	all, sizes := r.rivalsOn(), map[int]*rivals{}
	defer func() {
		for _, v := range sizes {
			err = errors.Join(err, v.close())
		}
	}()
	for i := range points {
		keySize, _ := at(i)
		if sizes[keySize] != nil {
			continue
		}
		if sizes[keySize], err = r.newRivals(keySize, min(n, loadBatch)); err != nil {
			return err
		}
	}
	r.perStructure = true
	return r.inTurns(points*len(all), func(i int) (rows []Row, err error) {
		keySize, theta := at(i / len(all))
		p := all[i%len(all)]
		r.step("%s: %s, keys of %d bytes, exponent %g", r.result.Experiment, p.label(), keySize, theta)
		return rows, sizes[keySize].measure(p, keySize, n, loadBatch, func(s *session, _ *gphash.Index) (err error) {
			rows, err = s.sweepRows(ctx, p.label(), n, theta)
			return err
		})
	})
}

// sweepRows measures both mixes on the empty index of a session, into which it first loads n
// records.
func (s *session) sweepRows(ctx context.Context, structure string, n int, theta float64) (rows []Row, err error) {
	if err := s.load(ctx, n); err != nil {
		return nil, err
	}
	batch := min(n, defaultBatch)
	for _, mix := range sweepMixes {
		q, err := workload.NewRequests(mix, uint64(n), theta, s.Seed)
		if err != nil {
			return nil, err
		}
		times, ops, err := s.runBrief(ctx, q, n, batch)
		if err != nil {
			return nil, fmt.Errorf("keys of %d bytes, exponent %g: %w", s.keySize, theta, err)
		}
		row := timed(structure, mix.Name, s.keySize, ops, batch, times, s.mixLimit(mix))
		row.Theta = theta
		rows = append(rows, row)
	}
	return rows, nil
}

// inTurnsFor is the approximate time limit of inTurns.
const inTurnsFor = 40 * time.Second

// inTurns measures n settings in rounds, so that other load on the machine affects all of them. It
// adds the rows of each setting's fastest rounds, which such load has affected least. Speedups
// compare the median call with the median call of the first setting. Unless the user has set the
// number of rounds, no round begins that would end after the time limit. The limit is inTurnsFor
// divided by the number of parts of the experiment.
func (r *runner) inTurns(n int, measure func(i int) ([]Row, error)) error {
	rounds := make([][][]Row, n) // indexed by setting and row
	start := time.Now()
	for round := range r.Runs {
		if elapsed := time.Since(start); !r.chosen && round > 0 && elapsed+elapsed/time.Duration(round) > inTurnsFor/time.Duration(max(r.parts, 1)) {
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
		structure, op string
		batch         int
	}
	first := map[call]float64{}
	for _, rows := range rounds {
		for _, of := range rows {
			row := slices.MinFunc(of, func(a, b Row) int { return cmp.Compare(a.Latency.P50, b.Latency.P50) })
			c := call{"", row.Op, row.Batch}
			if r.perStructure {
				c.structure = row.Structure
			}
			if first[c] == 0 {
				first[c] = row.Latency.P50
			}
			row.Speedup = figure(first[c] / row.Latency.P50)
			r.add(row)
		}
	}
	return nil
}

// plotSweep returns a function that plots the rate of each operation over the value that x returns
// for the row.
func plotSweep(xLabel string, x func(Row) float64) func(*Result) []Plot {
	return func(res *Result) []Plot {
		p := Plot{Name: res.Experiment, Title: res.Title, XLabel: xLabel, YLabel: "operations per second"}
		for _, row := range res.Rows {
			p.point(lineOf(row), x(row), row.OpsPerS)
		}
		return []Plot{p}
	}
}
