package gphash

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/hash"
)

// BenchmarkInsertOnGPU measures insertions by a GPU, per key, in batches of 2^20 on the device,
// with 8-byte keys and 128-byte values. It runs single operations as in the paper, single
// operations with a mirror, and atomic batches. The pool has 2^23 keys at the end.
func BenchmarkInsertOnGPU(b *testing.B) {
	const batchOps, batches = 1 << 20, 8
	dev := devicetest.Open(b)
	if _, host := dev.(device.Host); host {
		b.Skip("for GPUs")
	}
	s, err := dev.NewStream()
	must(b, err)
	b.Cleanup(func() { must(b, s.Close()) })
	keys := make([]byte, 8*batchOps*batches)
	for i := range batchOps * batches {
		binary.LittleEndian.PutUint64(keys[8*i:], hash.Uint64(uint64(i), 1))
	}
	on, err := device.Upload(s, keys)
	must(b, err)
	b.Cleanup(func() { must(b, on.Free()) })
	values, err := device.Make[byte](dev, 128*batchOps)
	must(b, err)
	b.Cleanup(func() { must(b, values.Free()) })
	must(b, s.Fill(values.Ptr(), 0x01020304, 32*batchOps))
	for _, m := range []struct {
		name string
		o    Options
	}{
		{"operations", Options{}},
		{"operations,mirror", Options{Mirror: true}},
		{"atomic", Options{AtomicBatch: batchOps}},
		{"atomic,tail=2^22", Options{AtomicBatch: batchOps, AtomicTail: 1 << 22}},
		{"atomic,tail=2^24", Options{AtomicBatch: batchOps, AtomicTail: 1 << 24}},
	} {
		b.Run(m.name, func(b *testing.B) {
			o, path := m.o, filepath.Join(memoryDir(b), "pool")
			o.KeySize, o.ValueSize, o.Capacity, o.Size, o.Hash = 8, 128, batchOps*batches, 4<<30, Fast
			x, err := Create(path, dev, o)
			must(b, err)
			must(b, os.Remove(path))
			defer func() { must(b, x.Close()) }()
			for b.Loop() {
				b.StopTimer()
				must(b, x.Clear(ctx))
				b.StartTimer()
				for i := range batches {
					must(b, x.PutOn(s, on.Sub(8*batchOps*i, 8*batchOps*(i+1)), values))
					must(b, x.Sync(ctx))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(batchOps*batches), "ns/key")
		})
	}
}
