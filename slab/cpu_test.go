package slab

import (
	"context"
	"errors"
	"fmt"
	"github.com/weftgo/weft/internal/op"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
)

// fatal has the methods that testing.TB and rapid.T share.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// subject is an engine with a model: the values of each key, in order. The values of a set are
// unused.
type subject[K, V uint32 | uint64] struct {
	t fatal
	*table
	model map[K][]V
	full  int // number of operations that overflowed
}

func newSubject[K, V uint32 | uint64](t fatal, dev device.Device, w batch.Widths, multi bool, buckets uint32, units int, fixed bool) *subject[K, V] {
	counts := w.Val > 0 // the tests also count the pairs of keys in maps
	e, leases, err := newEngine(dev, w, geometry{seed: 5, buckets: buckets}, units, fixed, counts)
	if err != nil {
		t.Fatalf("%v", err)
	}
	p := &policy{widths: w, multi: multi, engine: e}
	c := core.New(core.Config{Name: "slab", Device: dev, Widths: w, Policy: p, Engine: e, Leases: leases})
	return &subject[K, V]{t, &table{c, p}, map[K][]V{}, 0}
}

func (s *subject[K, V]) engine() engine { return s.policy.engine }

// lookup returns a batch that looks up keys.
func (s *subject[K, V]) lookup(keys []K) *batch.Batch {
	return &batch.Batch{N: len(keys), Flags: s.policy.MixedFlags(), Columns: batch.Columns{batch.Keys: batch.Input(keys)}}
}

// lastKind returns the last kind of operation that a structure supports. Maps do not support
// DeleteAll.
func lastKind(multi bool) weft.OpKind {
	if multi {
		return weft.OpDeleteAll
	}
	return weft.OpDeleteAll - 1
}

func (s *subject[K, V]) read(b *batch.Batch) (hits int, err error) {
	_, hits, err = s.engine().Lookup(context.Background(), nil, s.core.Leases.Current(), b, 0)
	return hits, err
}

func (s *subject[K, V]) export(lo, hi uint32, keys []K, vals []V) (int, error) {
	return s.engine().Export(context.Background(), s.core.Leases.Current(), lo, hi, s.pairs(keys, vals))
}

// pairs returns a batch that exports pairs to columns.
func (s *subject[K, V]) pairs(keys []K, vals []V) *batch.Batch {
	return &batch.Batch{N: len(keys), Columns: batch.Columns{batch.Keys: batch.Output(keys), batch.Vals: s.vals(vals)}}
}

func (s *subject[K, V]) counters() core.Counters {
	s.t.Helper()
	now, err := s.engine().ReadCounters(context.Background())
	if err != nil {
		s.t.Fatalf("counters: %v", err)
	}
	return now
}

// vals returns a column that receives values, or no column for a set.
func (s *subject[K, V]) vals(v []V) batch.Column {
	if s.core.Widths.Val == 0 {
		return batch.Column{}
	}
	return batch.Output(v)
}

// given returns a column of values to read.
func (s *subject[K, V]) given(v []V) batch.Column {
	if s.core.Widths.Val == 0 {
		return batch.Column{}
	}
	return batch.Input(v)
}

// change runs a batch on the engine and on the model and compares the results. If kinds is nil, all
// operations have the given kind.
func (s *subject[K, V]) change(kind weft.OpKind, kinds []weft.OpKind, keys []K, vals []V) {
	s.t.Helper()
	out, ok, removed := slices.Clone(vals), make([]bool, len(keys)), make([]uint32, len(keys))
	b := &batch.Batch{N: len(keys), Kind: op.Kind(kind), Flags: s.policy.MixedFlags(), Columns: batch.Columns{
		batch.Kinds: batch.Input(kinds), batch.Keys: batch.Input(keys),
		batch.Vals: s.given(out), batch.Out: s.vals(out), batch.OK: batch.Output(ok), batch.Counts: batch.Output(removed),
	}}
	if kinds == nil {
		b.Flags = s.policy.Flags(op.Kind(kind))
	}
	done, failed, err := s.engine().Change(context.Background(), nil, b)
	if done != len(keys) || err != nil || !slices.IsSorted(failed) {
		s.t.Fatalf("change: %d of %d operations, %d without room: %v", done, len(keys), len(failed), err)
	}
	if len(failed) > 0 {
		if pool, err := s.engine().units().Usage(context.Background()); err != nil || pool.Used != pool.Units {
			s.t.Fatalf("%d operations found no room; %v, %v", len(failed), pool, err)
		}
	}
	s.full += len(failed)
	for i, k := range keys {
		if kinds != nil {
			kind = kinds[i]
		}
		before := s.model[k]
		if _, full := slices.BinarySearch(failed, uint32(i)); full {
			absent := kind == weft.OpPutNew || kind == weft.OpPut && !s.policy.multi
			if kind != weft.OpPut && kind != weft.OpPutNew || ok[i] || absent && len(before) > 0 || s.core.Widths.Val > 0 && out[i] != vals[i] {
				s.t.Fatalf("%v of key %#x, of %d values, found no room: %v, %#x for %#x", kind, k, len(before), ok[i], out[i], vals[i])
			}
			continue
		}
		wantOut, wantOK, wantRemoved := s.apply(kind, k, vals[i])
		if kind != weft.OpDeleteAll {
			wantRemoved = removed[i]
		}
		if ok[i] != wantOK || s.core.Widths.Val > 0 && out[i] != wantOut || removed[i] != wantRemoved {
			s.t.Fatalf("operation %d of %d, %v of key %#x, of values %v: %#x %v, removed %d; want %#x %v, %d",
				i, len(keys), kind, k, before, out[i], ok[i], removed[i], wantOut, wantOK, wantRemoved)
		}
	}
}

