package main

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/cockroachdb/swiss"
	"github.com/puzpuzpuz/xsync/v4"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/linear"
)

// Map is a compared map from uint64 to uint64. Its methods take batches.
type Map interface {
	// Put inserts pairs. It may be called concurrently unless the peer has OneWriter.
	Put(keys, vals []uint64) error
	// Get looks up keys and writes vals and found. It may be called concurrently.
	Get(keys, vals []uint64, found []bool) (hits int, err error)
	// OffHeap returns the number of bytes outside of the garbage-collected heap.
	OffHeap() (int, error)
	Close() error
}

// Peer is a kind of map.
type Peer struct {
	Name string
	// New makes a map with capacity for n pairs that runs on the given number of cores.
	New func(n, cores int) (Map, error)
	// Batched means that the map distributes a batch to the cores itself. Other maps are called by
	// one goroutine per core, each with a part of the batch.
	Batched bool
	// OneWriter means that only one goroutine may call Put.
	OneWriter bool
}

// Peers returns the compared maps. Speedups refer to the first.
func Peers() []Peer {
	return []Peer{
		{Name: "builtin map", New: func(n, _ int) (Map, error) { return builtin(make(map[uint64]uint64, n)), nil }, OneWriter: true},
		{Name: "weft linear", New: newLinear, Batched: true},
		{Name: "256 x map + RWMutex", New: newSharded},
		{Name: "sync.Map", New: func(int, int) (Map, error) { return new(syncMap), nil }},
		{Name: "xsync v4", New: func(n, _ int) (Map, error) {
			return xsyncMap{xsync.NewMap[uint64, uint64](xsync.WithPresize(n))}, nil
		}},
		{Name: "cockroachdb swiss", New: func(n, _ int) (Map, error) { return swissMap{swiss.New[uint64, uint64](n)}, nil }, OneWriter: true},
	}
}

// onHeap implements the methods of maps that have all memory on the garbage-collected heap.
type onHeap struct{}

func (onHeap) OffHeap() (int, error) { return 0, nil }
func (onHeap) Close() error          { return nil }

// lookUp fills vals and found by a call of get per key.
func lookUp(keys, vals []uint64, found []bool, get func(uint64) (uint64, bool)) (hits int) {
	for i, k := range keys {
		vals[i], found[i] = get(k)
		if found[i] {
			hits++
		}
	}
	return hits
}

type builtin map[uint64]uint64

func (m builtin) Put(keys, vals []uint64) error {
	for i, k := range keys {
		m[k] = vals[i]
	}
	return nil
}

// Get does not use lookUp. A call per key would take a fifth of the time of a lookup, and all other
// maps are compared with this one.
func (m builtin) Get(keys, vals []uint64, found []bool) (hits int, err error) {
	for i, k := range keys {
		v, ok := m[k]
		vals[i], found[i] = v, ok
		if ok {
			hits++
		}
	}
	return hits, nil
}

func (builtin) OffHeap() (int, error) { return 0, nil }
func (builtin) Close() error          { return nil }

// weftMap is weft's table on the CPU, with all defaults except the size.
type weftMap struct {
	dev *cpu.Device
	m   *linear.Map[uint64, uint64]
}

func newLinear(n, cores int) (Map, error) {
	dev, err := cpu.Open(&cpu.Options{Workers: cores})
	if err != nil {
		return nil, err
	}
	m, err := linear.New[uint64, uint64](dev, &linear.Options{Capacity: n})
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return weftMap{dev, m}, nil
}

func (w weftMap) Put(keys, vals []uint64) error {
	_, err := w.m.Put(context.Background(), keys, vals)
	return err
}

func (w weftMap) Get(keys, vals []uint64, found []bool) (int, error) {
	return w.m.Get(context.Background(), keys, vals, found)
}

func (w weftMap) OffHeap() (int, error) {
	stats, err := w.m.Stats(context.Background())
	return stats.Bytes, err
}

func (w weftMap) Close() error { return errors.Join(w.m.Close(), w.dev.Close()) }

