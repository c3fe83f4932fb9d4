package slab

import (
	"context"
	"errors"
	"github.com/weftgo/weft/internal/op"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
)

var pairs8 = batch.Widths{Key: 8, Val: 8, Slot: 16}

// counted returns keys first, first+1, … with values 0, 1, ….
func counted(first, n int) (keys, vals []uint64) {
	keys, vals = make([]uint64, n), make([]uint64, n)
	for i := range keys {
		keys[i], vals[i] = uint64(first+i), uint64(i)
	}
	return keys, vals
}

func (s *subject[K, V]) used() uint64 { return s.counters().Used }

// TestDeadSlots checks which dead slots a batch reuses: inserts reuse slots of any key, mixed
// batches only slots of their own keys, and multimaps none.
func TestDeadSlots(t *testing.T) {
	for _, multi := range []bool{false, true} {
		s := newSubject[uint64, uint64](t, devicetest.OpenCPU(t, 1), pairs8, multi, 1, 100, false)
		a, vals := counted(0, 50)
		b, _ := counted(100, 50)
		puts := make([]weft.OpKind, 50)
		for i := range puts {
			puts[i] = weft.OpPut
		}
		s.change(weft.OpPut, nil, a, vals)
		s.change(weft.OpDelete, nil, a, vals)
		for _, step := range []struct {
			what    string
			keys    []uint64
			slots   uint64
			inMulti uint64
		}{
			{"a mixed batch of other keys", b, 100, 100},
			{"a mixed batch of the same keys", a, 100, 150},
		} {
			s.change(0, puts, step.keys, vals)
			want := step.slots
			if multi {
				want = step.inMulti
			}
			if got := s.used(); got != want {
				t.Errorf("multi %v: after %s %d slots are used, want %d", multi, step.what, got, want)
			}
		}
		before := s.used()
		s.change(weft.OpDelete, nil, a, vals)
		c, _ := counted(200, 50)
		s.change(weft.OpPut, nil, c, vals)
		if grown := s.used() > before; grown != multi {
			t.Errorf("multi %v: inserts of new keys took %d slots to %d", multi, before, s.used())
		}
		s.lookUp(append(append(a, b...), c...))
		s.close()
	}
}

// TestTailHint checks that insertions without a search begin near the end of the chain, so that a
// list takes time proportional to its length.
func TestTailHint(t *testing.T) {
	s := newSubject[uint64, uint64](t, devicetest.OpenCPU(t, 1), pairs8, true, 1, 20_000, false)
	defer s.close()
	keys, vals := counted(0, 100_000)
	for i := range keys {
		keys[i] = 7
	}
	b := &batch.Batch{N: len(keys), Flags: batch.Multi, Kind: op.Put, Columns: batch.Columns{batch.Keys: batch.Input(keys), batch.Vals: batch.Input(vals)}}
	if _, failed, err := s.engine().Change(t.Context(), nil, b); len(failed) > 0 || err != nil {
		t.Fatal(len(failed), err)
	}
	table := tableOf[uint64, uint64](s.gen())
	hint := linkOf(table.base(0)).tail
	if hint == noUnit || table.next(table.unit(hint)) != nil {
		t.Errorf("the hint is %#x, not the last slab", hint)
	}
	s.model[7] = vals
	s.lookUp(keys[:1])
}

// TestRehashWithoutUnits checks that a rehash with an empty pool continues after the pool has
// grown, and keeps the order of each key's pairs. If the pool cannot grow, the table is unchanged.
func TestRehashWithoutUnits(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		dev := devicetest.OpenCPU(t, 3)
		s := newSubject[uint64, uint64](t, dev, pairs8, true, 40, 3000, fixed)
		keys, vals := counted(0, 12_000)
		for i := range keys {
			keys[i] = keys[i]*7%500 - 2 // two keys equal sentinels
		}
		s.change(weft.OpPut, nil, keys, vals)
		err := s.engine().rehash(t.Context(), 30, 0)
		if errors.Is(err, weft.ErrFull) != fixed || !fixed && err != nil {
			t.Fatalf("fixed %v: %v", fixed, err)
		}
		if g := s.engine().geometry(); (g.buckets == 40) != fixed {
			t.Errorf("fixed %v: %d buckets after the rehash", fixed, g.buckets)
		}
		s.lookUp(keys[:500])
		s.close()
	}
}

