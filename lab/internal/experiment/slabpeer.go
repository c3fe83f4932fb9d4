package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/misra"
	"github.com/weftgo/weft/lab/internal/roofline"
	"github.com/weftgo/weft/slab"
)

// slabOverMisra are the SlabHash paper's mean speedups, in the order of slabMixes.
var slabOverMisra = []Published{
	{"K40c, mixed_100", 5.1, "x"},
	{"K40c, mixed_40", 4.3, "x"},
	{"K40c, mixed_20", 3.1, "x"},
}

const misraLists = "linked lists"

var slabFig7bExperiment = Experiment{
	Name:  "slabhash-fig7b",
	Title: "Slab hash beside lock-free linked lists",
	Doc: `After figure 7b of the SlabHash paper: 10^6 operations (2^17 on a CPU), one a thread in one launch, on a set of as
many 32-bit keys, over the number of buckets. The slab hash keeps 30 keys in a slab; its peer is the lock-free hash
table of Misra and Chaudhuri, whose buckets are sorted linked lists of one key a node. The operations are the
distributions of 100, 40 and 20 % updates of slabhash-fig7a. speedup is the rate relative to that table in the same
run, and its geometric means over all numbers of buckets are among the parameters; the paper's, on a Tesla K40c, are
5.1, 4.3 and 3.1.`,
	run:       runSlabFig7b,
	plots:     plotSlabFig7b,
	published: slabOverMisra,
}

// peer is a set of 32-bit keys that accepts mixed batches.
type peer interface {
	Clear(ctx context.Context) error
	add(s *device.Stream, keys device.Slice[uint32]) error
	ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys device.Slice[uint32], ok device.Slice[bool]) error
	Sync(ctx context.Context) error
	Close() error
}

// slabPeer implements peer by a slab hash.
type slabPeer struct{ *slab.Set[uint32] }

func (p slabPeer) add(s *device.Stream, keys device.Slice[uint32]) error {
	return p.AddOn(s, keys, device.Slice[bool]{})
}

// misraPeer implements peer by Misra and Chaudhuri's table.
type misraPeer struct {
	*misra.Set
	stream *device.Stream
	puts   device.Slice[weft.OpKind] // one Put per key to add
}

func (p misraPeer) Clear(context.Context) error { return p.ClearOn(p.stream) }
func (p misraPeer) Close() error {
	return errors.Join(p.stream.Sync(context.Background()), p.Set.Close())
}
func (p misraPeer) Sync(ctx context.Context) error { return p.stream.Sync(ctx) }

func (p misraPeer) add(s *device.Stream, keys device.Slice[uint32]) error {
	return p.ApplyOn(s, p.puts, keys, device.Slice[bool]{})
}

// peerTrial measures batches of n operations on sets of n keys.
type peerTrial struct {
	*runner
	n    int
	keys device.Slice[uint32]
	puts device.Slice[weft.OpKind]
	mix  mix
	ops  *batch[uint32, uint32]
}

func runSlabFig7b(ctx context.Context, r *runner) (err error) {
	const nodes, slabs, columns = 2 * 8, 128 + 2*8, 4 + 1 + mixedBytes
	n, err := r.keys(1<<17, 1_000_000, nodes+slabs+columns)
	if err != nil {
		return err
	}
	r.result.Parameters["keys"] = n
	if err := r.limits(ctx, slabPair*n, r.slabLimit(), roofline.CAS64); err != nil {
		return err
	}
	p := &peerTrial{runner: r, n: n}
	defer func() { err = errors.Join(err, p.free(&p.keys, &p.puts)) }()
	if err := p.upload(); err != nil {
		return err
	}
	for _, m := range slabMixes {
		if err := p.atMix(ctx, m); err != nil {
			return err
		}
		r.meanSpeedups(m.op)
	}
	return nil
}

func (p *peerTrial) upload() (err error) {
	p.step("%s: keys", p.result.Experiment)
	keys, puts := make([]uint32, p.n), make([]weft.OpKind, p.n)
	workload.Unique(keys, p.Seed, 0)
	for i := range puts {
		puts[i] = weft.OpPut
	}
	if p.keys, err = device.Upload(p.stream, keys); err != nil {
		return err
	}
	p.puts, err = device.Upload(p.stream, puts)
	return err
}

