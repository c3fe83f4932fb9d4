package main

import (
	"cmp"
	"context"
	"encoding/binary"
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
	// Speedup is the rate over the rate of the first store of its comparison, in the same place.
	Speedup float64 `json:"speedup"`
	// SpeedupP50 compares P50 instead of rates, so that the load of the machine matters less.
	SpeedupP50 float64 `json:"speedup_p50"`
	// Target is the target for 1/Speedup, or 0.
	Target float64 `json:"target,omitempty"`
}

// Place is a folder in which stores are measured.
type Place struct {
	Name, Dir string
	Volatile  bool // contents do not survive a failure of the machine
}

// job is a workload, and the method that changes records.
type job struct {
	workload.Mix
	theta  float64 // see workload.NewRequests
	method method
	target float64 // replaces StoreKind.Target, unless it is 0
}

type method int

const (
	put      method = iota
	reduce          // adds the difference between the new value and the old value
	getOrPut        // also reads records
)

// jobs are YCSB LOAD, C and A.
var jobs = []job{{Mix: workload.Mixes[5]}, {Mix: workload.Mixes[2], theta: .99}, {Mix: workload.Mixes[0], theta: .99}}

// comparison runs jobs on stores. On one store it runs them in order. Speedups refer to the first
// store.
type comparison struct {
	stores    []StoreKind
	jobs      []job
	valueSize int
}

// sizes are the sizes of a measurement. n is the number of records, and of operations of each job.
type sizes struct {
	n, batch, runs int
	seed           uint64
}

// measure measures all stores in each run, so that conditions are the same for all. It returns the
// rows of the median runs.
func (x comparison) measure(ctx context.Context, at Place, z sizes) ([]Row, error) {
	all := make([][]Row, len(x.jobs)*len(x.stores))
	for range z.runs {
		for i, kind := range x.stores {
			rows, err := x.run(ctx, kind, at, z)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", at.Name, kind.Name, err)
			}
			for j, row := range rows {
				all[j*len(x.stores)+i] = append(all[j*len(x.stores)+i], row)
			}
		}
	}
	rows := make([]Row, len(all))
	for k, of := range all {
		slices.SortFunc(of, func(a, b Row) int { return int(a.OpsPerS - b.OpsPerS) })
		rows[k] = of[len(of)/2]
		first := rows[k/len(x.stores)*len(x.stores)]
		rows[k].Speedup, rows[k].SpeedupP50 = rows[k].OpsPerS/first.OpsPerS, first.P50/rows[k].P50
	}
	return rows, nil
}