// TestHeldGeneration checks that a held generation can be read unchanged after the table has moved
// to another.
func TestHeldGeneration(t *testing.T) {
	s := newSubject[uint64, uint64](t, devicetest.OpenCPU(t, 1), pairs8, false, 10, 100, false)
	keys, vals := counted(0, 400)
	s.change(weft.OpPut, nil, keys, vals)
	old, err := s.core.Leases.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.rehash(50, 10)
	s.change(weft.OpDelete, nil, keys, vals)
	k, v := make([]uint64, 400), make([]uint64, 400)
	if n, err := s.engine().Export(t.Context(), old, 0, 11, s.pairs(k, v)); n != 400 || err != nil {
		t.Errorf("export of what was: %d, %v", n, err)
	}
	s.close()
	if err := old.End(); err != nil {
		t.Error(err)
	}
}

// taken allocates device memory until the end of the test.
func taken[T device.Elem](t *testing.T, dev device.Device, n int) device.Slice[T] {
	t.Helper()
	s, err := device.Make[T](dev, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Free(); err != nil {
			t.Error(err)
		}
	})
	clear(s.Host())
	return s
}

// TestCollectOnWithFewRows checks that lookups of several pairs write what fits into short columns.
func TestCollectOnWithFewRows(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	s := newSubject[uint64, uint64](t, dev, pairs8, true, 5, 100, false)
	defer s.close()
	keys, vals := counted(0, 600)
	for i := range keys {
		keys[i] %= 30
	}
	s.change(weft.OpPut, nil, keys, vals)
	stream, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for _, rows := range []int{0, 1, 19, 20, 95, 400} {
		dc, do, dv := taken[uint32](t, dev, 20), taken[uint64](t, dev, 21), taken[uint64](t, dev, 400)
		b := &batch.Batch{N: 20, Flags: batch.Multi, Columns: batch.Columns{
			batch.Keys: batch.Input(keys[:20]), batch.Counts: batch.OutputOn(dc), batch.Offsets: batch.OffsetsOn(do),
			batch.Vals: batch.RowsOn(dv.Sub(0, rows)),
		}}
		if err := s.engine().Expand(t.Context(), stream, s.core.Leases.Current(), b); err != nil {
			t.Fatal(err)
		}
		counts, offsets, out := dc.Host(), do.Host(), dv.Host()
		for i, v := range out {
			want := uint64(i/20 + i%20*30)
			if i >= rows {
				want = 0
			}
			if v != want || i%20 == 0 && (counts[i/20] != 20 || offsets[i/20+1] != uint64(i+20)) {
				t.Fatalf("%d rows: value %d is %d, want %d; %d, %d", rows, i, v, want, counts, offsets)
			}
		}
	}
}

func TestCPUEngineCancelled(t *testing.T) {
	s := newSubject[uint64, uint64](t, devicetest.OpenCPU(t, 2), pairs8, false, 10, 100, false)
	defer s.close()
	keys, vals := counted(0, 400)
	s.change(weft.OpPut, nil, keys, vals)
	s.change(weft.OpDelete, nil, keys[:100], vals[:100])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lease := s.core.Leases.Current()
	b := s.lookup(keys)
	b.Kind, b.Columns[batch.Vals] = op.Put, batch.Input(vals)
	count := s.lookup(keys)
	count.Columns[batch.Counts] = batch.Output(make([]uint32, 400))
	read, hits, get := s.engine().Lookup(ctx, nil, lease, b, 0)
	counted, _, tally := s.engine().Lookup(ctx, nil, lease, count, 0)
	done, failed, change := s.engine().Change(ctx, nil, b)
	if hits+read+counted+done+len(failed) != 0 {
		t.Errorf("%d keys read, %d hits, %d counted, %d changes, %d without room", read, hits, counted, done, len(failed))
	}
	rows := s.lookup(keys)
	rows.Columns[batch.Vals] = batch.Output(vals)
	rows.Columns[batch.Vals].Offsets = make([]uint64, 401)
	_, export := s.engine().Export(ctx, lease, 0, 11, s.pairs(keys, vals))
	_, chains := s.engine().chains(ctx)
	for what, err := range map[string]error{
		"get": get, "tally": tally, "change": change, "rehash": s.engine().rehash(ctx, 20, 10), "flush": s.engine().flush(ctx), "export": export,
		"chains": chains, "expand": s.engine().Expand(ctx, nil, lease, rows),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.lookUp(keys)
}
