package shard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/mpi/comm"
)

// benchKeys is the number of keys in a call, on all ranks together. They are the keys of the map in
// another order.
const benchKeys = 10_000_000

// BenchmarkGet looks up 10^7 keys of a map with as many pairs: directly in the local map, and with
// 1 and 2 ranks.
func BenchmarkGet(b *testing.B) {
	b.Run("alone", func(b *testing.B) {
		m, err := linear.New[uint64, uint64](host, &linear.Options{Capacity: benchKeys, Seed: 1})
		if err != nil {
			b.Fatal(err)
		}
		defer m.Close()
		keys, vals := shuffled(0, 1), make([]uint64, benchKeys)
		if _, err := m.Put(b.Context(), keys, vals); err != nil {
			b.Fatal(err)
		}
		watch := stopwatch{b: b}
		for watch.loop() {
			if n, err := m.Get(b.Context(), keys, vals, nil); n != benchKeys || err != nil {
				b.Fatal(n, err)
			}
		}
	})
	for _, ranks := range []int{1, 2} {
		b.Run(fmt.Sprintf("ranks=%d", ranks), func(b *testing.B) {
			benchRanks(b, ranks, func(ctx context.Context, r *Ranks, loop func() bool) error {
				m := mapOf(r, &linear.Options{Capacity: benchKeys / ranks, Seed: 1})
				defer m.Close()
				keys := shuffled(r.rank, ranks)
				vals := make([]uint64, len(keys))
				if _, err := m.Put(ctx, keys, vals); err != nil {
					return err
				}
				for loop() {
					if n, err := m.Get(ctx, keys, vals, nil); n != benchKeys || err != nil {
						return fmt.Errorf("%d hits: %w", n, err)
					}
				}
				return nil
			})
		})
	}
}

// BenchmarkExchange moves 10^7 keys between all ranks: by AllToAllV alone, which copies them once,
// and with partitioning.
func BenchmarkExchange(b *testing.B) {
	for _, ranks := range []int{2, 64} {
		b.Run(fmt.Sprintf("ranks=%d/alltoallv", ranks), func(b *testing.B) {
			benchRanks(b, ranks, func(ctx context.Context, r *Ranks, loop func() bool) error {
				keys := shuffled(r.rank, ranks)
				to, parts := make([]uint64, len(keys)), make([]int64, ranks)
				for i := range parts {
					parts[i] = int64(len(keys) / ranks * 8)
				}
				for loop() {
					if err := r.comm.AllToAllV(ctx, comm.Host(raw(keys)), parts, comm.Host(raw(to)),
						parts); err != nil {
						return err
					}
				}
				return nil
			})
		})
		b.Run(fmt.Sprintf("ranks=%d/partitioned", ranks), func(b *testing.B) {
			benchRanks(b, ranks, func(ctx context.Context, r *Ranks, loop func() bool) error {
				keys := shuffled(r.rank, ranks)
				for loop() {
					x := r.open(sign(methodPut, 0, 0, 0, 0), new(owners))
					begin(ctx, x, keys, combineLast, false)
					sendColumn(x, keysOut, keys)
					if _, err := x.end(); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// benchRanks runs a body on ranks that share the cores. Rank 0 determines when the loops of all
// ranks end.
func benchRanks(
	b *testing.B, ranks int, body func(ctx context.Context, r *Ranks, loop func() bool) error,
) {
	onRanks(b, ranks, func(ctx context.Context, r *Ranks) error {
		dev, err := cpu.Open(&cpu.Options{Workers: max(1, host.Properties().Units/ranks)})
		if err != nil {
			return err
		}
		defer dev.Close()
		r.dev = dev
		watch := stopwatch{b: b}
		return body(ctx, r, func() bool {
			word := []uint64{0}
			if r.rank == 0 && watch.loop() {
				word[0] = 1
			}
			return r.comm.AllReduce(ctx, comm.Max, word) == nil && word[0] == 1
		})
	})
}

// stopwatch reports the rate of the fastest call, because slower calls were disturbed by other work
// on the machine.
type stopwatch struct {
	b     *testing.B
	start time.Time
	best  time.Duration
}

func (w *stopwatch) loop() bool {
	if d := time.Since(w.start); !w.start.IsZero() && (w.best == 0 || d < w.best) {
		w.best = d
	}
	more := w.b.Loop()
	if !more {
		w.b.ReportMetric(benchKeys/w.best.Seconds()/1e6, "Mkeys/s")
	}
	w.start = time.Now()
	return more
}

// shuffled returns a rank's share of the numbers 0 to benchKeys-1, in random order.
func shuffled(rank, ranks int) []uint64 {
	keys := make([]uint64, 0, benchKeys)
	for i, k := range rand.New(rand.NewPCG(1, 2)).Perm(benchKeys) {
		if i%ranks == rank {
			keys = append(keys, uint64(k))
		}
	}
	return keys
}

// BenchmarkGroup sums 10^7 rows in 10^5 groups, by group.By on all cores, and by 2 ranks that share
// the cores.
func BenchmarkGroup(b *testing.B) {
	aggs := []group.Aggregate{{Func: group.Sum}, {Func: group.Mean}}
	rows := func(rank, ranks int) Rows {
		keys := shuffled(rank, ranks)
		groups := make([]uint64, len(keys))
		for i, k := range keys {
			groups[i] = k % 100_000
		}
		return Rows{[]column.Column{column.Of(groups)}, []column.Column{column.Of(keys)}}
	}
	b.Run("alone", func(b *testing.B) {
		all := rows(0, 1)
		watch := stopwatch{b: b}
		for watch.loop() {
			if _, err := group.By(b.Context(), host, all.Keys, all.Columns, aggs, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, ranks := range []int{2, 7} {
		b.Run(fmt.Sprintf("ranks=%d", ranks), func(b *testing.B) {
			benchRanks(b, ranks, func(ctx context.Context, r *Ranks, loop func() bool) error {
				own := rows(r.rank, ranks)
				for loop() {
					if _, err := Group(ctx, r, inBatches(own), aggs, nil); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