// apply runs an operation on the model.
func (s *subject[K, V]) apply(kind weft.OpKind, k K, v V) (out V, ok bool, removed uint32) {
	vals := s.model[k]
	present := len(vals) > 0
	switch kind {
	case weft.OpGet:
		if ok = present; present {
			out = vals[0]
		}
	case weft.OpPut:
		switch {
		case s.policy.multi:
			s.model[k] = append(slices.Clone(vals), v)
		default:
			s.model[k] = []V{v}
		}
		ok = s.policy.multi || !present
	case weft.OpPutNew:
		if ok = !present; present {
			out = vals[0]
		} else {
			s.model[k] = []V{v}
		}
	case weft.OpDelete:
		if ok = present; present {
			s.model[k] = vals[1:]
		}
	case weft.OpDeleteAll:
		ok, removed = present, uint32(len(vals))
		s.model[k] = nil
	}
	return out, ok, removed
}

// lookUp compares all kinds of lookups of keys, and the whole content.
func (s *subject[K, V]) lookUp(keys []K) {
	s.t.Helper()
	n := len(keys)
	vals, found, counts := make([]V, n), make([]bool, n), make([]uint32, n)
	b := s.lookup(keys)
	b.Columns[batch.Vals], b.Columns[batch.OK] = s.vals(vals), batch.Output(found)
	hits, err := s.read(b)
	// Sets have no kernel for this.
	if _, kernels := s.engine().(*gpuEngine); err == nil && !(kernels && s.core.Widths.Val == 0) {
		b := s.lookup(keys)
		b.Columns[batch.Counts] = batch.Output(counts)
		_, err = s.read(b)
	} else {
		for i, k := range keys {
			counts[i] = uint32(len(s.model[k]))
		}
	}
	if err != nil {
		s.t.Fatalf("lookups: %v", err)
	}
	total := 0
	offsets := make([]uint64, n+1)
	for i, k := range keys {
		want := s.model[k]
		if total += len(want); found[i] {
			hits--
		}
		offsets[i+1] = uint64(total)
		if found[i] != (len(want) > 0) || int(counts[i]) != len(want) || s.core.Widths.Val > 0 && found[i] && vals[i] != want[0] {
			s.t.Fatalf("key %#x: %#x %v, %d times; want %v", k, vals[i], found[i], counts[i], want)
		}
	}
	if hits != 0 {
		s.t.Fatalf("get counts %d hits too many", hits)
	}
	s.collect(keys, offsets)
	s.content()
}

// collect compares all values of keys.
func (s *subject[K, V]) collect(keys []K, offsets []uint64) {
	s.t.Helper()
	if s.core.Widths.Val == 0 {
		return
	}
	all := make([]V, offsets[len(keys)])
	if err := s.expand(keys, offsets, all); err != nil {
		s.t.Fatalf("expand: %v", err)
	}
	for i, k := range keys {
		if got := all[offsets[i]:offsets[i+1]]; !slices.Equal(got, s.model[k]) {
			s.t.Fatalf("values of key %#x: %v, want %v", k, got, s.model[k])
		}
	}
}

// expand writes the values of keys to rows.
func (s *subject[K, V]) expand(keys []K, offsets []uint64, rows []V) error {
	b := s.lookup(keys)
	b.Columns[batch.Vals] = batch.Output(rows)
	b.Columns[batch.Vals].Offsets = offsets
	return s.engine().Expand(context.Background(), nil, s.core.Leases.Current(), b)
}

