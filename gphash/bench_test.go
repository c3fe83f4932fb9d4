package gphash

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/hash"
)

// benchKeys is the number of keys of benchmarks, in batches of benchBatch.
const (
	benchKeys  = 1 << 20
	benchBatch = 1 << 17
)

// BenchmarkIndex measures an index in a file system in memory, per key, with 128-byte values.
func BenchmarkIndex(b *testing.B) {
	benchmarkIndex(b, Options{ValueSize: 128, Capacity: benchKeys, Size: 800 << 20})
}

// BenchmarkAtomic measures atomic batches in the setting of BenchmarkIndex.
func BenchmarkAtomic(b *testing.B) {
	benchmarkIndex(b, Options{ValueSize: 128, Capacity: benchKeys, Size: 800 << 20, AtomicBatch: benchBatch})
}

func benchmarkIndex(b *testing.B, o Options) {
	for _, size := range []int{8, 32} {
		keys, absent, values := make([]byte, benchKeys*size), make([]byte, benchKeys*size), make([]byte, benchKeys*128)
		for i := range benchKeys {
			binary.LittleEndian.PutUint64(keys[i*size:], hash.Uint64(uint64(i), 1))
			binary.LittleEndian.PutUint64(absent[i*size:], hash.Uint64(uint64(i), 2))
			binary.LittleEndian.PutUint64(values[i*128:], uint64(i))
		}
		path := filepath.Join(memoryDir(b), "pool")
		o.KeySize = size
		x, err := Create(path, openCPU(b), o)
		must(b, err)
		must(b, os.Remove(path))
		b.Cleanup(func() { must(b, x.Close()) })
		run := func(name string, before func(), f func(lo, hi int) error) {
			b.Run(fmt.Sprintf("%s/key=%d", name, size), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					before()
					b.StartTimer()
					for lo := 0; lo < benchKeys; lo += benchBatch {
						must(b, f(lo, lo+benchBatch))
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchKeys, "ns/key")
			})
		}
		part := func(of []byte, lo, hi, width int) []byte { return of[lo*width : hi*width] }
		put := func(lo, hi int) error {
			_, err := x.Put(ctx, part(keys, lo, hi, size), part(values, lo, hi, 128))
			return err
		}
		fill := func() {
			_, err := x.Put(ctx, keys, values)
			must(b, err)
		}
		run("Insert", func() { must(b, x.Clear(ctx)) }, put)
		run("Update", fill, put)
		run("Hit", fill, func(lo, hi int) error {
			_, err := x.Get(ctx, part(keys, lo, hi, size), part(values, lo, hi, 128), nil)
			return err
		})
		run("Miss", fill, func(lo, hi int) error {
			_, err := x.Get(ctx, part(absent, lo, hi, size), part(values, lo, hi, 128), nil)
			return err
		})
		run("Delete", fill, func(lo, hi int) error {
			_, err := x.Delete(ctx, part(keys, lo, hi, size), nil)
			return err
		})
	}
}

// BenchmarkStrings measures byte strings on any device, per key: 8 to 55 bytes, and values of 64 to
// 191.
func BenchmarkStrings(b *testing.B) {
	batches := make([]struct{ keys, absent, values Bytes }, benchKeys/benchBatch)
	buffer := make([]byte, 192)
	for i := range benchKeys {
		at := &batches[i/benchBatch]
		h := hash.Uint64(uint64(i), 1)
		binary.LittleEndian.PutUint64(buffer, h)
		at.keys.Append(buffer[:8+h%48])
		at.values.Append(buffer[:64+h>>8&127])
		binary.LittleEndian.PutUint64(buffer, hash.Uint64(uint64(i), 2))
		at.absent.Append(buffer[:8+h%48])
	}
	path := filepath.Join(memoryDir(b), "pool")
	x, err := CreateStrings(path, devicetest.Open(b), Options{Capacity: benchKeys, Size: 800 << 20})
	must(b, err)
	must(b, os.Remove(path))
	b.Cleanup(func() { must(b, x.Close()) })
	run := func(name string, before, f func(i int) error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				for i := range batches {
					must(b, before(i))
				}
				b.StartTimer()
				for i := range batches {
					must(b, f(i))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchKeys, "ns/key")
		})
	}
	put := func(i int) error {
		_, err := x.Put(ctx, batches[i].keys, batches[i].values)
		return err
	}
	var got Bytes
	run("Insert", func(int) error { return x.Clear(ctx) }, put)
	run("Update", put, put)
	run("Hit", put, func(i int) error {
		got.Reset()
		_, err := x.Get(ctx, batches[i].keys, &got, nil)
		return err
	})
	run("Miss", put, func(i int) error {
		got.Reset()
		_, err := x.Get(ctx, batches[i].absent, &got, nil)
		return err
	})
	run("Delete", put, func(i int) error {
		_, err := x.Delete(ctx, batches[i].keys, nil)
		return err
	})
}
