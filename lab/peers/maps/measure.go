package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/command"
)

// Row is the result of one peer at one size with one number of cores.
type Row struct {
	Peer  string `json:"peer"`
	N     int    `json:"n"`
	Cores int    `json:"cores"`
	// InsertNS, HitNS and MissNS are wall nanoseconds per operation, with all cores together. If
	// the peer has OneWriter, InsertNS is the time on one core.
	InsertNS float64 `json:"insert_ns"`
	HitNS    float64 `json:"hit_ns"`
	MissNS   float64 `json:"miss_ns"`
	// BytesPerEntry includes memory on the heap and outside of it.
	BytesPerEntry float64 `json:"bytes_per_entry"`
	// GCMS is the time that the map adds to a garbage collection, in milliseconds.
	GCMS float64 `json:"gc_ms"`
	// Speedups are the builtin map's time divided by this peer's time, for the same n and cores.
	InsertSpeedup float64 `json:"insert_speedup"`
	HitSpeedup    float64 `json:"hit_speedup"`
	MissSpeedup   float64 `json:"miss_speedup"`
}

// batch holds the keys that all peers use.
type batch struct {
	keys, vals, hits, misses, out []uint64
	found                         []bool
}

func newBatch(n int, seed uint64) *batch {
	b := &batch{
		keys: make([]uint64, n), vals: make([]uint64, n), hits: make([]uint64, n),
		misses: make([]uint64, n), out: make([]uint64, n), found: make([]bool, n),
	}
	workload.Unique(b.keys, seed, 0)
	workload.Values(b.vals, b.keys)
	workload.Lookups(b.hits, seed, uint64(n), 1, seed+1)
	workload.Lookups(b.misses, seed, uint64(n), 0, seed+1)
	return b
}

// Measure measures one peer. It returns the median of several runs, each with a new map.
func Measure(p Peer, b *batch, cores, runs int) (Row, error) {
	n := len(b.keys)
	var insert, hit, miss, bytes, gc []float64
	for range runs {
		before, idle := collect()
		m, err := p.New(n, cores)
		if err != nil {
			return Row{}, fmt.Errorf("%s: %w", p.Name, err)
		}
		times, err := p.run(m, b, cores)
		if err != nil {
			return Row{}, fmt.Errorf("%s, %d keys, %d cores: %w", p.Name, n, cores, err)
		}
		insert, hit, miss = append(insert, times[0]), append(hit, times[1]), append(miss, times[2])
		after, busy := collect()
		off, err := m.OffHeap()
		if err != nil {
			return Row{}, fmt.Errorf("%s: %w", p.Name, err)
		}
		bytes = append(bytes, (float64(after)-float64(before)+float64(off))/float64(n))
		gc = append(gc, max((busy-idle).Seconds()*1e3, 0))
		if err := m.Close(); err != nil {
			return Row{}, fmt.Errorf("%s: %w", p.Name, err)
		}
		runtime.KeepAlive(m)
	}
	return Row{
		Peer: p.Name, N: n, Cores: cores, InsertNS: command.Median(insert), HitNS: command.Median(hit), MissNS: command.Median(miss),
		BytesPerEntry: command.Median(bytes), GCMS: command.Median(gc),
	}, nil
}

// run times inserting, hits and misses in nanoseconds per operation, and checks the results.
func (p Peer) run(m Map, b *batch, cores int) (times [3]float64, err error) {
	n := len(b.keys)
	perOp := func(start time.Time) float64 { return float64(time.Since(start).Nanoseconds()) / float64(n) }

	start := time.Now()
	if err := p.put(m, cores, b.keys, b.vals); err != nil {
		return times, err
	}
	times[0] = perOp(start)
	for i, q := range []struct {
		keys []uint64
		want int
	}{{b.hits, n}, {b.misses, 0}} {
		start := time.Now()
		hits, err := p.get(m, cores, q.keys, b.out, b.found)
		if err != nil {
			return times, err
		}
		times[1+i] = perOp(start)
		if hits != q.want {
			return times, fmt.Errorf("%d keys found, want %d", hits, q.want)
		}
		for j, k := range q.keys {
			if b.found[j] && b.out[j] != workload.Value[uint64, uint64](k) {
				return times, fmt.Errorf("key %d has value %d", k, b.out[j])
			}
		}
	}
	return times, nil
}

// collect returns the live heap in bytes, and the time of a collection without garbage.
func collect() (live uint64, took time.Duration) {
	runtime.GC() // collects the garbage of earlier work
	start := time.Now()
	runtime.GC()
	took = time.Since(start)
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc, took
}

// compare sets the speedups, relative to the first peer's row of the same size and cores.
func compare(rows []Row) {
	for i := range rows {
		base := slices.IndexFunc(rows, func(r Row) bool {
			return r.Peer == rows[0].Peer && r.N == rows[i].N && r.Cores == rows[i].Cores
		})
		if base < 0 {
			continue
		}
		rows[i].InsertSpeedup = rows[base].InsertNS / rows[i].InsertNS
		rows[i].HitSpeedup = rows[base].HitNS / rows[i].HitNS
		rows[i].MissSpeedup = rows[base].MissNS / rows[i].MissNS
	}
}
