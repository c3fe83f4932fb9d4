package slab_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

// hot returns a multimap with n pairs of one key, and a batch that repeats that key.
func hot(t *testing.T, workers, n int, opts *slab.Options) (m *slab.MultiMap[uint32, uint32], keys []uint32) {
	t.Helper()
	dev, err := cpu.Open(&cpu.Options{Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	m = conformance.Open(t, slab.NewMultiMap[uint32, uint32], dev, opts)
	keys = make([]uint32, n)
	for i := range keys {
		keys[i] = 5
	}
	got, err := m.Put(t.Context(), keys, conformance.Sequence[uint32](0, n))
	conformance.WantCount(t, "Put", got, n, err)
	return m, keys
}

// TestHotKeysStop checks that each method stops when its context ends, even with a million pairs of
// a key and a batch that repeats it.
func TestHotKeysStop(t *testing.T) {
	const n = 1_000_000
	for _, workers := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d cores", workers), func(t *testing.T) {
			if workers == 1 {
				conformance.SkipRaced(t, "one core")
			}
			m, keys := hot(t, workers, n, nil)
			var saved bytes.Buffer
			if _, err := m.Save(t.Context(), &saved); err != nil {
				t.Fatal(err)
			}
			conformance.StopsOnCancel(t, append(hotLookups(m, keys), hotChanges(m, keys, saved.Bytes())...))
		})
	}
}