// content compares the exported pairs with the model and checks the memory.
func (s *subject[K, V]) content() {
	s.t.Helper()
	now, buckets := s.counters(), s.gen().buckets+1
	keys, vals := make([]K, now.Live), make([]V, now.Live)
	n, err := s.export(0, buckets, keys, vals)
	if n != len(keys) || err != nil {
		s.t.Fatalf("export of %d pairs: %d, %v", now.Live, n, err)
	}
	got, want := map[K][]V{}, 0
	for i, k := range keys {
		got[k] = append(got[k], vals[i])
	}
	for k, v := range s.model {
		want += len(v)
		if len(got[k]) != len(v) || s.core.Widths.Val > 0 && !slices.Equal(got[k], v) {
			s.t.Fatalf("export has %v for key %#x, want %v", got[k], k, v)
		}
	}
	if want != n {
		s.t.Fatalf("%d pairs, want %d", n, want)
	}
	if n > 0 {
		if short, err := s.export(0, buckets, keys[:n-1], vals[:n-1]); short != n || err != nil {
			s.t.Fatalf("export of %d pairs to columns of %d: %d, %v", n, n-1, short, err)
		}
	}
	if err := s.CheckInvariants(); err != nil {
		s.t.Fatalf("%v", err)
	}
}

// flush runs a flush and checks that no dead slot and no superfluous slab remains.
func (s *subject[K, V]) flush() {
	s.t.Helper()
	if err := s.engine().flush(context.Background()); err != nil {
		s.t.Fatalf("flush: %v", err)
	}
	now := s.counters()
	g := s.engine().geometry()
	pairs := make([]int, g.buckets+1)
	for k, v := range s.model {
		if s.keyBits() == 64 {
			pairs[bucketOf(g, uint64(k))] += len(v)
		} else {
			pairs[bucketOf(g, uint32(k))] += len(v)
		}
	}
	units := 0
	classes := [chainLengths]uint64{}
	for _, n := range pairs {
		slabs := max(ceilDiv(n, slotsIn(s.core.Widths.Slot)), 1)
		units += slabs - 1
		classes[min(slabs, chainLengths-1)]++
	}
	pool, _ := s.engine().units().Usage(context.Background())
	if chains, err := s.engine().chains(context.Background()); now.Used != now.Live || pool.Used != units || chains != classes || err != nil {
		s.t.Fatalf("after flush: %+v, %v, chains %v; want %d slabs, chains %v: %v", now, pool, chains, units, classes, err)
	}
}

func (s *subject[K, V]) keyBits() int { return conformance.Slots{Widths: s.core.Widths}.KeyBits() }

// rehash runs a rehash. If memory does not suffice, nothing may change.
func (s *subject[K, V]) rehash(buckets uint32, units int) {
	s.t.Helper()
	before := s.engine().geometry()
	err := s.engine().rehash(context.Background(), buckets, units)
	now := s.counters()
	switch {
	case err == nil && (s.engine().geometry().buckets != buckets || now.Used != now.Live):
		s.t.Fatalf("rehash to %d buckets: %+v, %+v", buckets, s.engine().geometry(), now)
	case err != nil && (!errors.Is(err, weft.ErrFull) || s.engine().geometry() != before):
		s.t.Fatalf("rehash to %d buckets: %v", buckets, err)
	}
}

func (s *subject[K, V]) close() {
	s.t.Helper()
	if err := s.core.Close(); err != nil {
		s.t.Fatalf("close: %v", err)
	}
}

// shapes runs a test for maps, sets and multimaps of all widths.
func shapes(t *testing.T, test func(t *testing.T, w batch.Widths, multi bool)) {
	for _, w := range []batch.Widths{{Key: 4, Val: 4, Slot: 8}, {Key: 4, Val: 8, Slot: 16}, {Key: 8, Val: 4, Slot: 16}, {Key: 8, Val: 8, Slot: 16}, {Key: 4, Slot: 4}, {Key: 8, Slot: 8}} {
		if conformance.Raced && w.Slot == 16 && w.Key != w.Val {
			continue // the slots have the size of other widths
		}
		for _, multi := range []bool{false, true} {
			if multi && w.Val == 0 {
				continue
			}
			t.Run(fmt.Sprintf("key=%d,val=%d,multi=%v", w.Key, w.Val, multi), func(t *testing.T) { test(t, w, multi) })
		}
	}
}

// typed calls the instance of a test for the given widths.
func typed(w batch.Widths, k4v4, k4v8, k8v4, k8v8 func()) {
	switch {
	case w.Key == 4 && w.Val != 8:
		k4v4()
	case w.Key == 4:
		k4v8()
	case w.Val == 4:
		k8v4()
	default:
		k8v8()
	}
}

