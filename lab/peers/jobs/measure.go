package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/weftgo/weft/lab/internal/command"
)

// Result summarizes the result of a job. It does not depend on order, and must be equal for all
// peers.
type Result struct {
	Rows    int // number of groups, keys or pairs
	A, B, C uint64
}

// Peer is an implementation of jobs.
type Peer struct {
	Name string
	// Rival marks the peers that compete with weft. The best of them is compared with weft.
	Rival bool
	// Skip returns the reason why the peer is absent, or "". A nil Skip means that the peer is
	// never absent.
	Skip func() string
	// Load loads the columns of a job into the peer.
	Load func(j Job) (Work, error)
}

// Work is a job that a peer has loaded.
type Work struct {
	// Run does the job and leaves its result in memory. It is the timed part.
	Run func() error
	// Result returns the result of Run and frees it.
	Result func() (Result, error)
	Close  func() error
	PID    int // process that holds the tables; 0: this process
}

// Measured is the output of a process that did a job.
type Measured struct {
	TimesMS []float64
	Peak    int64 // bytes
	Result  Result
}

// Row is the result of one peer at one job.
type Row struct {
	Job     string `json:"job"`
	N       int    `json:"n"`
	Keys    int    `json:"keys"`
	Cores   int    `json:"cores"`
	Peer    string `json:"peer"`
	Skipped string `json:"skipped,omitempty"`
	// Milliseconds of all runs in order, and of the first, the median and the slowest run.
	TimesMS  []float64 `json:"times_ms,omitempty"`
	FirstMS  float64   `json:"first_ms,omitempty"`
	MedianMS float64   `json:"median_ms,omitempty"`
	MaxMS    float64   `json:"max_ms,omitempty"`
	Peak     int64     `json:"peak_bytes,omitempty"` // in addition to the loaded rows
	// First and Median are set in weft's row. They compare the fastest first run and the smallest
	// median of rivals with weft's.
	First  float64 `json:"best_rival_first,omitempty"`
	Median float64 `json:"best_rival_median,omitempty"`
}

// Compare does a job with each peer, by calls of process, and compares the results.
func Compare(j Job, peers []Peer, cores int,
	process func(Peer) (Measured, error)) (rows []Row, err error) {
	var want *Result
	var of string
	var ours *Row
	var first, median []float64 // times of rivals
	rows = make([]Row, len(peers))
	for i, p := range peers {
		r := &rows[i]
		*r = Row{Job: j.Name, N: j.Rows, Keys: j.Keys, Cores: cores, Peer: p.Name}
		if p.Skip != nil {
			if r.Skipped = p.Skip(); r.Skipped != "" {
				continue
			}
		}
		m, err := process(p)
		if err != nil {
			return nil, fmt.Errorf("%s, %s of %d keys: %w", p.Name, j.Name, j.Keys, err)
		}
		if want == nil {
			want, of = &m.Result, p.Name
		} else if m.Result != *want {
			return nil, fmt.Errorf("%s of %d keys: %s finds %+v, %s %+v", j.Name, j.Keys, of, *want,
				p.Name, m.Result)
		}
		r.TimesMS, r.Peak = m.TimesMS, m.Peak
		r.FirstMS, r.MaxMS = m.TimesMS[0], slices.Max(m.TimesMS)
		r.MedianMS = command.Median(slices.Clone(m.TimesMS))
		if p.Rival {
			first, median = append(first, r.FirstMS), append(median, r.MedianMS)
		}
		if p.Name == weftName {
			ours = r
		}
	}
	if ours != nil && first != nil {
		ours.First, ours.Median = slices.Min(first)/ours.FirstMS, slices.Min(median)/ours.MedianMS
	}
	return rows, nil
}

func measure(out io.Writer, j Job, peer string, runs int) error {
	peers := Peers()
	i := slices.IndexFunc(peers, func(p Peer) bool { return p.Name == peer })
	if i < 0 {
		return fmt.Errorf("no peer %q", peer)
	}
	j.Columns = j.draw()
	work, err := peers[i].Load(j)
	if err != nil {
		return err
	}
	j.Columns = Columns{}
	m, err := work.measure(runs)
	if err = errors.Join(err, work.Close()); err != nil {
		return err
	}
	return command.WriteJSON(out, m)
}

func (w *Work) measure(runs int) (m Measured, err error) {
	pid := w.PID
	if pid == 0 {
		pid = os.Getpid()
	}
	debug.FreeOSMemory() // the first run must not reuse memory that loading has freed
	if err := command.ResetPeak(pid); err != nil {
		return m, err
	}
	loaded, err := command.Memory(pid, "VmRSS")
	if err != nil {
		return m, err
	}
	for i := range runs {
		runtime.GC()
		start := time.Now()
		if err := w.Run(); err != nil {
			return m, err
		}
		m.TimesMS = append(m.TimesMS, time.Since(start).Seconds()*1e3)
		got, err := w.Result()
		if err != nil {
			return m, err
		}
		if i > 0 && got != m.Result {
			return m, fmt.Errorf("run %d finds %+v, those before it %+v", i, got, m.Result)
		}
		m.Result = got
	}
	m.Peak, err = command.Memory(pid, "VmHWM")
	m.Peak -= loaded
	return m, err
}