func hotLookups(m *slab.MultiMap[uint32, uint32], keys []uint32) []conformance.Stoppable {
	vals, counts, absent := make([]uint32, len(keys)), make([]uint32, len(keys)), conformance.Sequence[uint32](1000, len(keys))
	return []conformance.Stoppable{
		{Name: "Count", Long: true, Run: func(ctx context.Context) error { _, err := m.Count(ctx, keys, counts); return err }},
		{Name: "GetAll", Long: true, Run: func(ctx context.Context) error { return m.GetAll(ctx, keys, &weft.Rows[uint32]{}) }},
		{Name: "GetAll of one", Run: func(ctx context.Context) error { return m.GetAll(ctx, keys[:20], &weft.Rows[uint32]{}) }},
		{Name: "Get", Run: func(ctx context.Context) error { _, err := m.Get(ctx, keys, vals, nil); return err }},
		{Name: "Contains", Run: func(ctx context.Context) error { _, err := m.Contains(ctx, absent, nil); return err }},
		{Name: "Save", Run: func(ctx context.Context) error { _, err := m.Save(ctx, io.Discard); return err }},
		{Name: "Check", Run: m.Check},
		{Name: "Stats", Run: func(ctx context.Context) error { _, err := m.Stats(ctx); return err }},
		{Name: "Pages", Run: func(ctx context.Context) error {
			for _, err := range m.Pages(ctx) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
	}
}

func hotChanges(m *slab.MultiMap[uint32, uint32], keys []uint32, saved []byte) []conformance.Stoppable {
	vals, others := make([]uint32, len(keys)), conformance.Sequence[uint32](1000, len(keys))
	ops := make([]weft.Op[uint32, uint32], len(keys))
	for i := range ops {
		// Put or Delete
		ops[i] = weft.Op[uint32, uint32]{Kind: weft.OpPut + weft.OpKind(2*(i%2)), Key: keys[0]}
	}
	return []conformance.Stoppable{
		{Name: "PutNew", Run: func(ctx context.Context) error { _, err := m.PutNew(ctx, keys, vals, nil); return err }},
		{Name: "Put", Run: func(ctx context.Context) error { _, err := m.Put(ctx, others, vals); return err }},
		{Name: "Load", Run: func(ctx context.Context) error { _, err := m.Load(ctx, bytes.NewReader(saved)); return err }},
		{Name: "Compact", Run: m.Compact},
		{Name: "Apply", Long: true, Run: func(ctx context.Context) error { return m.Apply(ctx, ops, nil) }},
		{Name: "Delete", Long: true, Run: func(ctx context.Context) error { _, err := m.Delete(ctx, keys, nil); return err }},
		{Name: "DeleteAll", Run: func(ctx context.Context) error { _, err := m.DeleteAll(ctx, keys, nil); return err }},
		{Name: "Clear", Run: m.Clear},
	}
}

// TestGrowingListStops checks that a list that becomes long within one batch does not delay
// cancellation.
func TestGrowingListStops(t *testing.T) {
	for _, buckets := range []int{1, 20} {
		dev, err := cpu.Open(&cpu.Options{Workers: 4})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		m := conformance.Open(t, slab.New[uint32, uint32], dev, &slab.Options{Buckets: buckets})
		keys := conformance.Sequence[uint32](0, 1<<18)
		conformance.StopsOnCancel(t, []conformance.Stoppable{
			{Name: "Put", Long: true, Run: func(ctx context.Context) error { _, err := m.Put(ctx, keys, keys); return err }},
			{Name: "Get", Run: func(ctx context.Context) error {
				_, err := m.Get(ctx, keys, make([]uint32, len(keys)), nil)
				return err
			}},
		})
	}
}

// TestStoppedCallsSayWhatTheyDid checks that a stopped call has run exactly the operations before
// Done.
func TestStoppedCallsSayWhatTheyDid(t *testing.T) {
	const n = 200_000
	for _, workers := range []int{1, 4} {
		m, keys := hot(t, workers, n, &slab.Options{MaxTombstones: -1})
		for range 3 {
			before := m.Len()
			ok := make([]bool, n)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			got, err := m.Delete(ctx, keys, ok)
			cancel()
			done := doneOf(t, err)
			if got != done || before-m.Len() != done {
				t.Fatalf("Delete of %d done: %d, and Len went from %d to %d", done, got, before, m.Len())
			}
			for i := range ok {
				if ok[i] != (i < done) {
					t.Fatalf("Delete of %d done: operation %d is said to be %v", done, i, ok[i])
				}
			}
			counts := make([]uint32, n)
			ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
			_, err = m.Count(ctx, keys, counts)
			cancel()
			done = doneOf(t, err)
			for i, c := range counts {
				if is := uint32(m.Len()); i < done && c != is || i >= done && c != 0 {
					t.Fatalf("Count of %d done: key %d has %d of %d", done, i, c, is)
				}
			}
		}
	}
}

// doneOf returns the number of operations that a stopped call reports as done.
func doneOf(t *testing.T, err error) int {
	t.Helper()
	var p *weft.PartialError
	if !errors.As(err, &p) || !errors.Is(err, context.DeadlineExceeded) || p.Failed != 0 {
		t.Fatalf("a call that was to be stopped: %v", err)
	}
	return p.Done
}

// TestGetAllBeyondItsLimit checks that results beyond the limit are refused before memory is
// allocated for them.
func TestGetAllBeyondItsLimit(t *testing.T) {
	m, keys := hot(t, 2, 100_000, &slab.Options{ResultLimit: 1 << 20})
	rows := weft.Rows[uint32]{Offsets: []uint64{0, 1}, Vals: []uint32{7}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := m.GetAll(t.Context(), keys[:400], &rows)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, device.ErrMemory) || !strings.Contains(err.Error(), "40000000 rows of 4 bytes") {
		t.Errorf("GetAll of 160 MB: %v", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("it took %d bytes", took)
	}
	if len(rows.Offsets) != 2 || len(rows.Vals) != 1 {
		t.Errorf("the rows have become %d, %d", rows.Offsets, len(rows.Vals))
	}
	if err := m.GetAll(t.Context(), keys[:2], &rows); err != nil || rows.Len() != 3 || len(rows.Row(2)) != 100_000 {
		t.Errorf("GetAll within the limit: %d rows, %v", rows.Len(), err)
	}
}
