package shard

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cuda"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/mpi/comm"
)

var (
	onKeys  = flag.Int("onkeys", 100_000_000, "pairs of each rank in BenchmarkOn")
	onBatch = flag.Int("onbatch", 10_000_000, "rows of a batch of each rank in BenchmarkOn")
)

// BenchmarkOn looks up and changes pairs of maps on all GPUs, with one rank per GPU:
//
//	WEFT_DEVICE=cuda ./shard.test -test.run '^$' -test.bench On -test.benchtime 20x
func BenchmarkOn(b *testing.B) {
	if os.Getenv(devicetest.Variable) != "cuda" {
		b.Skip("needs a GPU")
	}
	gpus, err := cuda.Devices()
	if err != nil {
		b.Fatal(err)
	}
	of := deviceOf(b)
	for _, ranks := range []int{1, len(gpus), 2 * len(gpus)} {
		b.Run(fmt.Sprintf("ranks=%d", ranks), func(b *testing.B) {
			benchMapOn[uint32, uint32](b, "32_32", ranks, of)
			benchMapOn[uint64, uint64](b, "64_64", ranks, of)
			benchAllToAllOn(b, ranks, of)
		})
	}
}

// numbered returns n distinct keys that are spread over the whole key type. Ranks pass different
// lo.
func numbered[K weft.Key](lo, n int) []K {
	keys := make([]K, n)
	for i := range keys {
		// the factor is odd, so keys are distinct in any width
		keys[i] = K(uint64(lo+i) * 0x9e3779b97f4a7c15)
	}
	return keys
}

// benchMapOn measures a map on all ranks.
func benchMapOn[K weft.Key, V weft.Value](
	b *testing.B,
	name string,
	ranks int,
	of func(int) device.Device,
) {
	for _, what := range []string{"get", "put", "put_unordered", "exchange", "alone"} {
		if what == "alone" && ranks > 1 || what == "exchange" && ranks == 1 {
			continue
		}
		b.Run(name+"/"+what, func(b *testing.B) {
			onDevices(b, ranks, of, func(ctx context.Context, r *rankOn) error {
				perDevice := max(1, ranks/devices())
				n, batch := *onKeys/perDevice, *onBatch/perDevice
				shard, err := linear.New[K, V](
					r.dev,
					&linear.Options{Capacity: n + n/50, Unordered: what == "put_unordered"},
				)
				if err != nil {
					return err
				}
				m := NewMap(r.Ranks, shard)
				defer m.Close()
				var k device.Slice[K]
				v := sent(r, make([]V, batch))
				defer func() { read(r, k); read(r, v) }()
				for lo := 0; lo < n; lo += batch {
					if lo > 0 {
						read(r, k)
					}
					k = sent(r, numbered[K](r.Rank()*n+lo, batch))
					if err := m.PutOn(ctx, r.s, k, v); err != nil {
						return err
					}
				}
				if err := m.Sync(ctx); err != nil {
					return err
				}
				return timed(ctx, b, r, batch, func() error {
					switch what {
					case "get":
						return m.GetOn(ctx, r.s, k, v, device.Slice[bool]{})
					case "put", "put_unordered":
						return m.PutOn(ctx, r.s, k, v)
					case "exchange": // keys only
						none := func(*exchangeOn[K]) {}
						return callOn(ctx, &m.table, r.s, methodGet, 0, k, device.Slice[bool]{}, true, none)
					}
					return shard.GetOn(r.s, k, v, device.Slice[bool]{})
				})
			})
		})
	}
}

// devices returns the number of GPUs.
func devices() int {
	gpus, err := cuda.Devices()
	if err != nil {
		panic(err)
	}
	return len(gpus)
}

// benchAllToAllOn measures an exchange of the same number of keys and nothing else.
func benchAllToAllOn(b *testing.B, ranks int, of func(int) device.Device) {
	if ranks == 1 {
		return
	}
	b.Run("alltoallv", func(b *testing.B) {
		onDevices(b, ranks, of, func(ctx context.Context, r *rankOn) error {
			bytes := *onBatch * 4
			out, in := sent(r, make([]byte, bytes)), sent(r, make([]byte, bytes))
			defer func() { read(r, out); read(r, in) }()
			parts := make([]int64, ranks)
			for i := range parts {
				parts[i] = int64(bytes / ranks)
			}
			return timed(ctx, b, r, *onBatch, func() error {
				return r.comm.AllToAllV(
					ctx,
					comm.Buf{On: out, Stream: r.s},
					parts,
					comm.Buf{On: in, Stream: r.s},
					parts,
				)
			})
		})
	})
}

// timed runs a call b.N times on all ranks and reports the rows per second of each rank.
func timed(ctx context.Context, b *testing.B, r *rankOn, rows int, call func() error) error {
	run := func(n int) error {
		for range n {
			if err := call(); err != nil {
				return err
			}
		}
		if err := r.s.Sync(ctx); err != nil {
			return err
		}
		return r.comm.Barrier(ctx)
	}
	if err := run(1); err != nil {
		return err
	}
	if r.Rank() == 0 {
		b.ResetTimer()
	}
	err := run(b.N)
	if r.Rank() == 0 {
		b.StopTimer()
		b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Grows/s/rank")
	}
	return err
}
