package btree_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// BenchmarkOn measures batches on the device, of maps of 10⁵ pairs, or 10⁶, 4·10⁷ and 10⁸ on a GPU.
// It reports 10⁹ operations per second:
//
//	WEFT_DEVICE=cuda go test ./btree -run '^$' -bench On -benchtime 10x
func BenchmarkOn(b *testing.B) {
	dev := devicetest.Open(b)
	sizes := []int{100_000}
	if dev.Properties().Kind == device.CUDA {
		sizes = []int{1_000_000, 40_000_000, 100_000_000}
	}
	for _, n := range sizes {
		b.Run(fmt.Sprintf("uint32,uint32/n=%d", n), func(b *testing.B) { benchmarkOn[uint32, uint32](b, dev, n) })
		b.Run(fmt.Sprintf("uint64,uint64/n=%d", n), func(b *testing.B) { benchmarkOn[uint64, uint64](b, dev, n) })
	}
}

// measurement is a map of n random pairs, and the memory of its batches.
type measurement[K, V ~uint32 | ~uint64] struct {
	m              *btree.Map[K, V]
	st             *device.Stream
	all, more, top device.Slice[K] // keys of the map; other keys; the largest key
	vals           device.Slice[V]
	ranks          device.Slice[uint64]
	counts         device.Slice[uint32]
	out            device.Slice[K]
	outVals        device.Slice[V]
}

// batches lists the sizes of changes. limit is the limit of ranges.
var batches = []int{1 << 16, 1 << 20, 1 << 22}

const limit = 8

func benchmarkOn[K, V ~uint32 | ~uint64](b *testing.B, dev device.Device, n int) {
	g := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []K {
		keys := make([]K, n)
		for i := range keys {
			keys[i] = K(g.Uint64())
		}
		return keys
	}
	few := batches[len(batches)-1]
	if dev.Properties().Kind != device.CUDA {
		few = batches[0]
	}
	x := &measurement[K, V]{st: devicetest.NewStream(b, dev), m: open[K, V](b, dev)}
	keys := random(max(n, few))
	x.all, x.more, x.top = devicetest.Upload(b, x.st, keys), devicetest.Upload(b, x.st, random(few)), devicetest.Upload(b, x.st, slices.Repeat([]K{^K(0)}, few))
	x.vals, x.ranks = devicetest.Upload(b, x.st, make([]V, len(keys))), devicetest.Upload(b, x.st, make([]uint64, len(keys)))
	x.counts, x.out, x.outVals = devicetest.Upload(b, x.st, make([]uint32, few)), devicetest.Upload(b, x.st, make([]K, limit*few)), devicetest.Upload(b, x.st, make([]V, limit*few))
	x.reads(b, n, few)
	for _, size := range batches {
		if size <= few {
			x.changes(b, size, "")
		}
	}
	un, err := btree.New[K, V](dev, &btree.Options{Unordered: true})
	must(b, err)
	defer un.Close()
	x.m = un
	must(b, un.BuildOn(x.st, x.all.Sub(0, n), x.vals.Sub(0, n)))
	for _, size := range batches {
		if size <= few {
			x.changes(b, size, "unordered ")
		}
	}
}

// reads measures a bulk load of n pairs, and lookups of all kinds in them.
func (x *measurement[K, V]) reads(b *testing.B, n, few int) {
	m, st, q := x.m, x.st, min(n, few)
	all, vals := x.all.Sub(0, n), x.vals.Sub(0, n)
	x.run(b, "build", n, nil, func() error {
		must(b, m.Clear(b.Context()))
		return m.BuildOn(st, all, vals)
	})
	x.run(b, "get", n, nil, func() error { return m.GetOn(st, all, vals, device.Slice[bool]{}) })
	x.run(b, "get 1048576", min(n, 1<<20), nil, func() error {
		return m.GetOn(st, all.Sub(0, min(n, 1<<20)), vals.Sub(0, min(n, 1<<20)), device.Slice[bool]{})
	})
	x.run(b, "miss", few, nil, func() error { return m.GetOn(st, x.more, x.vals.Sub(0, few), device.Slice[bool]{}) })
	x.run(b, "successor", q, nil, func() error {
		return m.SuccessorOn(st, all.Sub(0, q), x.out.Sub(0, q), device.Slice[V]{}, device.Slice[bool]{})
	})
	x.run(b, "range of 8", q, nil, func() error {
		return m.RangeFirstOn(st, all.Sub(0, q), x.top.Sub(0, q), limit, x.counts.Sub(0, q), x.out.Sub(0, limit*q), x.outVals.Sub(0, limit*q))
	})
	x.run(b, "rank", n, nil, func() error { return m.RankOn(st, all, x.ranks.Sub(0, n)) })
}

// changes measures a batch of new keys that are inserted, then updated and deleted.
func (x *measurement[K, V]) changes(b *testing.B, size int, prefix string) {
	keys, vals := x.more.Sub(0, size), x.vals.Sub(0, size)
	put := func() error { return x.m.PutOn(x.st, keys, vals) }
	del := func() error { return x.m.DeleteOn(x.st, keys, device.Slice[bool]{}) }
	x.run(b, fmt.Sprintf("%sinsert %d", prefix, size), size, del, put)
	must(b, put())
	x.run(b, fmt.Sprintf("%supdate %d", prefix, size), size, nil, put)
	x.run(b, fmt.Sprintf("%sdelete %d", prefix, size), size, put, del)
}

// run measures a call. It runs undo with the timer stopped.
func (x *measurement[K, V]) run(b *testing.B, name string, rows int, undo, call func() error) {
	b.Run(name, func(b *testing.B) {
		must(b, x.st.Sync(b.Context()))
		for b.Loop() {
			must(b, call())
			must(b, x.st.Sync(b.Context()))
			if undo != nil {
				b.StopTimer()
				must(b, undo())
				must(b, x.m.Sync(b.Context()))
				b.StartTimer()
			}
		}
		b.ReportMetric(float64(rows)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "G/s")
	})
}
