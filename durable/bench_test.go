package durable_test

import (
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/linear"
)

// BenchmarkPutOn replaces a million pairs in device memory: without a log, with one that the system
// syncs, and with one that is synced at each Sync.
func BenchmarkPutOn(b *testing.B) {
	const n = 1 << 20
	dev := devicetest.Open(b)
	newMap := func() (*linear.Map[uint64, uint64], error) {
		return linear.New[uint64, uint64](dev, &linear.Options{Capacity: 4 * n})
	}
	for _, c := range []struct {
		name string
		open func() (*linear.Map[uint64, uint64], error)
	}{
		{"no log", newMap},
		{"OS", func() (*linear.Map[uint64, uint64], error) {
			return durable.Open(ctx, b.TempDir(), newMap, durable.Options{Sync: durable.OS, LogLimit: 1 << 40})
		}},
		{"every batch", func() (*linear.Map[uint64, uint64], error) {
			return durable.Open(ctx, b.TempDir(), newMap, durable.Options{LogLimit: 1 << 40})
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			m, err := c.open()
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			s, err := dev.NewStream()
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			rng, all := rand.New(rand.NewPCG(1, 2)), make([]uint64, n)
			for i := range all {
				all[i] = rng.Uint64()
			}
			keys, err := device.Upload(s, all)
			if err != nil {
				b.Fatal(err)
			}
			defer keys.Free()
			b.SetBytes(16 * n)
			for b.Loop() {
				if err := m.PutOn(s, keys, keys); err != nil {
					b.Fatal(err)
				}
				if c.name == "OS" { // Sync would sync the log
					err = s.Sync(ctx)
				} else {
					err = m.Sync(ctx)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
