package ordered_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/ordered"
)

// BenchmarkOn measures batches on the device, of maps of 10⁶ pairs, and on a GPU also of 10⁸. It
// reports 10⁹ operations per second:
//
//	WEFT_DEVICE=cuda go test ./ordered -run '^$' -bench On
func BenchmarkOn(b *testing.B) {
	dev := devicetest.Open(b)
	sizes := []int{1_000_000}
	if dev.Properties().Kind == device.CUDA {
		sizes = append(sizes, 100_000_000)
	}
	for _, n := range sizes {
		b.Run(fmt.Sprintf("uint32,uint32/n=%d", n), func(b *testing.B) { benchmarkOn[uint32, uint32](b, dev, n) })
		b.Run(fmt.Sprintf("uint64,uint64/n=%d", n), func(b *testing.B) { benchmarkOn[uint64, uint64](b, dev, n) })
	}
}

// benchmarkOn measures building a map of n random pairs, lookups of all its keys and of as many
// others, ranks, and queries of up to 1<<22 keys. It also measures batches that insert keys, with
// and without an open snapshot, batches that delete keys, and mixed batches. Each of these begins
// with the map as built, with the timer stopped. -benchtime 10x is enough.
func benchmarkOn[K, V ~uint32 | ~uint64](b *testing.B, dev device.Device, n int) {
	g := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []K {
		keys := make([]K, n)
		for i := range keys {
			keys[i] = K(g.Uint64())
		}
		return keys
	}
	const few, limit = 1 << 24, 32
	st := devicetest.NewStream(b, dev)
	all, absent := devicetest.Upload(b, st, random(n)), devicetest.Upload(b, st, random(n))
	more, top := devicetest.Upload(b, st, random(few)), devicetest.Upload(b, st, slices.Repeat([]K{^K(0)}, few/4))
	vals, ranks := devicetest.Upload(b, st, make([]V, max(n, few))), devicetest.Upload(b, st, make([]uint64, n))
	counts, out, outVals := devicetest.Upload(b, st, make([]uint32, few/4)), devicetest.Upload(b, st, make([]K, limit*few/4)), devicetest.Upload(b, st, make([]V, limit*few/4))
	offsets := devicetest.Upload(b, st, make([]uint64, few/4+1))
	kinds := make([]weft.OpKind, few)
	for i := range kinds {
		kinds[i] = []weft.OpKind{weft.OpGet, weft.OpPut}[i%2]
	}
	mixed := devicetest.Upload(b, st, kinds)
	m := conformance.Open(b, ordered.New[K, V], dev, nil)
	measure := func(name string, rows int, before, call func() error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				must(b, before())
				must(b, st.Sync(b.Context()))
				b.StartTimer()
				must(b, call())
				must(b, st.Sync(b.Context()))
			}
			b.ReportMetric(float64(rows)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "G/s")
		})
	}
	nop := func() error { return nil }
	build := func() error {
		return errors.Join(m.Clear(b.Context()), m.BuildOn(st, all, vals.Sub(0, n)), m.Sync(b.Context()))
	}
	var held *weft.Snapshot[K, V]
	release := func() (err error) {
		if held != nil {
			err = held.Close()
		}
		held = nil
		return err
	}
	hold := func() (err error) {
		must(b, release())
		held, err = m.Snapshot(b.Context())
		return err
	}
	measure("build", n, nop, build)
	measure("hit", n, nop, func() error { return m.GetOn(st, all, vals.Sub(0, n), device.Slice[bool]{}) })
	measure("miss", n, nop, func() error { return m.GetOn(st, absent, vals.Sub(0, n), device.Slice[bool]{}) })
	measure("rank", n, nop, func() error { return m.RankOn(st, all, ranks) })
	q := min(n, few/4)
	outKeys := out.Sub(0, q)
	measure("select", q, nop, func() error { return m.SelectOn(st, ranks.Sub(0, q), outKeys, outVals.Sub(0, q), device.Slice[bool]{}) })
	measure("successor", q, nop, func() error {
		return m.SuccessorOn(st, all.Sub(0, q), outKeys, outVals.Sub(0, q), device.Slice[bool]{})
	})
	for _, pairs := range []int{8, limit} {
		measure(fmt.Sprintf("range of %d", pairs), q, nop, func() error {
			return m.RangeFirstOn(st, all.Sub(0, q), top.Sub(0, q), pairs, counts.Sub(0, q), out.Sub(0, pairs*q), outVals.Sub(0, pairs*q))
		})
		measure(fmt.Sprintf("rows of %d", pairs), q, nop, func() error {
			return m.RangeOn(st, all.Sub(0, q), top.Sub(0, q), pairs, counts.Sub(0, q), offsets.Sub(0, q+1), out.Sub(0, pairs*q), outVals.Sub(0, pairs*q))
		})
	}
	for _, size := range []int{1 << 20, 1 << 22, few} {
		keys, with := more.Sub(0, size), vals.Sub(0, size)
		measure(fmt.Sprintf("insert %d", size), size, build, func() error { return m.PutOn(st, keys, with) })
		measure(fmt.Sprintf("insert %d beside a snapshot", size), size, func() error { return errors.Join(build(), hold()) }, func() error { return m.PutOn(st, keys, with) })
		must(b, release())
		removed := all.Sub(0, min(n, size))
		measure(fmt.Sprintf("delete %d", size), removed.Len(), build, func() error { return m.DeleteOn(st, removed, device.Slice[bool]{}) })
		measure(fmt.Sprintf("mixed %d", size), size, build, func() error { return m.ApplyOn(st, mixed.Sub(0, size), keys, with, device.Slice[bool]{}) })
	}
}
