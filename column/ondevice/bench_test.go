package ondevice_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/column/ondevice"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// BenchmarkPartition measures rows per second on the device that WEFT_DEVICE names, and a copy of
// its memory.
func BenchmarkPartition(b *testing.B) {
	dev := devicetest.Open(b)
	n := 1 << 22
	if dev.Properties().Kind != device.CPU {
		n = 1 << 27
	}
	s := devicetest.NewStream(b, dev)
	rng := rand.New(rand.NewPCG(1, 2))
	ints := make([]int64, n)
	for i := range ints {
		ints[i] = rng.Int64()
	}
	keys := devicetest.Upload(b, s, ints)
	hashes := devicetest.Upload(b, s, make([]uint64, n))
	c := column.OfSlice(keys)
	rate := func(b *testing.B, work func() error) {
		for b.Loop() {
			if err := work(); err != nil {
				b.Fatal(err)
			}
			if err := s.Sync(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)*float64(n)/b.Elapsed().Seconds()/1e9, "Grows/s")
	}
	b.Run("copy", func(b *testing.B) {
		rate(b, func() error { return s.Copy(hashes.Ptr(), keys.Ptr(), 8*n) })
	})
	b.Run("hash", func(b *testing.B) {
		rate(b, func() error { return ondevice.Hash(s, []column.On{c}, 0, hashes) })
	})
	for _, columns := range []int{1, 2} {
		for _, parts := range []int{8, 64, 1024, 65536} {
			b.Run(fmt.Sprintf("%d/%d", columns, parts), func(b *testing.B) {
				rate(b, func() error {
					opts := column.PartitionOptions{Parts: parts}
					p, err := ondevice.Partition(b.Context(), s, []column.On{c, c}[:columns], opts)
					if err != nil {
						return err
					}
					return p.Free()
				})
			})
		}
	}
	opts := column.PartitionOptions{Parts: 64}
	parts, err := ondevice.Partition(b.Context(), s, []column.On{c}, opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("take", func(b *testing.B) {
		rate(b, func() error {
			taken, err := ondevice.Take(s, c, parts.Rows)
			if err != nil {
				return err
			}
			if err := s.Sync(context.Background()); err != nil {
				return err
			}
			return taken.Free()
		})
	})
	if err := parts.Free(); err != nil {
		b.Fatal(err)
	}
}
