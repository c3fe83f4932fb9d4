package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/weftgo/weft/internal/workload"
)

// Row is the result of one store under one workload in one place.
type Row struct {
	Place    string  `json:"place"`
	Store    string  `json:"store"`
	Survives string  `json:"survives"`
	Workload string  `json:"workload"`
	N        int     `json:"n"`
	Batch    int     `json:"batch"`
	OpsPerS  float64 `json:"ops_per_s"`
	// P50 and P99 are percentiles of the time of a batch, in seconds.
	P50 float64 `json:"p50_s"`
	P99 float64 `json:"p99_s"`
	// Speedup is the rate over the rate of gphash in the same place.
	Speedup float64 `json:"speedup"`
}

// Place is a folder in which stores are measured.
type Place struct {
	Name, Dir string
	Volatile  bool // contents do not survive a failure of the machine
}

// workloads are YCSB LOAD, C and A. They run in this order on one store.
var workloads = []workload.Mix{workload.Mixes[5], workload.Mixes[2], workload.Mixes[0]}

// measure measures all stores in each run, so that conditions are the same for all. It returns the
// rows of the median runs.
func measure(ctx context.Context, stores []StoreKind, at Place, n, batch, runs int, seed uint64) ([]Row, error) {
	all := make([][]Row, len(workloads)*len(stores))
	for range runs {
		for i, kind := range stores {
			rows, err := kind.run(ctx, at, n, batch, seed)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", at.Name, kind.Name, err)
			}
			for j, row := range rows {
				all[j*len(stores)+i] = append(all[j*len(stores)+i], row)
			}
		}
	}
	rows := make([]Row, len(all))
	for k, of := range all {
		slices.SortFunc(of, func(a, b Row) int { return int(a.OpsPerS - b.OpsPerS) })
		rows[k] = of[len(of)/2]
		rows[k].Speedup = rows[k].OpsPerS / rows[k/len(stores)*len(stores)].OpsPerS
	}
	return rows, nil
}

func (k StoreKind) run(ctx context.Context, at Place, n, batch int, seed uint64) (rows []Row, err error) {
	dir, err := os.MkdirTemp(at.Dir, "weft-durable-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := k.New(dir, n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	survives := k.Survives
	if at.Volatile {
		survives = "process"
	}
	c := client{store: s, seed: seed, stamps: make([]uint64, n)}
	for _, mix := range workloads {
		times, err := c.run(ctx, mix, n, batch)
		if err != nil {
			return nil, fmt.Errorf("YCSB %s: %w", mix.Name, err)
		}
		sum := time.Duration(0)
		for _, t := range times {
			sum += t
		}
		slices.Sort(times)
		rows = append(rows, Row{
			Place: at.Name, Store: k.Name, Survives: survives, Workload: mix.Name, N: n, Batch: batch, OpsPerS: float64(n) / sum.Seconds(),
			P50: times[len(times)/2].Seconds(), P99: times[min(len(times)*99/100, len(times)-1)].Seconds(),
		})
	}
	return rows, nil
}

// client runs requests on a store. It runs the reads of a batch in one call, and then the writes.
type client struct {
	store  Store
	seed   uint64
	stamps []uint64 // current stamp of each record
	stamp  uint64

	gets, puts column
}

// column holds the records of a call.
type column struct {
	records    []uint64
	keys, vals []byte
	found      []bool
}

func (c *column) reset() { c.records = c.records[:0] }

func (c *column) fill(seed uint64) {
	n := len(c.records)
	c.keys, c.vals, c.found = slices.Grow(c.keys[:0], n*keySize)[:n*keySize], slices.Grow(c.vals[:0], n*valueSize)[:n*valueSize], slices.Grow(c.found[:0], n)[:n]
	for i, record := range c.records {
		workload.RecordKey(key(c.keys, i), seed, record)
	}
}

// run runs n requests of a mix and returns the time of each batch.
func (c *client) run(ctx context.Context, mix workload.Mix, n, batch int) (times []time.Duration, err error) {
	records := uint64(len(c.stamps))
	if mix.InsertEvery > 0 {
		records = 0
	}
	q, err := workload.NewRequests(mix, records, .99, c.seed)
	if err != nil {
		return nil, err
	}
	requests := make([]workload.Request, batch)
	for lo := 0; lo < n; lo += batch {
		some := requests[:min(batch, n-lo)]
		q.Fill(some, uint64(lo))
		t, err := c.batch(ctx, some)
		if err != nil {
			return nil, err
		}
		times = append(times, t)
	}
	return times, nil
}

// batch runs requests and checks the results of reads.
func (c *client) batch(ctx context.Context, requests []workload.Request) (took time.Duration, err error) {
	c.gets.reset()
	c.puts.reset()
	for _, r := range requests {
		if r.Action == workload.Read {
			c.gets.records = append(c.gets.records, r.Record)
		} else {
			c.puts.records = append(c.puts.records, r.Record)
		}
	}
	c.gets.fill(c.seed)
	c.puts.fill(c.seed)
	first := c.stamp
	for i, record := range c.puts.records {
		c.stamp++
		workload.RecordValue(value(c.puts.vals, i), record, c.stamp)
	}
	start := time.Now()
	if len(c.gets.records) > 0 {
		err = c.store.Get(ctx, c.gets.keys, c.gets.vals, c.gets.found)
	}
	if len(c.puts.records) > 0 && err == nil {
		err = c.store.Put(ctx, c.puts.keys, c.puts.vals)
	}
	if took = time.Since(start); err != nil {
		return took, err
	}
	for i, record := range c.gets.records {
		if !c.gets.found[i] || !workload.IsRecordValue(value(c.gets.vals, i), record, c.stamps[record]) {
			return took, fmt.Errorf("wrong answer: record %d: found %v, not what write %d has written", record, c.gets.found[i], c.stamps[record])
		}
	}
	for i, record := range c.puts.records {
		c.stamps[record] = first + uint64(i) + 1
	}
	return took, nil
}
