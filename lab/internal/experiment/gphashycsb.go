package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/workload"
)

var gphashYCSBExperiment = Experiment{
	Name:  "gphash-fig6",
	Was:   "gphash-ycsb",
	Title: "The persistent index under YCSB",
	Doc: `After figures 5 and 6 of the GPHash paper: the core workloads of YCSB on an index of 2^19 records (2^20 on a GPU, 2^24 with --full), as
throughput and latency over the size of batches, with keys of 8 and 32 bytes. A: half reads, half updates. B: 95 % reads,
5 % updates. C: reads. D: 95 % reads, of the latest records mostly, 5 % insertions. F: half reads, half reads of a record
that is then updated, which counts as one operation and is a Get and a Put of the batch. LOAD: insertions into an empty
index. Records are asked for by a Zipf distribution of exponent .99, whatever their age but in D. As many operations as twice
the records (four times with --full; on a GPU 2^18, or eight batches, or for a second, without) are run at each size of batches; sizes of which one batch
would take about a second or more are left out then. latency is that of a call, which is
also that of each of its operations. A mix is limited by random reads of 64 bytes for what it reads and random
compare-and-swaps for what it writes.` + peersDoc + hostMemory,
	run:   runGPHashYCSB,
	plots: plotLatencies,
}

func (r *runner) keySizes() []int {
	if r.Scale == Quick {
		return []int{8}
	}
	return []int{8, 32}
}

// batchSizes returns batch sizes up to n. The figures of the GPHash paper have 2^10 to 2^24.
func (r *runner) batchSizes(n int) []int {
	if r.Scale == Quick {
		return []int{min(n, defaultBatch)}
	}
	if r.Scale == Default {
		n = min(n, r.size(1<<18, 1<<20))
	}
	return r.powers(10, n, map[Scale]int{Default: r.size(2, 5), Full: 1})
}

// paperSize returns the number of records on a GPU: the GPHash paper's number at full scale, else
// minSize, with which a run takes about a minute.
func (r *runner) paperSize(minSize int) int {
	if r.Scale == Full {
		return 1 << 24
	}
	return minSize
}

// brief returns how many of n operations are measured in batches of the given size.
func (r *runner) brief(n, batch int) int {
	if r.Scale == Full || !r.onGPU() {
		return n
	}
	return min(n, max(1<<18, 8*batch))
}

// timeLimit returns the approximate time limit for the calls of a row. Peers on a GPU run updates
// of one hot key one after another, 40,000 per second. Without the limit, one such row would take
// longer than all others.
func (r *runner) timeLimit() time.Duration {
	if r.Scale == Full || !r.onGPU() {
		return math.MaxInt64
	}
	return time.Second
}

// zipfTheta is YCSB's exponent.
const zipfTheta = .99

func runGPHashYCSB(ctx context.Context, r *runner) error {
	n, err := r.gphashKeys(1<<19, r.paperSize(1<<20), 32)
	if err != nil {
		return err
	}
	if err := r.gphashLimits(ctx, n); err != nil {
		return err
	}
	ops := 2 * n
	if r.Scale == Full {
		ops = 4 * n
	}
	r.result.Parameters["operations"] = ops
	for _, keySize := range r.keySizes() {
		if err := r.gphashYCSB(ctx, keySize, n, ops); err != nil {
			return fmt.Errorf("keys of %d bytes: %w", keySize, err)
		}
	}
	return nil
}

func (r *runner) gphashYCSB(ctx context.Context, keySize, n, ops int) (err error) {
	groups, largest := r.mixGroups(n, ops), loadBatch
	for _, g := range groups {
		largest = max(largest, g.batches[len(g.batches)-1])
	}
	v, err := r.newRivals(keySize, 2*largest) // a modification takes two rows
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	for _, p := range r.rivalsOn() {
		for _, g := range groups {
			records, err := g.records(r)
			if err != nil {
				return err
			}
			err = v.measure(p, keySize, records, max(g.batches[len(g.batches)-1], loadBatch), func(s *session, x *gphash.Index) error {
				return g.measure(ctx, s, p.label(), x)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// mixGroup is a group of mixes. They run one after the other, in batches of the given sizes, on an
// index that starts with n records.
type mixGroup struct {
	mixes   []workload.Mix
	n, ops  int
	batches []int
}

// mixGroups returns a group for LOAD per batch size, a group of the mixes that keep the number of
// records, and a group for D.
func (r *runner) mixGroups(n, ops int) (all []mixGroup) {
	for _, batch := range r.batchSizes(n) {
		all = append(all, mixGroup{workload.Mixes[5:6], 0, n, []int{batch}})
	}
	sizes, m := r.batchSizes(ops), workload.Mixes
	return append(all, mixGroup{[]workload.Mix{m[2], m[1], m[0], m[4]}, n, ops, sizes}, mixGroup{m[3:4], n, ops, sizes})
}

func (g *mixGroup) requests(r *runner, mix workload.Mix) (*workload.Requests, error) {
	return workload.NewRequests(mix, uint64(g.n), zipfTheta, r.Seed)
}

// records returns the final number of records.
func (g *mixGroup) records(r *runner) (int, error) {
	q, err := g.requests(r, g.mixes[0])
	if err != nil {
		return 0, err
	}
	return g.n + int(q.Inserts(uint64(g.ops*len(g.batches)))), nil
}

// measure runs the mixes on the empty index of a session. x is the index if it is weft's, else nil.
func (g *mixGroup) measure(ctx context.Context, s *session, structure string, x *gphash.Index) error {
	s.step("gphash-fig6, %s, keys of %d bytes: loading", structure, s.keySize)
	if err := s.load(ctx, g.n); err != nil {
		return err
	}
	for _, mix := range g.mixes {
		q, err := g.requests(s.runner, mix)
		if err != nil {
			return err
		}
		for _, batch := range g.batches {
			s.step("gphash-fig6 %s, %s, keys of %d bytes: batches of %d", mix.Name, structure, s.keySize, batch)
			times, ops, err := g.requested(ctx, s, mix, q, batch)
			if err != nil {
				return fmt.Errorf("YCSB %s: %w", mix.Name, err)
			}
			row := timed(structure, mix.Name, s.keySize, ops, batch, times, s.mixLimit(mix))
			if x != nil {
				stats, err := x.Stats(ctx)
				if err != nil {
					return err
				}
				row.Load, row.Keys = stats.LoadFactor, stats.Keys
			}
			s.add(row)
			if float64(2*batch)/row.OpsPerS > s.timeLimit().Seconds() {
				break // a larger batch would exceed the time limit of a row
			}
		}
	}
	return nil
}

// requested runs the requests of one row: all insertions of LOAD, or other operations within the
// time limit.
func (g *mixGroup) requested(ctx context.Context, s *session, mix workload.Mix, q *workload.Requests, batch int) (times []time.Duration, ops int, err error) {
	if mix.InsertEvery == 1 {
		times, err = s.run(ctx, q, g.ops, batch)
		return times, g.ops, err
	}
	return s.runBrief(ctx, q, g.ops, batch)
}
