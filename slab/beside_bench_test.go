package slab_test

import (
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/slab"
)

// BenchmarkBesideGo looks up 10^7 32-bit keys on one core, all present or all absent. It compares
// Go's map, this package at utilization 0.55, and linear at load 0.55, which takes as many bytes
// per entry.
//
//	go test ./slab -run '^$' -bench BesideGo -benchtime 3x -cpu 1
func BenchmarkBesideGo(b *testing.B) {
	const n = 10_000_000
	keys := conformance.Sequence[uint32](1, 2*n)
	rand.New(rand.NewPCG(1, 1)).Shuffle(2*n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	present, absent := keys[:n], keys[n:]
	rand.New(rand.NewPCG(2, 2)).Shuffle(n, func(i, j int) { present[i], present[j] = present[j], present[i] })
	vals := make([]uint32, n)

	b.Run("builtin", func(b *testing.B) {
		m := make(map[uint32]uint32, n)
		for i, k := range present {
			m[k] = uint32(i)
		}
		each(b, present, absent, func(keys []uint32) (hits int) {
			for i, k := range keys {
				v, ok := m[k]
				if vals[i] = v; ok {
					hits++
				}
			}
			return hits
		})
	})
	dev, err := cpu.Open(&cpu.Options{Workers: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	batches := func(b *testing.B, m *weft.Map[uint32, uint32]) {
		if _, err := m.Put(b.Context(), present, vals); err != nil {
			b.Fatal(err)
		}
		each(b, present, absent, func(keys []uint32) int {
			hits, err := m.Get(b.Context(), keys, vals, nil)
			if err != nil {
				b.Fatal(err)
			}
			return hits
		})
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("slab", func(b *testing.B) {
		m, err := slab.New[uint32, uint32](dev, &slab.Options{Capacity: n, MaxLoad: .55, Seed: 1})
		if err != nil {
			b.Fatal(err)
		}
		batches(b, m.Map)
	})
	b.Run("linear", func(b *testing.B) {
		m, err := linear.New[uint32, uint32](dev, &linear.Options{Capacity: n, MaxLoad: .55, Fixed: true, Seed: 1})
		if err != nil {
			b.Fatal(err)
		}
		batches(b, m.Map)
	})
}

func each(b *testing.B, present, absent []uint32, get func(keys []uint32) int) {
	for _, c := range []struct {
		name string
		keys []uint32
		hits int
	}{{"hit", present, len(present)}, {"miss", absent, 0}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if hits := get(c.keys); hits != c.hits {
					b.Fatal(hits)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(c.keys)), "ns/key")
		})
	}
}
