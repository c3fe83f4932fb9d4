package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/baseline"
)

var gphashBaselinesExperiment = Experiment{
	Name:  "gphash-baselines",
	Title: "The persistent index beside Clevel hashing and a slab hash with a log",
	Doc: `YCSB LOAD, C and A in batches of 2^12 on 2^18 records (2^20 on a GPU), with keys of 8 and 32 bytes, in the same run and on
pools of the same kind: gphash; Clevel hashing (clevel) and a slab hash with an undo log (slab, undo log), written after their
descriptions and the GPHash paper's; and the slab hash without its log, which survives no crash and shows what the log costs. On a CPU
a thread runs each operation of the peers; on a GPU a thread each of clevel and a warp each of slab, in place, as gphash does. All take what survives the process when a call returns. speedup is
that of the median call over gphash. The fastest of several rounds counts, of as many as fit into 40 s, in each of which all have their turn. The peers do
not keep the order of a batch, and do not fetch ahead, as on a GPU they do not; all hash with a fast function. In the paper logging takes up
to 15.2 % of the latency; the paper's other factors are of Optane memory and a V100, and are not repeated here.` + hostMemory,
	run:   runGPHashBaselines,
	plots: plotBaselines,
}

// persistentPeer is one of the compared indexes. create makes it in a pool, for n records and
// batches of the given size.
type persistentPeer struct {
	name    string
	ordered bool
	create  func(r *runner, path string, keySize, n, batch int) (deviceMap, error)
}

func (p *persistentPeer) in(r *runner, keySize, n, batch int) (deviceMap, error) {
	return unnamed(func(path string) (deviceMap, error) { return p.create(r, path, keySize, n, batch) })
}

const (
	undoLog   = "slab, undo log"
	noUndoLog = "slab, no log"
)

// persistentPeers are the compared indexes. Speedups refer to the first.
var persistentPeers = []persistentPeer{
	{gphashName, true, func(r *runner, path string, keySize, n, batch int) (deviceMap, error) {
		o := r.gphashOptions(keySize, n, batch)
		o.Hash = gphash.Fast
		return gphash.Create(path, r.Device, o)
	}},
	{"clevel", false, func(r *runner, path string, keySize, n, batch int) (deviceMap, error) {
		return baseline.CreateClevel(path, r.peerOptions(keySize, n, batch))
	}},
	{undoLog, false, func(r *runner, path string, keySize, n, batch int) (deviceMap, error) {
		return baseline.CreateSlab(path, r.peerOptions(keySize, n, batch))
	}},
	{noUndoLog, false, func(r *runner, path string, keySize, n, batch int) (deviceMap, error) {
		o := r.peerOptions(keySize, n, batch)
		o.NoLog = true
		return baseline.CreateSlab(path, o)
	}},
}

func (r *runner) peerOptions(keySize, n, batch int) baseline.Options {
	record := keySize + 8 + valueSize
	return baseline.Options{
		KeySize: keySize, ValueSize: valueSize, Capacity: n, Seed: r.Seed + 1, Device: r.Device,
		Size: int64(2*(n+batch)*record+8*n*slotSize(keySize)) + 8<<20,
	}
}

// peerMixes are YCSB LOAD, C and A. They run in this order on one index.
var peerMixes = []workload.Mix{workload.Mixes[5], workload.Mixes[2], workload.Mixes[0]}

func runGPHashBaselines(ctx context.Context, r *runner) error {
	n, err := r.gphashKeys(1<<18, 1<<20, 64)
	if err != nil {
		return err
	}
	if err := r.gphashLimits(ctx, n); err != nil {
		return err
	}
	r.parts = len(r.keySizes())
	for _, keySize := range r.keySizes() {
		err := r.inTurns(len(persistentPeers), func(i int) ([]Row, error) { return r.peer(ctx, i, keySize, n) })
		if err != nil {
			return fmt.Errorf("keys of %d bytes: %w", keySize, err)
		}
	}
	return nil
}

func (r *runner) peer(ctx context.Context, i, keySize, n int) (rows []Row, err error) {
	p := persistentPeers[i]
	r.step("gphash-baselines: %s, keys of %d bytes", p.name, keySize)
	x, err := p.in(r, keySize, n, loadBatch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	return newSession(r, x, keySize, p.ordered).peerRows(ctx, p.name, n)
}

// peerOps is the number of measured operations of each mix except LOAD.
const peerOps = 1 << 18

// peerRows runs all mixes on the empty index of a session. The index ends with n records.
func (s *session) peerRows(ctx context.Context, name string, n int) (rows []Row, err error) {
	batch := min(n, defaultBatch)
	for _, mix := range peerMixes {
		records, ops := uint64(n), min(n, peerOps)
		if mix.InsertEvery > 0 {
			records, ops = 0, n
		}
		q, err := workload.NewRequests(mix, records, zipfTheta, s.Seed)
		if err != nil {
			return nil, err
		}
		var times []time.Duration
		if times, err = s.run(ctx, q, ops, batch); err != nil {
			return nil, fmt.Errorf("%s: YCSB %s: %w", name, mix.Name, err)
		}
		row := timed(name, mix.Name, s.keySize, ops, batch, times, s.mixLimit(mix))
		if p, ok := s.table.(parted); ok {
			row.Parts = p.parts(row.Latency.P50)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func plotBaselines(res *Result) []Plot {
	var plots []Plot
	for _, row := range res.Rows {
		plotFor(&plots, res.Experiment+"-"+row.Op, func() Plot {
			return Plot{Title: "YCSB " + row.Op, XLabel: "bytes of a key", YLabel: "operations per second"}
		}).point(row.Structure, float64(row.KeyBits/8), row.OpsPerS)
	}
	return plots
}
