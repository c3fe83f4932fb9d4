package slab

import (
	"context"
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

var pairs8 = batch.Widths{Key: 8, Val: 8, Slot: 16}

// counted are keys first, first+1, … and as many values 0, 1, ….
func counted(first, n int) (keys, vals []uint64) {
	keys, vals = make([]uint64, n), make([]uint64, n)
	for i := range keys {
		keys[i], vals[i] = uint64(first+i), uint64(i)
	}
	return keys, vals
}

func (s *subject[K, V]) used() uint64 {
	now, err := s.engine.counts(context.Background())
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	return now.used
}

// A batch of inserts takes dead slots of any key, a mixed one those of its own
// keys alone, a multimap none.
func TestDeadSlots(t *testing.T) {
	for _, multi := range []bool{false, true} {
		s := newSubject[uint64, uint64](t, openCPU(t, 1), pairs8, multi, 1, 100, false)
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
		s.look(append(append(a, b...), c...))
		s.close()
	}
}

// Insertions that look for no key begin near the end of the chain: a long list
// takes time in proportion to its length.
func TestTailHint(t *testing.T) {
	s := newSubject[uint64, uint64](t, openCPU(t, 1), pairs8, true, 1, 20_000, false)
	defer s.close()
	keys, vals := counted(0, 100_000)
	for i := range keys {
		keys[i] = 7
	}
	b := &batch.Batch{N: len(keys), Flags: flagMulti, Kind: weft.OpPut, Keys: batch.Host(keys), Vals: batch.Host(vals)}
	if _, failed, err := s.engine.change(t.Context(), b); len(failed) > 0 || err != nil {
		t.Fatal(len(failed), err)
	}
	g := s.engine.hold()
	defer s.engine.release(g)
	table := tableOf[uint64, uint64](g)
	hint := linkOf(table.base(0)).tail
	if hint == noUnit || table.next(table.unit(hint)) != nil {
		t.Errorf("the hint is %#x, not the last slab", hint)
	}
	s.model[7] = vals
	s.look(keys[:1])
}

// A rehash whose pool runs out goes on when it has grown, and keeps the order
// of each key's pairs; a pool that can't grow leaves the table as it was.
func TestRehashWithoutUnits(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		dev := openCPU(t, 3)
		s := newSubject[uint64, uint64](t, dev, pairs8, true, 40, 3000, fixed)
		keys, vals := counted(0, 12_000)
		for i := range keys {
			keys[i] = keys[i]*7%500 - 2 // two of them look like marks
		}
		s.change(weft.OpPut, nil, keys, vals)
		err := s.engine.rehash(t.Context(), 30, 0)
		if errors.Is(err, weft.ErrFull) != fixed || !fixed && err != nil {
			t.Fatalf("fixed %v: %v", fixed, err)
		}
		if g := s.engine.geometry(); (g.buckets == 40) != fixed {
			t.Errorf("fixed %v: %d buckets after the rehash", fixed, g.buckets)
		}
		s.look(keys[:500])
		s.close()
	}
}

// Whoever holds a generation reads it as it was, while the table goes on with
// another.
func TestHeldGeneration(t *testing.T) {
	s := newSubject[uint64, uint64](t, openCPU(t, 1), pairs8, false, 10, 100, false)
	keys, vals := counted(0, 400)
	s.change(weft.OpPut, nil, keys, vals)
	old := s.engine.hold()
	s.rehash(50, 10)
	s.change(weft.OpDelete, nil, keys, vals)
	k, v := make([]uint64, 400), make([]uint64, 400)
	if n, err := s.engine.export(t.Context(), old, 0, old.buckets+1, device.Bytes(k), device.Bytes(v)); n != 400 || err != nil {
		t.Errorf("export of what was: %d, %v", n, err)
	}
	s.close()
	if err := s.engine.release(old); err != nil {
		t.Error(err)
	}
}

// The columns of lookups for several pairs may be too short; what fits is
// written.
func TestCollectOnWithFewRows(t *testing.T) {
	dev := openCPU(t, 1)
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
		counts, offsets, out := make([]uint32, 20), make([]uint64, 21), make([]uint64, 400)
		b := &batch.Batch{N: 20, Flags: flagMulti, Keys: batch.Host(keys[:20]), Vals: batch.Host(out)}
		if err := s.engine.collectOn(stream, b, batch.Host(counts), batch.Host(offsets), rows); err != nil {
			t.Fatal(err)
		}
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
	s := newSubject[uint64, uint64](t, openCPU(t, 2), pairs8, false, 10, 100, false)
	defer s.close()
	keys, vals := counted(0, 400)
	s.change(weft.OpPut, nil, keys, vals)
	s.change(weft.OpDelete, nil, keys[:100], vals[:100])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := &batch.Batch{N: 400, Kind: weft.OpPut, Keys: batch.Host(keys), Vals: batch.Host(vals)}
	hits, get := s.engine.get(ctx, b)
	done, failed, change := s.engine.change(ctx, b)
	if hits != 0 || done != 0 || len(failed) != 0 {
		t.Errorf("%d hits, %d changes, %d without room", hits, done, len(failed))
	}
	for what, err := range map[string]error{
		"get": get, "change": change, "rehash": s.engine.rehash(ctx, 20, 10), "flush": s.engine.flush(ctx), "clear": s.engine.clear(ctx),
		"tally": s.engine.tally(ctx, b, make([]uint32, 400)), "collect": s.engine.collect(ctx, b, make([]uint64, 401), nil),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.look(keys)
}
