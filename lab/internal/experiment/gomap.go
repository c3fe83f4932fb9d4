package experiment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
	"github.com/weftgo/weft/linear"
)

var cpuExperiment = Experiment{
	Name:    "cpu",
	Title:   "The CPU engine beside Go's builtin map",
	Default: true,
	Doc: `10^7 unique random 64-bit keys with 64-bit values, on the host whatever the device: linear on one core and on
all cores, and Go's builtin map, made with room for all keys, in the same run. The builtin map takes writes from one
goroutine only, so its insert has one row; its lookups are also spread over all cores. speedup is the rate relative
to the builtin map with as many cores, or with one where it can use no more.`,
	run: runCPU,
}

const goMap = "builtin map"

// hostPeer is a structure on the host that experiment cpu measures.
type hostPeer struct {
	structure string
	cores     int
	load      float64 // 0 if unknown
	insert    func() error
	lookup    func(keys []uint64) (hits int, err error)
	clear     func() error
}

func runCPU(ctx context.Context, r *runner) (err error) {
	all, err := cpu.Open(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	one, err := cpu.Open(&cpu.Options{Workers: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, one.Close()) }()

	host := &runner{Config: r.Config, result: r.result} // the experiment's device may be a GPU
	if !r.chosen && r.Scale != Full {
		host.Runs = 1 // each run takes seconds, long enough to be stable
	}
	defer func() { err = errors.Join(err, host.close(ctx)) }()
	if err := host.open(all); err != nil {
		return err
	}
	c, err := newHostRun(ctx, host)
	if err != nil {
		return err
	}
	cores := all.Properties().Units
	if err := c.measureGoMap(ctx, cores); err != nil {
		return err
	}
	if err := c.measureLinear(ctx, one, 1); err != nil {
		return err
	}
	if cores == 1 {
		return nil
	}
	return c.measureLinear(ctx, all, cores)
}

// hostRun holds the columns that all peers of experiment cpu use.
type hostRun struct {
	*runner
	keys, vals, hits, miss, out []uint64
	found                       []bool
}

func newHostRun(ctx context.Context, r *runner) (*hostRun, error) {
	n, err := r.keys(10_000_000, 0, 64+41)
	if err != nil {
		return nil, err
	}
	r.result.Parameters["keys"] = n
	if err := r.limits(ctx, 32*n, roofline.Read64, roofline.Read64OneCore, roofline.CAS64, roofline.CAS64OneCore); err != nil {
		return nil, err
	}
	r.step("cpu: keys")
	c := &hostRun{
		runner: r, keys: make([]uint64, n), vals: make([]uint64, n), hits: make([]uint64, n), miss: make([]uint64, n),
		out: make([]uint64, n), found: make([]bool, n),
	}
	workload.Unique(c.keys, r.Seed, 0)
	workload.Values(c.vals, c.keys)
	workload.Lookups(c.hits, r.Seed, uint64(n), 1, r.Seed+1)
	workload.Lookups(c.miss, r.Seed, uint64(n), 0, r.Seed+1)
	return c, nil
}

func (c *hostRun) measure(ctx context.Context, p hostPeer) error {
	ops := []struct {
		name string
		run  func() error
		hits float64
	}{
		{"insert", p.insert, -1},
		{"get_hit", func() error { return c.lookup(p, c.hits, len(c.hits)) }, 1},
		{"get_miss", func() error { return c.lookup(p, c.miss, 0) }, 0},
	}
	for _, op := range ops {
		if op.name == "insert" && p.insert == nil {
			continue
		}
		c.step("cpu: %s, %d cores: %s", p.structure, p.cores, op.name)
		t, err := c.repeat(ctx, c.Runs, func() (time.Duration, error) {
			if op.name == "insert" {
				if err := p.clear(); err != nil {
					return 0, err
				}
			}
			start := time.Now()
			err := op.run()
			return time.Since(start), err
		})
		if err != nil {
			return fmt.Errorf("%s, %d cores: %s: %w", p.structure, p.cores, op.name, err)
		}
		c.report(p, op.name, op.hits, t)
	}
	return nil
}

func (c *hostRun) lookup(p hostPeer, keys []uint64, want int) error {
	hits, err := p.lookup(keys)
	if err == nil && hits != want {
		err = fmt.Errorf("%w: %d of %d keys found, want %d", errWrong, hits, len(keys), want)
	}
	return err
}

func (c *hostRun) report(p hostPeer, op string, hits float64, t time.Duration) {
	row := Row{
		Structure: p.structure, Op: op, KeyBits: 64, ValueBits: 64, N: len(c.keys), Load: p.load,
		OpsPerS: roofline.Rate(len(c.keys), t), Seconds: t.Seconds(), Cores: p.cores, Limit: roofline.Read64,
	}
	if op == "insert" {
		row.Limit = roofline.CAS64
	} else {
		row.HitRatio = figure(hits)
	}
	if p.cores == 1 {
		row.Limit += "_1core"
	}
	if peer := c.builtin(op, p.cores); peer > 0 && p.structure != goMap {
		row.Speedup = figure(row.OpsPerS / peer)
	}
	c.add(row)
}

// builtin returns the builtin map's rate on the given number of cores, or on one core if the
// operation was measured on one core only.
func (c *hostRun) builtin(op string, cores int) float64 {
	rate := 0.
	for _, row := range c.result.Rows {
		if row.Structure == goMap && row.Op == op && (row.Cores == cores || row.Cores == 1 && rate == 0) {
			rate = row.OpsPerS
		}
	}
	return rate
}

// measureGoMap measures the builtin map: all operations on one core, and lookups on all cores.
func (c *hostRun) measureGoMap(ctx context.Context, cores int) error {
	var m map[uint64]uint64
	peer := hostPeer{
		structure: goMap, cores: 1,
		clear: func() error { m = make(map[uint64]uint64, len(c.keys)); return nil },
		insert: func() error {
			for i, k := range c.keys {
				m[k] = c.vals[i]
			}
			return nil
		},
		lookup: func(keys []uint64) (int, error) { return c.lookupGoMap(m, keys, 0), nil },
	}
	if err := c.measure(ctx, peer); err != nil {
		return err
	}
	if cores == 1 {
		return nil
	}
	peer.cores, peer.insert = cores, nil
	peer.lookup = func(keys []uint64) (int, error) {
		hits := make([]int, cores)
		var wg sync.WaitGroup
		for w := range cores {
			lo, hi := w*len(keys)/cores, (w+1)*len(keys)/cores
			wg.Go(func() { hits[w] = c.lookupGoMap(m, keys[lo:hi], lo) })
		}
		wg.Wait()
		sum := 0
		for _, h := range hits {
			sum += h
		}
		return sum, nil
	}
	return c.measure(ctx, peer)
}

// lookupGoMap looks up keys and writes values and flags to the columns. at is the first row to
// write. Map.Get does the same work.
func (c *hostRun) lookupGoMap(m map[uint64]uint64, keys []uint64, at int) (hits int) {
	out, found := c.out[at:at+len(keys)], c.found[at:at+len(keys)]
	for i, k := range keys {
		v, ok := m[k]
		out[i], found[i] = v, ok
		if ok {
			hits++
		}
	}
	return hits
}

func (c *hostRun) measureLinear(ctx context.Context, dev device.Device, cores int) (err error) {
	const load = .5 // the builtin map with capacity for all keys has a mean load of 0.6
	m, err := linear.New[uint64, uint64](dev, &linear.Options{Capacity: len(c.keys), MaxLoad: load, Fixed: true, Seed: c.Seed + 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return c.measure(ctx, hostPeer{
		structure: "linear", cores: cores, load: load,
		clear:  func() error { return m.Clear(ctx) },
		insert: func() error { _, err := m.Put(ctx, c.keys, c.vals); return err },
		lookup: func(keys []uint64) (int, error) { return m.Get(ctx, keys, c.out, c.found) },
	})
}
