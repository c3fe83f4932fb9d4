package intern

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/durable"
)

// data is a named column of n rows.
type data struct {
	name string
	n    int
	make func(n int) column.Column
}

// benchLines returns n lines of some 60 bytes, as in a log of requests, drawn from n/2 lines.
func benchLines(n int) column.Column {
	rng := rand.New(rand.NewPCG(1, 2))
	var text []byte
	offsets := []int64{0}
	for range n {
		k := rng.IntN(n / 2)
		text = fmt.Appendf(text, "GET /api/v1/items/%d?session=%016x HTTP/1.1", k, uint64(k)*0x9e3779b97f4a7c15)
		offsets = append(offsets, int64(len(text)))
	}
	return must(column.OfOffsets(offsets, text))
}

// benchWords returns words, drawn from a million with the frequencies of natural text.
func benchWords(n int) column.Column {
	rng := rand.New(rand.NewPCG(3, 4))
	zipf := rand.NewZipf(rng, 1.1, 2, 1_000_000)
	var text []byte
	offsets := []int64{0}
	for range n {
		k := zipf.Uint64()
		word := fmt.Appendf(nil, "%x", k*0x9e3779b97f4a7c15)
		text = append(text, word[:min(len(word), 2+int(k%11))]...)
		offsets = append(offsets, int64(len(text)))
	}
	return must(column.OfOffsets(offsets, text))
}

func benchWide(width int) func(n int) column.Column {
	return func(n int) column.Column {
		rng := rand.New(rand.NewPCG(5, 6))
		raw := make([]byte, n*width)
		for i := range n {
			k := uint64(rng.IntN(n / 2))
			for j := 0; j < width; j += 8 {
				k = k*0x9e3779b97f4a7c15 + 1
				binary.LittleEndian.PutUint64(raw[i*width+j:], k)
			}
		}
		return must(column.OfWidth(width, raw))
	}
}

func benchInts(n int) column.Column {
	rng := rand.New(rand.NewPCG(7, 8))
	keys := make([]int64, n)
	for i := range keys {
		keys[i] = int64(uint64(rng.IntN(n/2)) * 0x9e3779b97f4a7c15)
	}
	return column.Of(keys)
}

var datas = []data{
	{"lines", 4_000_000, benchLines}, // some 240 MB
	{"words", 8_000_000, benchWords},
	{"16 bytes", 8_000_000, benchWide(16)},
	{"32 bytes", 8_000_000, benchWide(32)},
	{"int64", 20_000_000, benchInts}, // 8.6 million are different
}

// BenchmarkTable adds columns to an empty table, and to Go maps.
func BenchmarkTable(b *testing.B) {
	for _, d := range datas {
		b.Run(d.name, func(b *testing.B) {
			c := d.make(d.n)
			dev, err := cpu.Open(nil)
			if err != nil {
				b.Fatal(err)
			}
			defer dev.Close()
			empty := func() (*Table, error) { return New(dev, nil) }
			b.Run("weft", func(b *testing.B) { benchTable(b, c, empty) })
			b.Run("off heap", func(b *testing.B) {
				opts := &Options{OffHeap: true}
				benchTable(b, c, func() (*Table, error) { return New(dev, opts) })
			})
			b.Run("durable", func(b *testing.B) {
				benchTable(b, c, func() (*Table, error) {
					opts := durable.Options{Sync: durable.OS, LogLimit: 1 << 40}
					return durable.Open(b.Context(), b.TempDir(), empty, opts)
				})
			})
			if c.Type() == column.Bytes {
				b.Run("map[string]struct{}", func(b *testing.B) { benchSet(b, c) })
				b.Run("map[string]uint32", func(b *testing.B) { benchMap(b, c) })
			} else {
				b.Run("map[int64]uint32", func(b *testing.B) { benchIntMap(b, column.Values[int64](c)) })
			}
		})
	}
}

func benchTable(b *testing.B, c column.Column, open func() (*Table, error)) {
	ids := make([]uint32, c.Len())
	used, distinct := int64(0), 0
	for b.Loop() {
		t, err := open()
		if err != nil {
			b.Fatal(err)
		}
		if c.Type() == column.Bytes {
			_, err = t.Column(b.Context(), c, ids)
		} else {
			_, err = t.Rows(b.Context(), []column.Column{c}, ids)
		}
		if err != nil {
			b.Fatal(err)
		}
		if used, err = t.Memory(b.Context()); err != nil {
			b.Fatal(err)
		}
		distinct = t.Len()
		if t.journal != nil { // Close syncs the log
			b.StopTimer()
		}
		if err := t.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	report(b, c.Len(), used, distinct)
}

func report(b *testing.B, n int, used int64, distinct int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
	b.ReportMetric(float64(used)/float64(distinct), "B/key")
	b.ReportMetric(float64(distinct), "keys")
}

// heap returns by how much f makes the heap grow.
func heap(f func()) int64 {
	var before, behind runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.GC()
	runtime.ReadMemStats(&behind)
	return int64(behind.HeapAlloc) - int64(before.HeapAlloc)
}

func benchSet(b *testing.B, c column.Column) {
	var m map[string]struct{}
	used := heap(func() {
		for b.Loop() {
			m = make(map[string]struct{})
			for i := range c.Len() {
				k := c.Bytes(i)
				if _, ok := m[string(k)]; !ok {
					m[string(k)] = struct{}{}
				}
			}
		}
	})
	report(b, c.Len(), used, len(m))
}

func benchMap(b *testing.B, c column.Column) {
	var m map[string]uint32
	ids := make([]uint32, c.Len())
	used := heap(func() {
		for b.Loop() {
			m = make(map[string]uint32)
			for i := range ids {
				k := c.Bytes(i)
				id, ok := m[string(k)]
				if !ok {
					id = uint32(len(m))
					m[string(k)] = id
				}
				ids[i] = id
			}
		}
	})
	report(b, c.Len(), used, len(m))
}

func benchIntMap(b *testing.B, keys []int64) {
	var m map[int64]uint32
	ids := make([]uint32, len(keys))
	used := heap(func() {
		for b.Loop() {
			m = make(map[int64]uint32)
			for i, k := range keys {
				id, ok := m[k]
				if !ok {
					id = uint32(len(m))
					m[k] = id
				}
				ids[i] = id
			}
		}
	})
	report(b, len(keys), used, len(m))
}
