package join_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/join"
)

// sides returns rows whose keys are drawn from a number of random keys.
func sides(left, right, keys int, keyRange uint64) (l, r []int64) {
	rng := rand.New(rand.NewPCG(1, 2))
	key := func(of int) int64 { return int64(uint64(rng.IntN(of)) * keyRange) }
	l, r = make([]int64, left), make([]int64, right)
	for i := range l {
		l[i] = key(keys)
	}
	for i := range r {
		r[i] = key(keys)
	}
	return l, r
}

// 10 M rows join 5 M rows with 4 M keys, which gives 12.5 M pairs.
func BenchmarkJoin(b *testing.B) {
	const left, right, keys = 10_000_000, 5_000_000, 4_000_000
	for _, keyRange := range []struct {
		name string
		by   uint64
	}{{"far", 0x9e3779b97f4a7c15}, {"close", 1}} {
		l, r := sides(left, right, keys, keyRange.by)
		b.Run(fmt.Sprintf("weft/%s", keyRange.name), func(b *testing.B) { benchmarkWeft(b, l, r) })
		b.Run(fmt.Sprintf("map/%s", keyRange.name), func(b *testing.B) { benchmarkMap(b, l, r) })
	}
}

func benchmarkWeft(b *testing.B, l, r []int64) {
	dev, err := cpu.Open(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	ctx := context.Background()
	pairs, memory := 0, &allocMeter{Host: dev}
	for b.Loop() {
		pairs = 0
		ix, err := join.New(ctx, memory, []column.Column{column.Of(r)}, nil)
		if err != nil {
			b.Fatal(err)
		}
		for p, err := range ix.Inner(ctx, []column.Column{column.Of(l)}) {
			if err != nil {
				b.Fatal(err)
			}
			pairs += p.Len()
		}
		b.ReportMetric(float64(ix.Bytes()), "index-bytes")
		if err := ix.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(pairs*b.N)/b.Elapsed().Seconds()/1e6, "Mpairs/s")
	b.ReportMetric(float64(pairs), "pairs")
	b.ReportMetric(float64(memory.peak), "peak-bytes")
}

// allocMeter records the peak of memory in use.
type allocMeter struct {
	device.Host
	now, peak int
}

func (m *allocMeter) Alloc(size int) (device.Buffer, error) {
	m.now += size
	m.peak = max(m.peak, m.now)
	return m.Host.Alloc(size)
}

func (m *allocMeter) Free(b device.Buffer) error {
	m.now -= b.Size
	return m.Host.Free(b)
}

func benchmarkMap(b *testing.B, l, r []int64) {
	pairs := 0
	lefts, rights := make([]uint32, 0, 1<<18), make([]uint32, 0, 1<<18)
	for b.Loop() {
		pairs = 0
		m := make(map[int64][]uint32)
		for row, k := range r {
			m[k] = append(m[k], uint32(row))
		}
		for row, k := range l {
			for _, match := range m[k] {
				if len(lefts) == cap(lefts) {
					lefts, rights = lefts[:0], rights[:0]
				}
				lefts, rights = append(lefts, uint32(row)), append(rights, match)
				pairs++
			}
		}
	}
	b.ReportMetric(float64(pairs*b.N)/b.Elapsed().Seconds()/1e6, "Mpairs/s")
	b.ReportMetric(float64(pairs), "pairs")
}