// sharded is a map in locked shards, as Go programs write it themselves.
type sharded struct {
	onHeap
	shards [256]struct {
		sync.RWMutex
		m map[uint64]uint64
		_ [64]byte // puts neighboring locks on different cache lines
	}
}

func newSharded(n, _ int) (Map, error) {
	s := new(sharded)
	for i := range s.shards {
		s.shards[i].m = make(map[uint64]uint64, n/len(s.shards))
	}
	return s, nil
}

// shard returns the high byte of a multiplicative hash.
func shard(k uint64) int { return int(k * 0x9e3779b97f4a7c15 >> 56) }

func (s *sharded) Put(keys, vals []uint64) error {
	for i, k := range keys {
		sh := &s.shards[shard(k)]
		sh.Lock()
		sh.m[k] = vals[i]
		sh.Unlock()
	}
	return nil
}

func (s *sharded) Get(keys, vals []uint64, found []bool) (int, error) {
	return lookUp(keys, vals, found, func(k uint64) (uint64, bool) {
		sh := &s.shards[shard(k)]
		sh.RLock()
		v, ok := sh.m[k]
		sh.RUnlock()
		return v, ok
	}), nil
}

type syncMap struct {
	onHeap
	m sync.Map
}

func (s *syncMap) Put(keys, vals []uint64) error {
	for i, k := range keys {
		s.m.Store(k, vals[i])
	}
	return nil
}

func (s *syncMap) Get(keys, vals []uint64, found []bool) (int, error) {
	return lookUp(keys, vals, found, func(k uint64) (uint64, bool) {
		v, ok := s.m.Load(k)
		if !ok {
			return 0, false
		}
		return v.(uint64), true
	}), nil
}

type xsyncMap struct{ m *xsync.Map[uint64, uint64] }

func (x xsyncMap) Put(keys, vals []uint64) error {
	for i, k := range keys {
		x.m.Store(k, vals[i])
	}
	return nil
}

func (x xsyncMap) Get(keys, vals []uint64, found []bool) (int, error) {
	return lookUp(keys, vals, found, x.m.Load), nil
}

func (xsyncMap) OffHeap() (int, error) { return 0, nil }
func (xsyncMap) Close() error          { return nil }

type swissMap struct{ m *swiss.Map[uint64, uint64] }

func (s swissMap) Put(keys, vals []uint64) error {
	for i, k := range keys {
		s.m.Put(k, vals[i])
	}
	return nil
}

func (s swissMap) Get(keys, vals []uint64, found []bool) (int, error) {
	return lookUp(keys, vals, found, s.m.Get), nil
}

func (swissMap) OffHeap() (int, error) { return 0, nil }
func (s swissMap) Close() error        { s.m.Close(); return nil }

// put and get distribute a batch to the cores as the peer requires.
func (p Peer) put(m Map, cores int, keys, vals []uint64) error {
	if p.Batched || p.OneWriter {
		cores = 1
	}
	return spread(cores, len(keys), func(lo, hi int) error { return m.Put(keys[lo:hi], vals[lo:hi]) })
}

func (p Peer) get(m Map, cores int, keys, vals []uint64, found []bool) (hits int, err error) {
	if p.Batched {
		cores = 1
	}
	var mu sync.Mutex
	err = spread(cores, len(keys), func(lo, hi int) error {
		h, err := m.Get(keys[lo:hi], vals[lo:hi], found[lo:hi])
		mu.Lock()
		hits += h
		mu.Unlock()
		return err
	})
	return hits, err
}

// spread calls body for equal parts of [0,n), each in a goroutine.
func spread(parts, n int, body func(lo, hi int) error) error {
	if parts == 1 {
		return body(0, n)
	}
	errs := make([]error, parts)
	var wg sync.WaitGroup
	for p := range parts {
		wg.Go(func() { errs[p] = body(p*n/parts, (p+1)*n/parts) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func allCores() int { return runtime.GOMAXPROCS(0) }
