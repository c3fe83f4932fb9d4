package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/workload"
)

var gphashMicroExperiment = Experiment{
	Name:  "gphash-fig5",
	Was:   "gphash-micro",
	Title: "The persistent index, operation by operation",
	Doc: `After figures 5 and 6 of the GPHash paper, the micro-benchmarks: insertions of 2^19 records (2^20 on a GPU, 2^24 with --full) into an
empty index (insert), reads of records that are there (get_hit) and of some that are not (get_miss), updates (update),
and deletes of all (delete), over the size of batches and with keys of 8 and 32 bytes. Reads and updates ask for records by
a Zipf distribution of exponent .99. latency is that of a call, load that of the index with all records.` + peersDoc + hostMemory,
	run:   runGPHashMicro,
	plots: plotLatencies,
}

func runGPHashMicro(ctx context.Context, r *runner) error {
	n, err := r.gphashKeys(1<<19, r.paperSize(1<<20), 32)
	if err != nil {
		return err
	}
	if err := r.gphashLimits(ctx, n); err != nil {
		return err
	}
	sizes := r.batchSizes(n)
	for _, keySize := range r.keySizes() {
		if err := r.gphashMicro(ctx, keySize, n, sizes); err != nil {
			return fmt.Errorf("keys of %d bytes: %w", keySize, err)
		}
	}
	return nil
}

func (r *runner) gphashMicro(ctx context.Context, keySize, n int, sizes []int) (err error) {
	v, err := r.newRivals(keySize, sizes[len(sizes)-1])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	for _, batch := range sizes {
		for _, p := range r.rivalsOn() {
			err := v.measure(p, keySize, n, batch, func(s *session, x *gphash.Index) error {
				rows, err := s.microRows(ctx, p.label(), x, n, batch)
				for _, row := range rows {
					r.add(row)
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("batches of %d: %w", batch, err)
			}
		}
	}
	return nil
}

// microRows measures all operations on n records in the empty index of a session. x is the index if
// it is weft's, else nil.
func (s *session) microRows(ctx context.Context, structure string, x *gphash.Index, n, batch int) ([]Row, error) {
	m := &micro{session: s, n: n, size: batch, structure: structure}
	if err := m.measure(ctx); err != nil || x == nil {
		return m.done, err
	}
	stats, err := x.Stats(ctx)
	if err == nil && stats.Keys != 0 {
		err = fmt.Errorf("%w: %d records are left of what was deleted", errWrong, stats.Keys)
	}
	for i := range m.done {
		m.done[i].Load = float64(n) / float64(stats.Slots)
	}
	return m.done, err
}

// micro measures one kind of operation after the other.
type micro struct {
	*session
	n, size   int // number of records; rows per batch
	structure string
	done      []Row
}

func (m *micro) measure(ctx context.Context) error {
	m.stamps = make([]uint64, m.n)
	insert := workload.Mix{Name: "insert", InsertEvery: 1}
	read := workload.Mix{Name: "get_hit", Read: 1}
	update := workload.Mix{Name: "update", Update: 1}
	for _, mix := range []workload.Mix{insert, update, read} { // the reads verify the writes
		if err := m.requests(ctx, mix); err != nil {
			return fmt.Errorf("%s: %w", mix.Name, err)
		}
	}
	if err := m.all(ctx, "get_miss", m.poolRead(), uint64(m.n), m.brief(m.n, m.size), m.miss); err != nil {
		return err
	}
	return m.all(ctx, "delete", m.poolSwap(), 0, m.n, m.remove)
}

// requests measures requests of a mix, at most as many as the index has records.
func (m *micro) requests(ctx context.Context, mix workload.Mix) error {
	records := uint64(m.n)
	if mix.InsertEvery > 0 {
		records = 0
	}
	q, err := workload.NewRequests(mix, records, zipfTheta, m.Seed)
	if err != nil {
		return err
	}
	m.step("%s: %s, keys of %d bytes, batches of %d", m.structure, mix.Name, m.keySize, m.size)
	times, ops, err := []time.Duration(nil), m.n, error(nil)
	if mix.InsertEvery > 0 {
		times, err = m.run(ctx, q, ops, m.size)
	} else {
		times, ops, err = m.runBrief(ctx, q, ops, m.size)
	}
	if err != nil {
		return err
	}
	m.done = append(m.done, timed(m.structure, mix.Name, m.keySize, ops, m.size, times, m.mixLimit(mix)))
	return nil
}

// all measures calls on n records in ascending order. first is the number of the first record. The
// keys of records are random, so the order does not matter to an index.
func (m *micro) all(ctx context.Context, op, limit string, first uint64, n int, call func(context.Context) error) error {
	m.step("%s: %s, keys of %d bytes, batches of %d", m.structure, op, m.keySize, m.size)
	var times []time.Duration
	for lo := 0; lo < n; lo += m.size {
		rows := m.begin(min(m.size, n-lo))
		for i := range rows {
			rows[i] = access{weft.OpGet, first + uint64(lo+i), 0}
		}
		m.fill()
		start := time.Now()
		err := call(ctx)
		times = append(times, m.callTime(start))
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
	}
	m.done = append(m.done, timed(m.structure, op, m.keySize, n, m.size, times, limit))
	return nil
}

func (m *micro) miss(ctx context.Context) error {
	hits, err := m.table.Get(ctx, m.keys, m.vals, m.ok)
	if err == nil && hits != 0 {
		err = fmt.Errorf("%w: %d of %d absent records were found", errWrong, hits, len(m.rows))
	}
	return err
}

func (m *micro) remove(ctx context.Context) error {
	n, err := m.table.Delete(ctx, m.keys, m.ok)
	if err == nil && n != len(m.rows) {
		err = fmt.Errorf("%w: %d of %d records were deleted", errWrong, n, len(m.rows))
	}
	return err
}
