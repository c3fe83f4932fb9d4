package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
)

var gphashBreakdownExperiment = Experiment{
	Name:  "gphash-fig8",
	Was:   "gphash-breakdown",
	Title: "What the latency of a batch of a GPU's program is made of",
	GPU:   true,
	Doc: `After figure 8 of the GPHash paper: YCSB LOAD, C and A in batches of 2^12 on 2^20 records, with keys of 8 and 32 bytes, for a
program that runs on a GPU. The indexes are those of gphash-baselines. They work there, in place, and once more on the host, on all cores:
then the batch is copied out of the GPU, through page-locked memory, and results into it. parts add up to the median call: transfer, the
copies; index, all else; log, by how much the slab hash with its undo log is slower than without. Lookups (C) on the GPU are cut into
locate, what finding the slots takes, measured as a call of its own that returns no values, and values, the rest. The paper cuts through
kernels, which weft does not. speedup is that of the median call over gphash on the GPU, in the fastest of several rounds, as many as fit into 40 s, in each of which all
have their turn. In the paper transfers take more than 30.1 % of the latency of indexes of the host, and the log up to 15.2 %.` + onDevice + hostPool,
	run:   runGPHashBreakdown,
	plots: plotBreakdown,
}

// parted is a byteMap that splits its calls into parts. parts returns the parts of the calls since
// it was called last; they add up to p50.
type parted interface {
	parts(p50 float64) []Part
}

// onHost is the suffix in the names of indexes that run on the host.
const onHost = ", host"

func runGPHashBreakdown(ctx context.Context, r *runner) (err error) {
	n, err := r.gphashKeys(1<<18, 1<<20, 64)
	if err != nil {
		return err
	}
	if err := r.gphashLimits(ctx, n); err != nil {
		return err
	}
	host, err := cpu.Open(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	r.parts = len(r.keySizes())
	for _, keySize := range r.keySizes() {
		if err := r.breakdown(ctx, host, keySize, n); err != nil {
			return fmt.Errorf("keys of %d bytes: %w", keySize, err)
		}
	}
	splitLog(r.result.Rows)
	return nil
}

func (r *runner) breakdown(ctx context.Context, host device.Device, keySize, n int) (err error) {
	d, err := r.newDeviceBatches(keySize, min(n, defaultBatch))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.free()) }()
	rows, unlock, err := d.newHostRows()
	defer func() { err = errors.Join(err, unlock()) }()
	if err != nil {
		return err
	}
	peers := len(persistentPeers)
	return r.inTurns(2*peers, func(i int) ([]Row, error) {
		if i < peers {
			return r.residentRows(ctx, d, persistentPeers[i], n)
		}
		return r.assistedRows(ctx, d, rows, host, persistentPeers[i-peers], n)
	})
}

func (r *runner) residentRows(ctx context.Context, d *deviceBatches, p persistentPeer, n int) (rows []Row, err error) {
	r.step("gphash-fig8: %s on the GPU, keys of %d bytes", p.name, d.keySize)
	x, err := p.in(r, d.keySize, n, loadBatch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	return newSession(r, resident{x, d, new([]time.Duration)}, d.keySize, p.ordered).peerRows(ctx, p.name, n)
}

func (r *runner) assistedRows(ctx context.Context, d *deviceBatches, h hostRows, host device.Device, p persistentPeer, n int) (rows []Row, err error) {
	name := p.name + onHost
	r.step("gphash-fig8: %s, keys of %d bytes", name, d.keySize)
	there := &runner{Config: r.Config}
	there.Device = host
	x, err := p.in(there, d.keySize, n, loadBatch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	return newSession(r, &assisted{byteMap: x, deviceBatches: d, host: h}, d.keySize, p.ordered).peerRows(ctx, name, n)
}

func (m resident) parts(p50 float64) []Part {
	if m.located == nil || len(*m.located) == 0 {
		return []Part{{"index", p50}}
	}
	return cut(p50, "locate", m.located, "values")
}

func (m *assisted) parts(p50 float64) []Part { return cut(p50, "transfer", &m.copies, "index") }

// cut splits a latency into two parts: the median of the slice times, and the rest. It empties the
// slice.
func cut(p50 float64, name string, times *[]time.Duration, restName string) []Part {
	l, _ := latencies(*times)
	*times = (*times)[:0]
	first := min(l.P50, p50)
	return []Part{{name, first}, {restName, p50 - first}}
}

// splitLog splits part "index" of the slab hash with an undo log. The part that exceeds the slab
// hash without a log becomes part "log".
func splitLog(rows []Row) {
	for i := range rows {
		baseline, ok := map[string]string{undoLog: noUndoLog, undoLog + onHost: noUndoLog + onHost}[rows[i].Structure]
		index := part(rows[i], "index")
		if !ok || index == nil {
			continue
		}
		j := slices.IndexFunc(rows, func(r Row) bool {
			return r.Structure == baseline && r.Op == rows[i].Op && r.KeyBits == rows[i].KeyBits
		})
		log := max(index.Seconds-part(rows[j], "index").Seconds, 0)
		index.Seconds -= log
		rows[i].Parts = append(rows[i].Parts, Part{"log", log})
	}
}

func part(r Row, what string) *Part {
	i := slices.IndexFunc(r.Parts, func(p Part) bool { return p.What == what })
	if i < 0 {
		return nil
	}
	return &r.Parts[i]
}

// plotBreakdown plots the parts of each workload over the key size, one line per index and part.
func plotBreakdown(res *Result) []Plot {
	var plots []Plot
	for _, row := range res.Rows {
		for _, part := range row.Parts {
			plotFor(&plots, res.Experiment+"-"+row.Op, func() Plot {
				return Plot{Title: "Latency of a batch, YCSB " + row.Op, XLabel: "bytes of a key", YLabel: "seconds"}
			}).point(row.Structure+": "+part.What, float64(row.KeyBits/8), part.Seconds)
		}
	}
	return plots
}
