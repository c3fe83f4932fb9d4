package main

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/weftgo/weft/internal/workload"
)

// mixedBatch is the number of operations in a mixed batch. Half are lookups, a quarter inserts new
// keys, and a quarter deletes.
const mixedBatch = 1 << 20

// scanLength is the number of pairs per range.
const scanLength = 32

// data is the input of all maps.
type data struct {
	keys, sorted, vals  []uint64
	hits, misses, fresh []uint64
}

func newData(n int, seed uint64) *data {
	d := &data{
		keys: make([]uint64, n), vals: make([]uint64, n), hits: make([]uint64, n), misses: make([]uint64, n),
		fresh: make([]uint64, mixedBatch/4),
	}
	workload.Unique(d.keys, seed, 0)
	workload.Values(d.vals, d.keys)
	workload.Lookups(d.hits, seed, uint64(n), 1, seed+1)
	workload.Lookups(d.misses, seed, uint64(n), 0, seed+1)
	workload.Unique(d.fresh, seed, uint64(n))
	d.sorted = slices.Clone(d.keys)
	slices.Sort(d.sorted)
	return d
}

// operation is a measured series of count operations. All maps must return the same answer.
type operation struct {
	name  string
	count func(*data) int
	run   func(tree, *data) (answer uint64, err error)
	empty bool // begins with an empty map
}

var operations = []operation{
	{"load, unsorted", func(d *data) int { return len(d.keys) }, func(t tree, d *data) (uint64, error) { return t.load(d.keys, d.vals, false) }, true},
	{"lookup, hit", func(d *data) int { return len(d.hits) }, func(t tree, d *data) (uint64, error) { return t.get(d.hits) }, false},
	{"lookup, miss", func(d *data) int { return len(d.misses) }, func(t tree, d *data) (uint64, error) { return t.get(d.misses) }, false},
	{"range of 32", func(d *data) int { return len(d.hits) / 16 }, func(t tree, d *data) (uint64, error) { return t.scan(d.hits[:len(d.hits)/16]) }, false},
	{"mixed, batch of 2^20", func(*data) int { return mixedBatch }, func(t tree, d *data) (uint64, error) { return t.mixed(d.hits, d.fresh) }, false},
	{"load, sorted", func(d *data) int { return len(d.keys) }, func(t tree, d *data) (uint64, error) { return t.load(d.sorted, d.vals, true) }, true},
}

// measure runs all operations on all maps, one map after the other.
func measure(n, runs int, seed uint64) (rows []row, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	d := newData(n, seed)
	times := make([]map[string][]float64, len(operations))
	answers := make([]uint64, len(operations))
	for i := range times {
		times[i] = map[string][]float64{}
	}
	for range runs {
		for k, m := range maps {
			var t tree
			for i, o := range operations {
				if o.empty {
					if t, err = another(t, m); err != nil {
						return nil, err
					}
				}
				start := cpuTime()
				answer, err := o.run(t, d)
				took := float64((cpuTime() - start).Nanoseconds()) / float64(o.count(d))
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", m.name, o.name, err)
				}
				if k > 0 && answer != answers[i] {
					return nil, fmt.Errorf("%s: %s: the answers add up to %d, those of %s to %d", m.name, o.name, answer, maps[0].name, answers[i])
				}
				answers[i] = answer
				times[i][m.name] = append(times[i][m.name], took)
			}
			if err := t.close(); err != nil {
				return nil, err
			}
		}
	}
	for i, o := range operations {
		r := row{o.name, map[string]float64{}}
		for name, all := range times[i] {
			slices.Sort(all)
			r.NS[name] = all[len(all)/2]
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// cpuTime returns the CPU time of the process, which runs on one core. Other processes affect it
// only through caches and memory bandwidth.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// another closes a map, unless it is nil, and opens an empty one.
func another(t tree, m peer) (tree, error) {
	if t != nil {
		if err := t.close(); err != nil {
			return nil, err
		}
	}
	runtime.GC()
	return m.open()
}