// TestCPUEngineProperties runs random small batches on a table of few buckets. The table must match
// the model, and its memory must be valid.
func TestCPUEngineProperties(t *testing.T) {
	shapes(t, func(t *testing.T, w batch.Widths, multi bool) {
		dev := devicetest.OpenCPU(t, 2)
		rapid.Check(t, func(r *rapid.T) {
			typed(w, func() { properties[uint32, uint32](r, dev, w, multi) }, func() { properties[uint32, uint64](r, dev, w, multi) },
				func() { properties[uint64, uint32](r, dev, w, multi) }, func() { properties[uint64, uint64](r, dev, w, multi) })
		})
	})
}

func properties[K, V uint32 | uint64](r *rapid.T, dev device.Device, w batch.Widths, multi bool) {
	buckets := rapid.Uint32Range(1, 5).Draw(r, "buckets")
	fixed := rapid.Bool().Draw(r, "fixed")
	s := newSubject[K, V](r, dev, w, multi, buckets, rapid.IntRange(0, 3).Draw(r, "units"), fixed)
	defer s.close()
	key := rapid.Map(rapid.IntRange(-6, 60), func(i int) K { return K(i) }) // includes sentinels
	val := rapid.Map(rapid.IntRange(-6, 1000), func(i int) V { return V(i) })
	kind := rapid.Map(rapid.IntRange(int(weft.OpGet), int(lastKind(multi))), func(i int) weft.OpKind { return weft.OpKind(i) })
	for range rapid.IntRange(1, 8).Draw(r, "steps") {
		switch rapid.IntRange(0, 9).Draw(r, "step") {
		default:
			keys := rapid.SliceOfN(key, 0, 150).Draw(r, "keys")
			vals := rapid.SliceOfN(val, len(keys), len(keys)).Draw(r, "vals")
			s.change(kind.Draw(r, "kind"), nil, keys, vals)
		case 0, 1, 2:
			keys := rapid.SliceOfN(key, 1, 150).Draw(r, "keys")
			vals := rapid.SliceOfN(val, len(keys), len(keys)).Draw(r, "vals")
			s.change(0, rapid.SliceOfN(kind, len(keys), len(keys)).Draw(r, "kinds"), keys, vals)
		case 3:
			s.flush()
		case 4:
			s.rehash(rapid.Uint32Range(1, 20).Draw(r, "buckets"), rapid.IntRange(0, 5).Draw(r, "units"))
		case 5:
			if err := s.engine().Clear(context.Background()); err != nil {
				r.Fatalf("clear: %v", err)
			}
			clear(s.model)
		}
		s.lookUp(rapid.SliceOfN(key, 0, 100).Draw(r, "keys"))
	}
}

// TestCPUEngineOnManyCores runs large batches on many cores, with pools that run out and grow. The
// results must match the model.
func TestCPUEngineOnManyCores(t *testing.T) {
	shapes(t, func(t *testing.T, w batch.Widths, multi bool) {
		for _, fixed := range []bool{false, true} {
			typed(w, func() { manyCores[uint32, uint32](t, w, multi, fixed) }, func() { manyCores[uint32, uint64](t, w, multi, fixed) },
				func() { manyCores[uint64, uint32](t, w, multi, fixed) }, func() { manyCores[uint64, uint64](t, w, multi, fixed) })
		}
	})
}

func manyCores[K, V uint32 | uint64](t *testing.T, w batch.Widths, multi, fixed bool) {
	rng := rand.New(rand.NewPCG(uint64(w.Slot), uint64(w.Key)))
	s := newSubject[K, V](t, devicetest.OpenCPU(t, 4), w, multi, 150, 300, fixed)
	defer s.close()
	n := 10_000 + rng.IntN(2_000)
	keys, vals, kinds := make([]K, n), make([]V, n), make([]weft.OpKind, n)
	draw := func() {
		for i := range keys {
			keys[i], vals[i] = K(rng.IntN(8_000)-4), V(rng.Uint64())
			kinds[i] = weft.OpKind(rng.IntN(int(lastKind(multi)) + 1))
		}
	}
	for round := range 6 {
		draw()
		switch round {
		case 1, 4:
			s.change(0, kinds, keys, vals)
		default:
			s.change([]weft.OpKind{weft.OpPut, 0, weft.OpDelete, weft.OpPutNew, 0, lastKind(multi)}[round], nil, keys, vals)
		}
		draw()
		s.lookUp(keys)
		switch round {
		case 2:
			s.flush()
		case 3:
			s.rehash(uint32(1+rng.IntN(400)), 100)
		case 4:
			if !fixed {
				if err := s.engine().units().Reserve(t.Context(), 2000); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.content()
	}
	if fixed && w.Slot == 16 && multi && s.full == 0 {
		t.Errorf("the pool never ran out")
	}
}