func (x comparison) run(ctx context.Context, k StoreKind, at Place, z sizes) (rows []Row, err error) {
	dir, err := os.MkdirTemp(at.Dir, "weft-durable-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := client{kind: k, dir: dir, seed: z.seed, records: z.n, valueSize: x.valueSize}
	if err := c.open(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	survives := k.Survives
	if at.Volatile {
		survives = "process"
	}
	for _, j := range x.jobs {
		times, err := c.run(ctx, j, z.n, z.batch)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", j.Name, err)
		}
		sum := time.Duration(0)
		for _, t := range times {
			sum += t
		}
		slices.Sort(times)
		rows = append(rows, Row{
			Place: at.Name, Store: k.Name, Survives: survives, Workload: j.Name, N: z.n, Batch: z.batch, OpsPerS: float64(z.n) / sum.Seconds(),
			P50: times[len(times)/2].Seconds(), P99: times[min(len(times)*99/100,
				len(times)-1)].Seconds(), Target: cmp.Or(j.target, k.Target),
		})
	}
	if k.Reopens {
		if err := errors.Join(c.close(), c.open()); err != nil {
			return nil, err
		}
	}
	return rows, c.check(ctx, z.batch)
}

// client runs requests on a store. It runs the reads of a batch in one call, and then the changes.
type client struct {
	kind      StoreKind
	dir       string
	store     Store // nil if closed
	seed      uint64
	records   int // number of records that the store expects
	valueSize int
	stamps    []uint64 // current stamp of each record
	stamp     uint64

	gets, puts column
	expected   []uint64 // stamps that gets must find
}

// column holds the records of a call.
type column struct {
	records    []uint64
	keys, vals []byte
	found      []bool
}

func (c *client) open() error {
	s, err := c.kind.New(c.dir, c.records)
	if err == nil {
		c.store = s
	}
	return err
}

func (c *client) close() (err error) {
	if c.store != nil {
		err = c.store.Close()
	}
	c.store = nil
	return err
}

func (c *column) reset() { c.records = c.records[:0] }

func (c *column) fill(seed uint64, valueSize int) {
	n := len(c.records)
	c.keys, c.vals, c.found = slices.Grow(c.keys[:0], n*keySize)[:n*keySize], slices.Grow(c.vals[:0], n*valueSize)[:n*valueSize], slices.Grow(c.found[:0], n)[:n]
	for i, record := range c.records {
		workload.RecordKey(key(c.keys, i), seed, record)
	}
}

// run runs n requests of a job and returns the time of each batch.
func (c *client) run(ctx context.Context, j job, n, batch int) (times []time.Duration, err error) {
	q, err := workload.NewRequests(j.Mix, uint64(len(c.stamps)), j.theta, c.seed)
	if err != nil {
		return nil, err
	}
	requests := make([]workload.Request, batch)
	for lo := 0; lo < n; lo += batch {
		part := requests[:min(batch, n-lo)]
		q.Fill(part, uint64(lo))
		t, err := c.batch(ctx, part, j.method)
		if err != nil {
			return nil, err
		}
		times = append(times, t)
	}
	return times, nil
}

// check reads all records.
func (c *client) check(ctx context.Context, batch int) error {
	requests := make([]workload.Request, 0, batch)
	for lo := 0; lo < len(c.stamps); lo += batch {
		requests = requests[:0]
		for i := lo; i < min(lo+batch, len(c.stamps)); i++ {
			requests = append(requests, workload.Request{Action: workload.Read, Record: uint64(i)})
		}
		if _, err := c.batch(ctx, requests, put); err != nil {
			return err
		}
	}
	return nil
}

// batch runs requests and checks what they read. Its error ends the use of the client.
func (c *client) batch(ctx context.Context, requests []workload.Request, m method) (took time.Duration, err error) {
	c.gets.reset()
	c.puts.reset()
	c.expected = c.expected[:0]
	for _, r := range requests {
		if r.Action == workload.Read && m != getOrPut {
			c.gets.records, c.expected = append(c.gets.records, r.Record), append(c.expected,
				c.stamps[r.Record])
		} else {
			c.puts.records = append(c.puts.records, r.Record)
		}
	}
	c.gets.fill(c.seed, c.valueSize)
	c.puts.fill(c.seed, c.valueSize)
	for i, record := range c.puts.records {
		c.change(record, value(c.puts.vals, i, len(c.puts.records)), m)
	}
	start := time.Now()
	if len(c.gets.records) > 0 {
		err = c.store.Get(ctx, c.gets.keys, c.gets.vals, c.gets.found)
	}
	if len(c.puts.records) > 0 && err == nil {
		if m == put {
			err = c.store.Put(ctx, c.puts.keys, c.puts.vals)
		} else {
			err = c.store.(mapStore).change(ctx, m, &c.puts)
		}
	}
	if took = time.Since(start); err != nil {
		return took, err
	}
	for i, stamp := range c.expected {
		if err := c.gets.check(i, true, stamp); err != nil {
			return took, err
		}
	}
	for i := 0; m == getOrPut && i < len(requests); i++ {
		if err := c.puts.check(i, requests[i].Action == workload.Read,
			c.stamps[requests[i].Record]); err != nil {
			return took, err
		}
	}
	return took, nil
}

// change stores the argument of a change in v and notes the stamp of the record after the change.
func (c *client) change(record uint64, v []byte, m method) {
	if record == uint64(len(c.stamps)) {
		c.stamps = append(c.stamps, 0)
	}
	old := c.stamps[record]
	if m == getOrPut && old > 0 {
		return
	}
	c.stamp++
	c.stamps[record] = c.stamp
	workload.RecordValue(v, record, c.stamp)
	if m == reduce && old > 0 {
		added := binary.LittleEndian.Uint64(v)
		workload.RecordValue(v, record, old)
		binary.LittleEndian.PutUint64(v, added-binary.LittleEndian.Uint64(v))
	}
}

// check checks that row i was found or not, and has the value of a stamp.
func (c *column) check(i int, found bool, stamp uint64) error {
	if c.found[i] == found && workload.IsRecordValue(value(c.vals, i, len(c.records)), c.records[i],
		stamp) {
		return nil
	}
	return fmt.Errorf("wrong answer: record %d: found %v, want %v with the value of write %d",
		c.records[i], c.found[i], found, stamp)
}
