package linear_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// grouped returns a batch with the given number of rows in some groups. Each value is 1.
func grouped(rows, groups int) (keys, vals []int64) {
	keys, vals = make([]int64, rows), make([]int64, rows)
	for i := range keys {
		keys[i], vals[i] = int64(i*i%groups), 1
	}
	return keys, vals
}

func openWorkers(t *testing.T, workers int, opts *linear.Options) *linear.Map[int64, int64] {
	dev, err := cpu.Open(&cpu.Options{Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return conformance.Open(t, linear.New[int64, int64], dev, opts)
}

// Rows that overflow must be counted individually, although rows with equal keys are combined
// before they reach the table. All other rows must be present.
func TestReduceOfFewGroupsThatDoNotFit(t *testing.T) {
	for _, workers := range []int{1, 4} {
		m := openWorkers(t, workers, &linear.Options{Capacity: 40, Fixed: true, MaxLoad: 1})
		keys, vals := grouped(300_000, 1009)
		n, err := m.Reduce(t.Context(), keys, vals, weft.Sum)
		var p *weft.PartialError
		if !errors.Is(err, weft.ErrFull) || !errors.As(err, &p) || p.Done != len(keys) || n != m.Len() || n < 40 {
			t.Fatalf("%d new keys, Len is %d: %v", n, m.Len(), err)
		}
		sum := int64(0)
		for _, v := range m.All() {
			sum += v
		}
		if sum+int64(p.Failed) != int64(len(keys)) {
			t.Errorf("%d rows are there and %d failed, of %d", sum, p.Failed, len(keys))
		}
	}
}

type failingDevice struct {
	*cpu.Device
	spent bool
}

func (d *failingDevice) Alloc(size int) (device.Buffer, error) {
	if d.spent {
		return device.Buffer{}, device.ErrMemory
	}
	return d.Device.Alloc(size)
}

// Without memory to grow, the table must hold exactly the first Done rows of the batch, except
// those that failed.
func TestReduceWithoutMemory(t *testing.T) {
	host, err := cpu.Open(&cpu.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	dev := &failingDevice{Device: host}
	m := conformance.Open(t, linear.New[int64, int64], device.Device(dev), &linear.Options{Capacity: 5000})
	dev.spent = true
	rows := 1 << 19
	if conformance.Raced {
		rows = 1 << 16 // each dropped row searches a whole path
	}
	keys, vals := grouped(rows, 20_011)
	n, err := m.Reduce(t.Context(), keys, vals, weft.Sum)
	var p *weft.PartialError
	if !errors.As(err, &p) || n != m.Len() || n < 5000 {
		t.Fatalf("%d new keys, Len is %d: %v", n, m.Len(), err)
	}
	sum := int64(0)
	for _, v := range m.All() {
		sum += v
	}
	if sum != int64(p.Done-p.Failed) {
		t.Errorf("%d rows are there, though %d are said to be done and %d failed", sum, p.Done, p.Failed)
	}
}

// In a full table of fixed size, or one that fills up, a cancelled batch must stop soon: no piece
// may search the whole table for each row.
func TestReduceIntoFullTableStops(t *testing.T) {
	slots := 1 << 18
	if conformance.Raced {
		slots = 1 << 15 // the number of slots on a path
	}
	rows, keys := make([]int64, 2*slots), make([]int64, slots)
	for i := range rows {
		rows[i] = int64(i) + 1<<40
	}
	for i := range keys {
		keys[i] = int64(i)
	}
	for _, filled := range []int{slots, slots * 79 / 100} {
		m := openWorkers(t, 2, &linear.Options{Capacity: slots, MaxLoad: 1, Fixed: true})
		// Some of the keys crowd.
		if _, err := m.Put(t.Context(), keys[:filled], keys[:filled]); unlessFull(err) != nil {
			t.Fatal(err)
		}
		conformance.StopsOnCancel(t, []conformance.Stoppable{
			{Name: fmt.Sprintf("Reduce %d", filled), Run: func(ctx context.Context) error {
				_, err := m.Reduce(ctx, rows, rows, weft.Sum)
				return unlessFull(err)
			}},
			{Name: fmt.Sprintf("Put %d", filled), Run: func(ctx context.Context) error { _, err := m.Put(ctx, rows, rows); return unlessFull(err) }},
		})
	}
}

// unlessFull returns nil if the error reports only that the table is full.
func unlessFull(err error) error {
	if errors.Is(err, weft.ErrFull) && !errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

type countingContext struct {
	context.Context
	left atomic.Int64
}

func (c *countingContext) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A cancelled call must have applied the first Done rows of the batch and no others, although it
// combines rows from the whole batch.
func TestReduceStops(t *testing.T) {
	t.Run("few groups", func(t *testing.T) { reduceStops(t, 1009, 24) })
	t.Run("many groups", func(t *testing.T) { reduceStops(t, 900_007, 8) })
}

func reduceStops(t *testing.T, groups int, calls int64) {
	if conformance.Raced {
		calls = 5
	}
	keys, vals := grouped(1_200_000, groups)
	stopped := 0
	for maxChecks := range calls {
		m := openWorkers(t, 4, nil)
		ctx := &countingContext{Context: t.Context()}
		ctx.left.Store(maxChecks)
		_, err := m.Reduce(ctx, keys, vals, weft.Sum)
		done := len(keys)
		var p *weft.PartialError
		if errors.As(err, &p) && errors.Is(err, context.Canceled) {
			done = p.Done
			stopped++
		} else if err != nil {
			t.Fatal(err)
		}
		want := map[int64]int64{}
		for i, k := range keys[:done] {
			want[k] += vals[i]
		}
		n := 0
		for k, v := range m.All() {
			if n++; want[k] != v {
				t.Fatalf("of %d rows, key %d has %d, want %d", done, k, v, want[k])
			}
		}
		if n != len(want) {
			t.Fatalf("of %d rows, %d keys are there, want %d", done, n, len(want))
		}
	}
	if stopped < 3 {
		t.Errorf("%d of %d calls were stopped", stopped, calls)
	}
}

// Whether a batch is looked up before the table grows must depend only on the table's seed and
// history.
func TestGrowthFollowsFromHistory(t *testing.T) {
	const n = 100_000
	slots := map[int]int{}
	for range 6 {
		m := openWorkers(t, 2, &linear.Options{Capacity: n, Seed: 7})
		keys := make([]int64, n)
		for i := range keys {
			keys[i] = int64(i)
		}
		if _, err := m.Put(t.Context(), keys, keys); err != nil {
			t.Fatal(err)
		}
		for i := range 17 { // so few that a sample may contain one or none
			keys[i*1000] = -int64(i) - 1
		}
		if _, err := m.Put(t.Context(), keys[:17_000], keys[:17_000]); err != nil {
			t.Fatal(err)
		}
		slots[conformance.StatsOf(t, m).Slots]++
	}
	if len(slots) != 1 {
		t.Errorf("tables of one history have %v slots", slots)
	}
}
