package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/internal/workload"
)

var gphashYCSBExperiment = Experiment{
	Name:  "gphash-ycsb",
	Title: "The persistent index under YCSB",
	Doc: `After figures 5 and 6 of the GPHash paper: the core workloads of YCSB on an index of 2^19 records (2^20 on a GPU, 2^24 with --full), as
throughput and latency over the size of batches, with keys of 8 and 32 bytes. A: half reads, half updates. B: 95 % reads,
5 % updates. C: reads. D: 95 % reads, of the latest records mostly, 5 % insertions. F: half reads, half reads of a record
that is then updated, which counts as one operation and is a Get and a Put of the batch. LOAD: insertions into an empty
index. Records are asked for by a Zipf distribution of exponent .99, whatever their age but in D. As many operations as twice
the records (four times with --full; on a GPU 2^18, or eight batches, without) are run at each size of batches. latency is that of a call, which is
also that of each of its operations. A mix is limited by random reads of 64 bytes for what it reads and random
compare-and-swaps for what it writes.` + besides + hostMemory,
	run:   runGPHashYCSB,
	plots: plotLatencies,
}

// keySizes are those of the paper, in bytes.
func (r *runner) keySizes() []int {
	if r.Scale == Quick {
		return []int{8}
	}
	return []int{8, 32}
}

// batchSizes are those of the figures, 2^10 to 2^24 in the paper, up to n.
func (r *runner) batchSizes(n int) []int {
	if r.Scale == Quick {
		return []int{min(n, defaultBatch)}
	}
	if r.Scale == Default {
		n = min(n, r.size(1<<18, 1<<20))
	}
	return r.powers(10, n, map[Scale]int{Default: r.size(2, 5), Full: 1})
}

// paperSize is the number of records on a GPU: the paper's, or what a run of a minute has time for.
func (r *runner) paperSize(least int) int {
	if r.Scale == Full {
		return 1 << 24
	}
	return least
}

// brief is how many of n operations in batches of one size are measured.
func (r *runner) brief(n, batch int) int {
	if r.Scale == Full || !r.onGPU() {
		return n
	}
	return min(n, max(1<<18, 8*batch))
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
		for _, mix := range workload.Mixes {
			if err := gphashMix(ctx, r, mix, keySize, n, ops); err != nil {
				return fmt.Errorf("YCSB %s, keys of %d bytes: %w", mix.Name, keySize, err)
			}
		}
	}
	return nil
}

// gphashMix measures a mix over the sizes of batches.
func gphashMix(ctx context.Context, r *runner, mix workload.Mix, keySize, n, ops int) error {
	sizes := r.batchSizes(ops)
	if mix.InsertEvery == 1 {
		for _, batch := range r.batchSizes(n) {
			if err := gphashMixAt(ctx, r, mix, keySize, 0, n, batch); err != nil {
				return err
			}
		}
		return nil
	}
	return gphashMixAt(ctx, r, mix, keySize, n, ops, sizes...)
}

// gphashMixAt measures a mix at some sizes of batches, one after the other on an index that
// has n records at first, and on those of the peers.
func gphashMixAt(ctx context.Context, r *runner, mix workload.Mix, keySize, n, ops int, batches ...int) error {
	q, err := workload.NewRequests(mix, uint64(n), zipfTheta, r.Seed)
	if err != nil {
		return err
	}
	records := n + int(q.Inserts(uint64(ops*len(batches))))
	at := mixAt{runner: r, mix: mix, q: q, keySize: keySize, n: n, ops: ops, batches: batches}
	largest := max(batches[len(batches)-1], loadBatch)
	x, err := r.createIndex(r.gphashOptions(keySize, records, largest))
	if err != nil {
		return err
	}
	rows, err := at.rows(ctx, gphashName, x, true, func(row *Row) error {
		stats, err := x.Stats(ctx)
		row.Load, row.Keys = stats.LoadFactor, stats.Keys
		return err
	})
	for _, row := range rows {
		r.add(row)
	}
	if err != nil {
		return err
	}
	return r.gpuPeers(func(p persistentPeer) ([]Row, error) {
		x, err := p.in(r, keySize, records, largest)
		if err != nil {
			return nil, err
		}
		return at.rows(ctx, p.name, x, p.ordered, func(*Row) error { return nil })
	})
}

// mixAt is a mix at some sizes of batches.
type mixAt struct {
	*runner
	mix             workload.Mix
	q               *workload.Requests
	keySize, n, ops int
	batches         []int
}

// rows measures an index and closes it. note adds to a row.
func (m *mixAt) rows(ctx context.Context, name string, x byteMap, ordered bool, note func(*Row) error) (rows []Row, err error) {
	defer func() { err = errors.Join(err, x.Close()) }()
	s := newSession(m.runner, x, m.keySize, ordered)
	m.step("gphash-ycsb %s, %s, keys of %d bytes: loading", m.mix.Name, name, m.keySize)
	if err := s.load(ctx, m.n); err != nil {
		return nil, err
	}
	for _, batch := range m.batches {
		m.step("gphash-ycsb %s, %s, keys of %d bytes: batches of %d", m.mix.Name, name, m.keySize, batch)
		ops := m.brief(m.ops, batch)
		if m.mix.InsertEvery == 1 {
			ops = m.ops
		}
		times, err := s.run(ctx, m.q, ops, batch)
		if err != nil {
			return rows, err
		}
		row := timed(name, m.mix.Name, m.keySize, ops, batch, times, m.mixLimit(m.mix))
		if err := note(&row); err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}
