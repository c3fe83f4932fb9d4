package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/mpi/comm"
)

// keysOf returns the first n keys, not less than from, that belong to a rank.
func keysOf(rank, size, n int, from uint64) (keys []uint64) {
	for k := from; len(keys) < n; k++ {
		if rankOf(keyHash(slotStart, k), size) == rank {
			keys = append(keys, k)
		}
	}
	return keys
}

// If a map of fixed size is full on one rank, all ranks return the same ErrFull. Each rank also
// returns which of its rows are missing.
func TestFullOnOneRank(t *testing.T) {
	for _, ranks := range []int{2, 7} {
		const capacity, rows = 256, 3000
		full := ranks - 1
		all := keysOf(full, ranks, rows*ranks, 0)
		var mu sync.Mutex
		texts := map[string]int{}
		held := 0
		onRanks(t, ranks, func(ctx context.Context, r *Ranks) error {
			m := mapOf(r, &linear.Options{Capacity: capacity, Fixed: true})
			defer m.Close()
			keys := all[r.rank*rows:][:rows]
			n, err := m.Put(ctx, keys, keys)
			var p *weft.PartialError
			if !errors.Is(err, weft.ErrFull) || !errors.As(err, &p) || p.Done != rows ||
				p.Failed != len(p.Rows) {
				return fmt.Errorf("rank %d: Put of too many rows returns %v", r.rank, err)
			}
			mu.Lock()
			texts[p.Err.Error()]++
			held += rows - len(p.Rows)
			mu.Unlock()
			got, found := make([]uint64, rows), make([]bool, rows)
			if _, err := m.Get(ctx, keys, got, found); err != nil {
				return err
			}
			for i, is := range found {
				if _, failed := slices.BinarySearch(p.Rows, i); failed == is {
					return fmt.Errorf("rank %d: row %d is there: %v, failed: %v", r.rank, i, is,
						failed)
				}
			}
			total, err := m.Len(ctx)
			return errors.Join(err, sameInt("Len", total, n))
		})
		if len(texts) != 1 {
			t.Errorf("%d ranks return different errors: %v", ranks, texts)
		}
		for text := range texts {
			if !strings.Contains(text, fmt.Sprintf("rank %d:", full)) {
				t.Errorf("%q does not name rank %d", text, full)
			}
		}
		if held < capacity || held >= rows*ranks {
			t.Errorf("%d of %d rows are there, at least %d fit", held, rows*ranks, capacity)
		}
	}
}