// buckets returns the numbers of buckets to measure. A bucket has up to about a thousand keys.
func (p *peerTrial) buckets() (all []int) {
	step := map[Scale]int{Quick: 4, Default: 2, Full: 1}[p.Scale]
	for shift := p.size(8, 10); shift >= 0; shift -= step {
		if p.n>>shift > 0 {
			all = append(all, p.n>>shift)
		}
	}
	return all
}

func (p *peerTrial) atMix(ctx context.Context, m mix) (err error) {
	p.mix = m
	// The insertions add to the n keys.
	if p.ops, err = newBatch[uint32, uint32](p.runner, m, p.n+int(m.insert*float64(p.n)), p.n); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.ops.free()) }()
	for _, buckets := range p.buckets() {
		if err := p.atBuckets(ctx, buckets); err != nil {
			return fmt.Errorf("%d buckets: %w", buckets, err)
		}
	}
	return nil
}

// contender is a peer that is not open yet.
type contender struct {
	structure string
	valueBits int
	open      func() (peer, error)
}

func (p *peerTrial) atBuckets(ctx context.Context, buckets int) error {
	lists, err := p.measure(ctx, buckets, contender{structure: misraLists, open: func() (peer, error) {
		s, err := misra.New(p.Device, misra.Options{Buckets: buckets, Nodes: 2 * p.n, Seed: p.Seed + 1})
		return misraPeer{s, p.stream, p.puts}, err
	}})
	if err != nil {
		return err
	}
	slabs, err := p.measure(ctx, buckets, contender{structure: "slab-set", open: func() (peer, error) {
		s, err := slab.NewSet[uint32](p.Device, &slab.Options{
			Capacity: 2 * p.n, Buckets: buckets, Fixed: true, Unordered: true, MaxTombstones: -1, Seed: p.Seed + 1,
		})
		return slabPeer{s}, err
	}})
	if err != nil {
		return err
	}
	slabs.Speedup = figure(slabs.OpsPerS / lists.OpsPerS)
	p.add(lists)
	p.add(slabs)
	return nil
}

func (p *peerTrial) measure(ctx context.Context, buckets int, c contender) (row Row, err error) {
	p.step("%s: %s, %d buckets: %s", p.result.Experiment, c.structure, buckets, p.mix.op)
	s, err := c.open()
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	t, err := p.median(ctx, func() error {
		if err := s.Clear(ctx); err != nil {
			return err
		}
		return s.add(p.stream, p.keys)
	}, func() error {
		return s.ApplyOn(p.stream, p.ops.kinds, p.ops.keys, p.ops.ok)
	})
	if err != nil {
		return row, err
	}
	if err := s.Sync(ctx); err != nil {
		return row, err
	}
	if err := checkFlags(ctx, p.runner, p.ops.ok, p.mix.op, p.ops.succeed); err != nil {
		return row, err
	}
	return Row{
		Structure: c.structure, Op: p.mix.op, KeyBits: 32, ValueBits: c.valueBits, N: p.n, Buckets: buckets, Seconds: t.Seconds(),
		OpsPerS: roofline.Rate(p.n, t), Limit: p.mixedLimit(p.slabLimit(), roofline.CAS64, p.mix.updates()),
	}, nil
}

func geometricMean(rows []Row, op string) float64 {
	sum, n := 0., 0
	for _, row := range rows {
		if row.Op == op && row.Speedup != nil {
			sum += math.Log(*row.Speedup)
			n++
		}
	}
	return math.Exp(sum / float64(n))
}

func plotSlabFig7b(res *Result) []Plot {
	rates := Plot{
		Name: "slabhash-fig7b", Title: "Mixed batches by their share of updates, in percent",
		XLabel: "buckets", YLabel: "operations per second", LogX: true, LogY: true,
	}
	speedups := Plot{
		Name: "slabhash-fig7b-speedup", Title: "How many times the slab hash is as fast as linked lists",
		XLabel: "buckets", YLabel: "speedup", LogX: true, LogY: true,
	}
	for _, row := range res.Rows {
		rates.point(row.Structure+", "+row.Op, float64(row.Buckets), row.OpsPerS)
		if row.Speedup != nil {
			speedups.point(row.Op, float64(row.Buckets), *row.Speedup)
		}
	}
	for _, f := range slabOverMisra {
		speedups.level(f)
	}
	return []Plot{rates, speedups}
}
