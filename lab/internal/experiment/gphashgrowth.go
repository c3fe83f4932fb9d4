package experiment

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/workload"
)

// growth inserts keys into an index that grows. The keys have 8 bytes and derive from the counters
// 0, 1, 2 and so on. Values derive from keys.
type growth struct {
	*runner
	index     *gphash.Index
	valueSize int

	keys    int     // number of keys inserted
	seconds float64 // total time of the insertions
	stats   gphash.Stats

	numbers   []uint64
	keyColumn []byte
	vals      []byte
	found     []bool
}

func newGrowth(r *runner, x *gphash.Index) *growth {
	return &growth{runner: r, index: x, valueSize: x.ValueSize()}
}

// column makes n keys, which derive from the counters at(0) to at(n-1).
func (g *growth) column(n int, at func(i uint64) uint64) {
	g.numbers = slices.Grow(g.numbers[:0], n)[:n]
	for i := range g.numbers {
		g.numbers[i] = workload.Key[uint64](g.Seed, at(uint64(i)))
	}
	g.keyColumn = slices.Grow(g.keyColumn[:0], 8*n)[:8*n]
	g.vals = slices.Grow(g.vals[:0], g.valueSize*n)[:g.valueSize*n]
	g.found = slices.Grow(g.found[:0], n)[:n]
	for i, k := range g.numbers {
		binary.LittleEndian.PutUint64(g.keyColumn[8*i:], k)
	}
}

func (g *growth) value(i int) []byte { return g.vals[i*g.valueSize : (i+1)*g.valueSize] }

// insert inserts the next n keys and returns the time of the call.
func (g *growth) insert(ctx context.Context, n int) (elapsed time.Duration, err error) {
	g.column(n, func(i uint64) uint64 { return uint64(g.keys) + i })
	for i, k := range g.numbers {
		workload.RecordValue(g.value(i), k, 0)
	}
	start := time.Now()
	inserted, err := g.index.Put(ctx, g.keyColumn, g.vals)
	elapsed = time.Since(start)
	if err != nil {
		return elapsed, err
	}
	g.keys, g.seconds = g.keys+n, g.seconds+elapsed.Seconds()
	if inserted != n || g.index.Len() != g.keys {
		return elapsed, fmt.Errorf("%w: %d of %d new keys were inserted, %d are there", errWrong, inserted, n, g.index.Len())
	}
	g.stats, err = g.index.Stats(ctx)
	return elapsed, err
}

func (g *growth) fill(ctx context.Context, n int) error {
	for end := g.keys + n; g.keys < end; {
		if _, err := g.insert(ctx, min(loadBatch, end-g.keys)); err != nil {
			return err
		}
	}
	return nil
}

// lookups looks up g.keys keys in batches and in random order, and returns the total time. The keys
// derive from consecutive counters, and first is the lowest. want is the number of keys that must
// be present.
func (g *growth) lookups(ctx context.Context, first uint64, want int) (elapsed time.Duration, err error) {
	got, order := 0, workload.NewPermutation(uint64(g.keys), g.Seed)
	for lo := 0; lo < g.keys; lo += loadBatch {
		n := min(loadBatch, g.keys-lo)
		g.column(n, func(i uint64) uint64 { return first + order.At(uint64(lo)+i) })
		start := time.Now()
		hits, err := g.index.Get(ctx, g.keyColumn, g.vals, g.found)
		elapsed += time.Since(start)
		if err != nil {
			return 0, err
		}
		got += hits
		for i, k := range g.numbers {
			if g.found[i] && !workload.IsRecordValue(g.value(i), k, 0) {
				return 0, fmt.Errorf("%w: key %d has the value of another one", errWrong, k)
			}
		}
	}
	if got != want {
		return 0, fmt.Errorf("%w: %d keys were found, want %d", errWrong, got, want)
	}
	return elapsed, nil
}

// verify verifies that exactly the inserted keys are present.
func (g *growth) verify(ctx context.Context) error {
	if _, err := g.lookups(ctx, 0, g.keys); err != nil {
		return err
	}
	_, err := g.lookups(ctx, workload.Misses, 0)
	return err
}