// Keys beyond the capacity get no id, and no id is skipped.
func TestAssignFull(t *testing.T) {
	const ranks, rows = 3, 2000
	all := keysOf(1, ranks, rows*ranks, 0)
	var mu sync.Mutex
	ids := map[uint64]uint64{}
	onRanks(t, ranks, func(ctx context.Context, r *Ranks) error {
		m := mapOf(r, &linear.Options{Capacity: 300, Fixed: true})
		defer m.Close()
		keys, got := all[r.rank*rows:][:rows], make([]uint64, rows)
		_, err := m.Assign(ctx, keys, got)
		var p *weft.PartialError
		if !errors.Is(err, weft.ErrFull) || !errors.As(err, &p) {
			return fmt.Errorf("rank %d: Assign returns %v", r.rank, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for i, k := range keys {
			if _, failed := slices.BinarySearch(p.Rows, i); !failed {
				ids[got[i]] = k
			} else if got[i] != 0 {
				return fmt.Errorf("rank %d: row %d failed and has id %d", r.rank, i, got[i])
			}
		}
		return nil
	})
	for id := range uint64(len(ids)) {
		if _, ok := ids[id]; !ok {
			t.Fatalf("of %d ids, %d is given to no key", len(ids), id)
		}
	}
	if len(ids) < 300 {
		t.Errorf("%d keys have ids, 300 fit", len(ids))
	}
}

// The largest id is the largest value.
func TestAssignRunsOutOfIDs(t *testing.T) {
	onRanks(t, 2, func(ctx context.Context, r *Ranks) error {
		l, err := linear.New[uint64, int32](host, nil)
		if err != nil {
			return err
		}
		m := NewMap(r, l)
		defer m.Close()
		if _, err := m.Put(ctx, []uint64{uint64(r.rank)}, []int32{math.MaxInt32 - 4}); err != nil {
			return err
		}
		ids := make([]int32, 3)
		_, err = m.Assign(ctx, []uint64{10, 20, 30}, ids)
		if n := 3; err != nil || ids[0] != math.MaxInt32-3 {
			return fmt.Errorf("%d ids: %v, %v", n, ids, err)
		}
		_, err = m.Assign(ctx, []uint64{10, uint64(r.rank + 100)}, ids[:2])
		var p *weft.PartialError
		if !errors.Is(err, weft.ErrFull) || !errors.As(err, &p) ||
			!slices.Equal(p.Rows, []int{1}) || ids[0] != math.MaxInt32-3 {
			return fmt.Errorf("Assign beyond the last id returns %v and ids %v", err, ids)
		}
		n, err := m.Len(ctx)
		return errors.Join(err, sameInt("Len", n, 5))
	})
}

// If ranks make different calls, all ranks return an error and can continue.
func TestMismatch(t *testing.T) {
	for _, ranks := range []int{2, 7} {
		onRanks(t, ranks, func(ctx context.Context, r *Ranks) error {
			a, b := mapOf(r, nil), mapOf(r, nil)
			l, err := linear.New[uint64, int32](host, nil)
			if err != nil {
				return err
			}
			c := NewMap(r, l)
			defer func() { _ = errors.Join(a.Close(), b.Close(), c.Close()) }()
			keys, vals := []uint64{1, 2, 3}, []uint64{4, 5, 6}
			len1 := func(m *Map[uint64, uint64]) error { _, err := m.Len(ctx); return err }
			put := func(m *Map[uint64, uint64]) error {
				_, err := m.Put(ctx, keys, vals)
				return err
			}
			for i, calls := range [][2]func() error{
				{func() error { return put(a) }, func() error {
					_, err := a.Get(ctx, keys, vals, nil)
					return err
				}},
				{func() error { return len1(a) }, func() error { return len1(b) }},
				{func() error { return put(b) }, func() error {
					_, err := c.Put(ctx, keys, []int32{1, 2, 3})
					return err
				}},
				{func() error { _, err := a.Reduce(ctx, keys, vals, weft.Sum); return err },
					func() error { _, err := a.Reduce(ctx, keys, vals, weft.Max); return err }},
			} {
				call := calls[0]
				if r.rank == 1 {
					call = calls[1]
				}
				if err := call(); !errors.Is(err, ErrMismatch) ||
					!strings.Contains(err.Error(), "rank 1 calls") {
					return fmt.Errorf("rank %d, call %d returns %v", r.rank, i, err)
				}
				n, err := a.Len(ctx)
				if err = errors.Join(err, sameInt("Len", n, 0)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// If a context has ended on one rank, the call fails on all ranks and does nothing.
func TestCancelled(t *testing.T) {
	onRanks(t, 3, func(ctx context.Context, r *Ranks) error {
		m := mapOf(r, nil)
		defer m.Close()
		mine := ctx
		if r.rank == 2 {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			mine = ended
		}
		keys := []uint64{1, 2, 3}
		_, err := m.Put(mine, keys, keys)
		var p *weft.PartialError
		if !errors.Is(err, context.Canceled) || !errors.As(err, &p) || p.Done != 0 {
			return fmt.Errorf("rank %d: Put returns %v", r.rank, err)
		}
		n, err := m.Len(ctx)
		if err = errors.Join(err, sameInt("Len", n, 0)); err != nil {
			return err
		}
		if _, err := m.Len(mine); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("rank %d: Len returns %v", r.rank, err)
		}
		_, err = m.Put(ctx, keys, keys)
		return err
	})
}

// If a map is closed on one rank, calls on all ranks return ErrClosed.
func TestClosedOnOneRank(t *testing.T) {
	onRanks(t, 3, func(ctx context.Context, r *Ranks) error {
		m := mapOf(r, nil)
		if r.rank == 1 {
			m.Close()
		}
		keys := keysOf(1, 3, 3, 0)
		vals := []uint64{7, 7, 7}
		_, err := m.Get(ctx, keys, vals, nil)
		var p *weft.PartialError
		if !errors.Is(err, weft.ErrClosed) || !errors.As(err, &p) || len(p.Rows) != 3 ||
			vals[0] != 0 {
			return fmt.Errorf("rank %d: Get returns %v and %v", r.rank, err, vals)
		}
		if err := m.Clear(ctx); !errors.Is(err, weft.ErrClosed) {
			return fmt.Errorf("rank %d: Clear returns %v", r.rank, err)
		}
		return m.Close()
	})
}

// A reduction that the type of values does not support is an error on all ranks. So are ids of a
// float type.
func TestInvalid(t *testing.T) {
	onRanks(t, 2, func(ctx context.Context, r *Ranks) error {
		l, err := linear.New[uint64, float64](host, nil)
		if err != nil {
			return err
		}
		m := NewMap(r, l)
		defer m.Close()
		keys, vals := []uint64{1, 2, 3}, []float64{1, 2, 3}
		if _, err := m.Reduce(ctx, keys, vals, weft.And); !errors.Is(err, device.ErrInvalid) {
			return fmt.Errorf("Reduce by And returns %v", err)
		}
		if _, err := m.Assign(ctx, keys, vals); !errors.Is(err, device.ErrInvalid) {
			return fmt.Errorf("Assign returns %v", err)
		}
		n, err := m.Reduce(ctx, keys, vals, weft.Sum)
		return errors.Join(err, sameInt("inserted", n, 3))
	})
}

// A panic on one rank ends the calls on all ranks.
func TestPanicAborts(t *testing.T) {
	onRanks(t, 3, func(ctx context.Context, r *Ranks) (err error) {
		m := mapOf(r, nil)
		defer m.Close()
		if r.rank == 0 {
			defer func() {
				if recover() == nil {
					err = errors.New("a column that is too short does not panic")
				}
			}()
			_, err := m.Put(ctx, []uint64{1, 2}, []uint64{1})
			return err
		}
		if _, err := m.Put(ctx, []uint64{1}, []uint64{1}); !errors.Is(err, comm.ErrAborted) {
			return fmt.Errorf("rank %d: Put returns %v", r.rank, err)
		}
		return nil
	})
}

// Rows of GetOrPut beyond the capacity keep their values, and loaded is false for them.
func TestGetOrPutFull(t *testing.T) {
	const rows = 2000
	onRanks(t, 2, func(ctx context.Context, r *Ranks) error {
		m := mapOf(r, &linear.Options{Capacity: 256, Fixed: true})
		defer m.Close()
		keys, vals, loaded := keysOf(1, 2, rows, 0), make([]uint64, rows), make([]bool, rows)
		for i := range vals {
			vals[i] = uint64(1000 + r.rank)
		}
		_, err := m.GetOrPut(ctx, keys, vals, loaded)
		var p *weft.PartialError
		if !errors.Is(err, weft.ErrFull) || !errors.As(err, &p) || p.Failed == 0 {
			return fmt.Errorf("rank %d: GetOrPut returns %v", r.rank, err)
		}
		for i, v := range vals {
			_, failed := slices.BinarySearch(p.Rows, i)
			want, wantLoaded := uint64(1000), r.rank == 1 // rank 0 owns all pairs
			if failed {
				want, wantLoaded = uint64(1000+r.rank), false
			}
			if v != want || loaded[i] != wantLoaded {
				return fmt.Errorf("rank %d: row %d has %d, loaded %v, failed %v", r.rank, i, v,
					loaded[i], failed)
			}
		}
		return nil
	})
}

// On 168 ranks, as many as GPUs that hold 10^12 keys, the keys of a batch are distributed evenly.
func TestManyRanks(t *testing.T) {
	const ranks, rows = 168, 600
	onRanks(t, ranks, func(ctx context.Context, r *Ranks) error {
		m := mapOf(r, nil)
		defer m.Close()
		keys, vals := make([]uint64, rows), make([]uint64, rows)
		for i := range keys {
			keys[i], vals[i] = uint64(r.rank*rows+i), uint64(i)
		}
		n, err := m.Put(ctx, keys, vals)
		if err = errors.Join(err, sameInt("inserted", n, ranks*rows)); err != nil {
			return err
		}
		if s := r.Stats(); s.Skew < 1 || s.Skew > 1.25 {
			return fmt.Errorf("rank %d: %+v", r.rank, s)
		}
		got := make([]uint64, rows)
		if n, err = m.Get(ctx, keys, got, nil); err != nil || !slices.Equal(got, vals) {
			return fmt.Errorf("rank %d: Get returns other values: %v", r.rank, err)
		}
		return sameInt("hits", n, ranks*rows)
	})
}

// Evenly distributed keys have no skew. A key that all rows share is sent once.
func TestStats(t *testing.T) {
	const rows = 1 << 17
	onRanks(t, 4, func(ctx context.Context, r *Ranks) error {
		m := mapOf(r, nil)
		defer m.Close()
		keys, vals := make([]uint64, rows), make([]uint64, rows)
		for i := range keys {
			keys[i] = uint64(i*4 + r.rank)
		}
		if _, err := m.Put(ctx, keys, vals); err != nil {
			return err
		}
		s := r.Stats()
		if s.Batches != 1 || s.Rows != rows || s.Sent != rows || s.Skew < 1 || s.Skew > 1.02 ||
			s.MinMessage < rows/5 {
			return fmt.Errorf("rank %d: %+v", r.rank, s)
		}
		for i := range keys {
			keys[i] = 12345
		}
		n, err := m.Reduce(ctx, keys, vals, weft.Max)
		if s := r.Stats(); err != nil || n != 0 || s.Combined != rows-1 || s.Sent != rows+1 {
			return fmt.Errorf("rank %d: %d, %v, %+v", r.rank, n, err, s)
		}
		return nil
	})
}

// partialMap stores every other pair, and returns a PartialError for the others.
type partialMap struct{ LocalMap[uint64, uint64] }

func (m partialMap) Put(ctx context.Context, keys, vals []uint64) (int, error) {
	p := &weft.PartialError{Done: len(keys), Err: weft.ErrFull}
	n := 0
	for i := range keys {
		if i%2 == 0 {
			p.Rows = append(p.Rows, i)
			continue
		}
		added, err := m.LocalMap.Put(ctx, keys[i:i+1], vals[i:i+1])
		if n += added; err != nil {
			return n, err
		}
	}
	p.Failed = len(p.Rows)
	return n, p
}

// A rank returns which of its rows another rank has not done.
func TestPartialRows(t *testing.T) {
	onRanks(t, 3, func(ctx context.Context, r *Ranks) error {
		l, err := linear.New[uint64, uint64](host, nil)
		if err != nil {
			return err
		}
		m := NewMap(r, partialMap{l})
		defer m.Close()
		keys := make([]uint64, 50)
		for i := range keys {
			keys[i] = uint64(i*3 + r.rank)
		}
		_, err = m.Put(ctx, keys, keys)
		var p *weft.PartialError
		if !errors.As(err, &p) || !errors.Is(err, weft.ErrFull) || len(p.Rows) == 0 ||
			len(p.Rows) == 50 {
			return fmt.Errorf("rank %d: Put returns %v", r.rank, err)
		}
		found := make([]bool, len(keys))
		if _, err := m.Contains(ctx, keys, found); err != nil {
			return err
		}
		for i, is := range found {
			if _, failed := slices.BinarySearch(p.Rows, i); failed == is {
				return fmt.Errorf("rank %d: row %d is there: %v, failed: %v", r.rank, i, is, failed)
			}
		}
		return nil
	})
}
