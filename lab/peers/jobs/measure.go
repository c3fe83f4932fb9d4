package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/weftgo/weft/lab/internal/command"
)

// Job is rows and what to do with them.
type Job struct {
	Name string
	Keys int // that rows draw from
	// Close: the keys are 0, 1, 2, …, and not any numbers. Who looks at their range needs no hash table.
	Close bool
	// Left and Values are the columns to group, and to look for distinct keys in; Left and Right
	// those to join.
	Left, Values, Right []int64
	// Lines are what to look for different ones in.
	Lines *text
}

// rows is how many there are.
func (j *Job) rows() int {
	if j.Lines != nil {
		return j.Lines.len()
	}
	return len(j.Left)
}

// Result is what all peers must agree in, whatever the order of what they find.
type Result struct {
	Rows    int // groups, keys or pairs
	A, B, C uint64
}

// Peer does jobs.
type Peer struct {
	Name string
	// Skip says why it cannot, if it cannot.
	Skip string
	// Load gets columns to where the peer works on them, and returns what does the job with them.
	Load func(j Job) (Work, error)
}

// Work is a job of a peer that has been loaded.
type Work struct {
	// Run does the job, which is what takes the time, and leaves its result in memory.
	Run func() error
	// Result tells what that is, and forgets it.
	Result func() (Result, error)
	Close  func() error
}

// Row is one peer at one job.
type Row struct {
	Job     string `json:"job"`
	N       int    `json:"n"`
	Keys    int    `json:"keys"`
	Close   bool   `json:"close,omitempty"` // the keys are 0, 1, 2, …
	Peer    string `json:"peer"`
	Skipped string `json:"skipped,omitempty"`
	// MS is the median of the milliseconds that runs took, LeastMS and MostMS are the extremes.
	MS      float64 `json:"ms,omitempty"`
	LeastMS float64 `json:"least_ms,omitempty"`
	MostMS  float64 `json:"most_ms,omitempty"`
	Speedup float64 `json:"speedup,omitempty"` // the Go map's time by this one's; 0 without it
}

// Jobs are all of so many rows.
func Jobs(rows int, sizes []int, seed uint64) (jobs []Job) {
	values := draw(rows, 1000, seed+1)
	for i, keys := range sizes {
		if i == 0 {
			jobs = append(jobs, Job{Name: "group", Keys: keys, Close: true, Left: draw(rows, keys, seed), Values: values})
		}
		jobs = append(jobs, Job{Name: "group", Keys: keys, Left: spread(draw(rows, keys, seed)), Values: values})
	}
	largest := jobs[len(jobs)-1]
	largest.Name = "distinct"
	keys := max(rows/5, 1) // 10 M rows and 5 M rows of 4 M keys: 12.5 M pairs
	lines := max(rows/5, 2)
	return append(jobs, largest, Job{Name: "dedup", Keys: lines / 2, Lines: drawLines(lines, lines/2, seed+4)}, Job{Name: "join", Keys: keys, Left: spread(draw(rows/2, keys, seed+2)), Right: spread(draw(rows/4, keys, seed+3))})
}

// draw is so many numbers below most.
func draw(n, most int, seed uint64) []int64 {
	rng := rand.New(rand.NewPCG(seed, uint64(most)))
	c := make([]int64, n)
	for i := range c {
		c[i] = rng.Int64N(int64(most))
	}
	return c
}

// spread makes numbers far apart of small ones, one of each.
func spread(c []int64) []int64 {
	for i := range c {
		c[i] = int64(mix(uint64(c[i])))
	}
	return c
}

// mix is a bijection that spreads keys: the finalizer of MurmurHash3.
func mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Measure has all peers do a job, and compares their results.
func Measure(j Job, peers []Peer, runs int) (rows []Row, err error) {
	var want *Result
	var of string
	for _, p := range peers {
		row := Row{Job: j.Name, N: j.rows(), Keys: j.Keys, Close: j.Close, Peer: p.Name, Skipped: p.Skip}
		if p.Skip == "" {
			got, err := p.measure(j, runs, &row)
			if err != nil {
				return nil, fmt.Errorf("%s, %s of %d keys: %w", p.Name, j.Name, j.Keys, err)
			}
			if want == nil {
				want, of = &got, p.Name
			} else if got != *want {
				return nil, fmt.Errorf("%s of %d keys: %s finds %+v, %s %+v", j.Name, j.Keys, of, *want, p.Name, got)
			}
		}
		rows = append(rows, row)
	}
	for i := range rows {
		if rows[i].MS > 0 && rows[0].Peer == goMap {
			rows[i].Speedup = rows[0].MS / rows[i].MS
		}
	}
	return rows, nil
}

func (p *Peer) measure(j Job, runs int, row *Row) (got Result, err error) {
	work, err := p.Load(j)
	if err != nil {
		return got, err
	}
	var times []float64
	for range runs {
		runtime.GC()
		start := time.Now()
		if err := work.Run(); err != nil {
			return got, err
		}
		times = append(times, time.Since(start).Seconds()*1e3)
		if got, err = work.Result(); err != nil {
			return got, err
		}
	}
	row.MS = command.Median(times)
	row.LeastMS, row.MostMS = times[0], times[len(times)-1]
	return got, work.Close()
}
