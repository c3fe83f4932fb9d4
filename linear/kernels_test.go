package linear

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
)

// modelTest is an engine of kernels together with a model. The keys of a set have values in the
// model, which are not compared.
type modelTest[K, V uint32 | uint64] struct {
	testing.TB
	engine engine
	policy *policy
	dev    device.Device
	leases *core.Leases
	stream *device.Stream
	rng    *rand.Rand
	model  map[K]V
}

// KernelsAgainstModel runs every operation of an engine on small tables and compares all results
// with a Go map. It uses host and device memory, the launches for low and for high load, batches
// without optional columns, and batches that overflow.
func KernelsAgainstModel[K, V uint32 | uint64](t testing.TB, dev device.Device, set bool, opts Options) {
	s := newModelTest[K, V](t, dev, set, opts, 3)
	defer s.close()
	for round := range 2 {
		s.change(weft.OpPut, 40, 40)
		s.change(weft.OpPutNew, 40, 40)
		s.mixed(60)
		s.change(weft.OpDelete, 60, 60)
		s.change(weft.OpPut, 270, 270) // more keys than the table holds
		s.change(weft.OpDelete, 60, 60)
		s.change(weft.OpPutNew, 270, 270)
		s.rehash(1) // too small
		s.rehashInPlace()
		s.check(false)
		s.mixed(160)
		s.rehash([]uint32{30, 80}[round])
		s.change(weft.OpDelete, 60, 120)
		s.rehashInPlace()
		s.check(false)
		s.overlap(120)
		for _, kind := range []weft.OpKind{weft.OpPut, weft.OpDelete, weft.OpPutNew} {
			s.change(kind, 380, 60) // more duplicates than a block has threads
		}
		s.rehash(5)
	}
}

// LargeTable tests a table with more lines than a path, and lookups with more keys than can have a
// tile each.
func LargeTable[K, V uint32 | uint64](t testing.TB, dev device.Device, set bool) {
	s := newModelTest[K, V](t, dev, set, Options{}, maxPath+100)
	defer s.close()
	s.change(weft.OpPut, 60, 60)
	s.change(weft.OpDelete, 40, 60)
	s.change(weft.OpPutNew, 40, 60)
	s.rehash(3)
	for range 4 { // by sectors and by lines
		keys, vals := s.draw(gpu.MaxTiledKeys+300, gpu.MaxTiledKeys+300)
		for i, found := range s.lookUp(keys, vals) {
			if v, there := s.model[keys[i]]; found != there || !set && vals[i] != v {
				t.Fatalf("key %#x: %#x, %v, want %#x, %v", keys[i], vals[i], found, v, there)
			}
		}
	}
	s.rehash(maxPath + 100)
}

func newModelTest[K, V uint32 | uint64](t testing.TB, dev device.Device, set bool, opts Options, lines uint32) *modelTest[K, V] {
	w := batch.MapWidths[K, V]()
	if set {
		w = batch.SetWidths[K]()
	}
	e, leases, err := newEngine(dev, w, geometry{seed: 5, lines: lines}, true)
	if err != nil {
		t.Fatal(err)
	}
	smallLaunches(e)
	stream, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	p := &policy{opts: opts, widths: w, engine: e}
	t.Cleanup(func() { // runs after close, even if the test has failed
		if _, err := leases.Close(); err != nil {
			t.Error(err)
		}
	})
	return &modelTest[K, V]{t, e, p, dev, leases, stream, rand.New(rand.NewPCG(1, 2)), map[K]V{}}
}

func (s *modelTest[K, V]) close() {
	s.Helper()
	if err := errors.Join(s.stream.Close(), s.engine.Close(), s.leases.Free()); err != nil {
		s.Error(err)
	}
}

// draw returns a batch of n operations. different is the number of distinct keys; some of them look
// like sentinels.
func (s *modelTest[K, V]) draw(n, different int) (keys []K, vals []V) {
	order := s.rng.Perm(different)
	for i := range n {
		k := s.rng.IntN(different)
		if n == different { // each key once
			k = order[i]
		}
		keys, vals = append(keys, K(k-4)), append(vals, V(s.rng.Uint64()))
	}
	return keys, vals
}

// change runs a batch of one kind. The batch repeats keys only if the engine guarantees batch
// order.
func (s *modelTest[K, V]) change(kind weft.OpKind, n, different int) {
	s.Helper()
	if s.policy.widths.Val == 0 && kind == weft.OpPut {
		kind = weft.OpPutNew
	}
	if s.policy.opts.Unordered {
		n = different
	}
	keys, vals := s.draw(n, different)
	s.run(&batch.Batch{Kind: op.Kind(kind), Flags: s.policy.Flags(op.Kind(kind))}, nil, keys, vals)
}

// mixed runs a batch with all kinds of operations. Each key occurs once, so that the order does not
// matter. Sets skip it.
func (s *modelTest[K, V]) mixed(n int) {
	if s.policy.widths.Val == 0 {
		return
	}
	keys, vals := s.draw(n, n)
	s.run(&batch.Batch{}, s.kinds(n), keys, vals)
}

func (s *modelTest[K, V]) kinds(n int) []weft.OpKind {
	kinds := make([]weft.OpKind, n)
	for i := range kinds {
		kinds[i] = weft.OpKind(s.rng.IntN(4))
	}
	return kinds
}

// overlap runs lookups on another stream during a change. The lookups may see part of the change,
// and the simulator checks that the unordered accesses are legal. The table must have free slots.
func (s *modelTest[K, V]) overlap(n int) {
	s.Helper()
	keys, vals := s.draw(n, n)
	b := &batch.Batch{N: n, Kind: op.Delete, Columns: batch.Columns{batch.Keys: batch.Input(keys)}}
	look := &batch.Batch{N: n, Columns: batch.Columns{batch.Keys: batch.Input(keys), batch.OK: batch.Output(make([]bool, n))}}
	kinds := slices.Repeat([]weft.OpKind{weft.OpDelete}, n)
	if s.policy.widths.Val > 0 {
		kinds = s.kinds(n)
		b.Columns[batch.Kinds], b.Columns[batch.Vals] = batch.Input(kinds), batch.Input(vals)
		look.Columns[batch.Vals] = batch.Output(make([]V, n))
	}
	other, err := s.dev.NewStream()
	if err != nil {
		s.Fatal(err)
	}
	s.onDevice(look, func() error {
		if err := s.stream.Sync(context.Background()); err != nil {
			return err
		}
		s.onDevice(b, func() error {
			_, _, err := s.engine.Change(context.Background(), s.stream, b)
			for _, load := range []float64{-1, 2} {
				s.wide(load)
				_, _, e := s.engine.Lookup(context.Background(), other, s.leases.Current(), look, 0)
				err = errors.Join(err, e)
			}
			return err
		})
		return other.Close()
	})
	for i, k := range keys {
		s.apply(kinds[i], k, vals[i])
	}
	s.check(false)
}

// run runs a batch on the engine and on the model and compares the results.
func (s *modelTest[K, V]) run(b *batch.Batch, kinds []weft.OpKind, keys []K, vals []V) {
	s.Helper()
	out, ok := make([]V, len(keys)), make([]bool, len(keys))
	if s.rng.IntN(4) == 0 || b.Kind == op.Put {
		ok = nil
	}
	b.N = len(keys)
	s.wide(float64(3*s.rng.IntN(2) - 1))
	b.Columns[batch.Keys], b.Columns[batch.OK] = batch.Input(keys), batch.Optional(ok)
	if kinds != nil {
		b.Columns[batch.Kinds] = batch.Input(kinds)
	}
	if s.policy.widths.Val > 0 {
		b.Columns[batch.Vals] = batch.Input(vals)
		if kinds != nil {
			b.Columns[batch.Out] = batch.Output(out)
		}
	}
	failed, dropped := s.execute(b)
	there := s.lookUp(keys, nil)
	var full []uint32
	for i, k := range keys {
		kind := b.Kind
		if kinds != nil {
			kind = op.Kind(kinds[i])
		}
		_, before := s.model[k]
		if inserts := kind == op.Put || kind == op.PutNew; inserts && !before && !there[i] {
			full = append(full, uint32(i))
			if ok != nil && ok[i] {
				s.Fatalf("operation %d of %d, %v of key %#x, found no room and says that it did", i, b.N, kind, k)
			}
			continue
		}
		wantOut, wantOK := s.apply(weft.OpKind(kind), k, vals[i])
		if ok != nil && ok[i] != wantOK || kinds != nil && out[i] != wantOut {
			s.Fatalf("operation %d of %d, %v of key %#x: %#x, want %#x, %v", i, b.N, kind, k, out[i], wantOut, wantOK)
		}
	}
	if dropped != len(full) || failed != nil && !slices.Equal(failed, full) {
		s.Fatalf("the device reports %d operations without room: %d, want %d", dropped, failed, full)
	}
	s.check(len(full) > 0)
}

func (s *modelTest[K, V]) apply(kind weft.OpKind, k K, v V) (out V, ok bool) {
	have, there := s.model[k]
	switch kind {
	case weft.OpGet:
		return have, there
	case weft.OpPut:
		s.model[k] = v
		return 0, !there
	case weft.OpPutNew:
		if !there {
			s.model[k] = v
		}
		return have, !there
	}
	delete(s.model, k)
	return 0, there
}

// execute runs a batch in host or device memory. dropped is the number of operations that found no
// slot. failed lists them for batches in host memory only.
func (s *modelTest[K, V]) execute(b *batch.Batch) (failed []uint32, dropped int) {
	s.Helper()
	if s.rng.IntN(2) == 0 {
		done, failed, err := s.engine.Change(context.Background(), nil, b)
		if done != b.N || err != nil {
			s.Fatalf("change: %d of %d operations: %v", done, b.N, err)
		}
		return failed, len(failed)
	}
	s.onDevice(b, func() error {
		_, _, err := s.engine.Change(context.Background(), s.stream, b)
		return err
	})
	if _, err := s.engine.ReadCounters(context.Background()); err != nil { // waits for the batch
		s.Fatal(err)
	}
	dropped, err := s.engine.ReadDropped(context.Background())
	if err != nil {
		s.Fatal(err)
	}
	return nil, dropped
}

func (s *modelTest[K, V]) wide(load float64) {
	k := &s.engine.(*gpuEngine).kernel
	k.wideGet, k.wideChange = load, load
}

// onDevice copies a batch to the device for the duration of do, and then copies its outputs back.
func (s *modelTest[K, V]) onDevice(b *batch.Batch, do func() error) {
	s.Helper()
	var err error
	var used []device.Buffer
	for r := range b.Columns {
		if c := &b.Columns[r]; c.Host != nil {
			buf, e := s.dev.Alloc(len(c.Host))
			err = errors.Join(err, e, s.stream.CopyIn(buf.Ptr, c.Host))
			c.Ptr = buf.Ptr
			used = append(used, buf)
		}
	}
	if err == nil {
		err = do()
	}
	for _, c := range b.Columns {
		if c.Host != nil && c.IsOutput() {
			err = errors.Join(err, s.stream.CopyOut(context.Background(), c.Host, c.Ptr))
		}
	}
	err = errors.Join(err, s.stream.Sync(context.Background()))
	for _, buf := range used {
		err = errors.Join(err, s.dev.Free(buf))
	}
	if err != nil {
		s.Fatal(err)
	}
}

// lookUp looks keys up, in host or device memory.
func (s *modelTest[K, V]) lookUp(keys []K, vals []V) (found []bool) {
	s.Helper()
	found = make([]bool, len(keys))
	b := &batch.Batch{N: len(keys), Columns: batch.Columns{batch.Keys: batch.Input(keys), batch.OK: batch.Output(found)}}
	s.wide(float64(3*s.rng.IntN(2) - 1))
	if s.policy.widths.Val > 0 {
		b.Columns[batch.Vals] = batch.Optional(vals)
	}
	if s.rng.IntN(2) == 0 {
		s.onDevice(b, func() error {
			_, _, err := s.engine.Lookup(context.Background(), s.stream, s.leases.Current(), b, 0)
			return err
		})
		return found
	}
	done, hits, err := s.engine.Lookup(context.Background(), nil, s.leases.Current(), b, 0)
	if done != b.N {
		s.Fatalf("%d of %d keys looked up", done, b.N)
	}
	for _, f := range found {
		if f {
			hits--
		}
	}
	if hits != 0 || err != nil {
		s.Fatalf("get counts %d keys too many: %v", hits, err)
	}
	return found
}

// check compares lookups, an iteration and the statistics with the model. full means that an
// operation found no slot; then the table must be full.
func (s *modelTest[K, V]) check(full bool) {
	s.Helper()
	keys, _ := s.draw(140, 140)
	vals := make([]V, len(keys))
	found := s.lookUp(keys, vals)
	hits, fresh := 0, map[K]bool{}
	for i, k := range keys {
		v, there := s.model[k]
		if found[i] != there || s.policy.widths.Val > 0 && vals[i] != v {
			s.Fatalf("key %#x: %#x, %v, want %#x, %v", k, vals[i], found[i], v, there)
		}
		if there {
			hits++
		} else {
			fresh[k] = true
		}
	}
	all := &batch.Batch{N: len(keys), Kind: op.Put, Columns: batch.Columns{batch.Keys: batch.Input(keys)}}
	n, _, err := core.EstimateInserts(context.Background(), s.engine, core.Counters{Live: 1}, nil, all, all.N, 3)
	if n < len(fresh) || n > len(keys)-hits || err != nil {
		s.Fatalf("%d keys are said to be new, want %d to %d: %v", n, len(fresh), len(keys)-hits, err)
	}
	s.content()
	im := s.image()
	if err := im.check(s.policy.opts.Tombstones == Keep); err != nil {
		s.Fatal(err)
	}
	now, err := s.engine.ReadCounters(context.Background())
	sum, longest, e := s.engine.probeLengths(context.Background())
	if err := errors.Join(err, e); err != nil {
		s.Fatal(err)
	}
	if wantSum, wantLongest := im.probeLengths(); sum != wantSum || int(longest) != wantLongest {
		s.Fatalf("probe lengths: sum %d, longest %d, by walking %d, %d", sum, longest, wantSum, wantLongest)
	}
	if slots := im.slots() - lineBytes/s.policy.widths.Slot; full && int(now.Used)-s.sentinels() < slots || int(now.Live) != len(s.model) {
		s.Fatalf("%+v; %d keys in %d slots, full is %v", now, len(s.model), slots, full)
	}
}

func (s *modelTest[K, V]) image() image {
	s.Helper()
	t := &table{core.New(core.Config{Device: s.dev, Widths: s.policy.widths, Engine: s.engine, Leases: s.leases}), s.policy}
	im, err := t.image()
	if err != nil {
		s.Fatal(err)
	}
	return im
}

func (s *modelTest[K, V]) sentinels() (n int) {
	bits := conformance.Slots{Widths: s.policy.widths}.KeyBits()
	for k := range s.model {
		if ^uint64(k)<<(64-bits)>>(64-bits) <= lastSentinel {
			n++
		}
	}
	return n
}

// content compares exports with the model, for a few lines at a time and for all lines.
func (s *modelTest[K, V]) content() {
	s.Helper()
	lease := s.leases.Current()
	units, per := s.engine.Extent(lease)
	left, page := len(s.model), []uint32{4, units}[s.rng.IntN(2)]
	for lo := uint32(0); lo < units; lo += page {
		hi := min(lo+page, units)
		n := int(hi-lo) * per
		keys, vals := make([]K, n), make([]V, n)
		out := &batch.Batch{N: n, Columns: batch.Columns{batch.Keys: batch.Output(keys)}}
		if s.policy.widths.Val > 0 {
			out.Columns[batch.Vals] = batch.Output(vals)
		}
		n, err := s.engine.Export(context.Background(), lease, lo, hi, out)
		if err != nil || n > len(keys) {
			s.Fatalf("export of lines %d to %d: %d pairs, %v", lo, hi, n, err)
		}
		for i, k := range keys[:n] {
			if v, there := s.model[k]; !there || s.policy.widths.Val > 0 && v != vals[i] {
				s.Fatalf("lines %d to %d have %#x for key %#x, want %#x, %v", lo, hi, vals[i], k, v, there)
			}
		}
		left -= n
	}
	if left != 0 {
		s.Fatalf("export has %d pairs too few", left)
	}
}

// rehash rehashes to a number of lines. If these are too few, it requires an error and an unchanged
// table.
func (s *modelTest[K, V]) rehash(lines uint32) {
	s.Helper()
	before := s.engine.geometry()
	err := s.engine.rehash(context.Background(), lines, true)
	room := int(lines)*lineBytes/s.policy.widths.Slot + s.sentinels()
	if now := s.engine.geometry().lines; len(s.model) <= room {
		if err != nil || now != lines {
			s.Fatalf("rehash to %d lines, now %d: %v", lines, now, err)
		}
	} else if !errors.Is(err, weft.ErrFull) || now != before.lines {
		s.Fatalf("rehash of %d keys to %d lines, now %d: %v", len(s.model), lines, now, err)
	}
	s.check(false)
}

// rehashInPlace requires a rehash in place to drop all dead slots, unless no slot is empty.
func (s *modelTest[K, V]) rehashInPlace() {
	s.Helper()
	before, err := s.engine.ReadCounters(context.Background())
	if err != nil {
		s.Fatal(err)
	}
	done, err := s.engine.rehashInPlace(context.Background())
	if err != nil || !done && int(before.Used) < s.policy.slots() {
		s.Fatalf("rehash in place of %d slots with %+v: %v, %v", s.policy.slots(), before, done, err)
	}
	after, err := s.engine.ReadCounters(context.Background())
	if err != nil || after.Live != before.Live || done && after.Used > after.Live+s.nDead() {
		s.Fatalf("rehash in place from %+v to %+v: %v", before, after, err)
	}
}

// nDead returns the maximum number of dead slots after a rehash in place. On a GPU, dead slots of
// the extra line stay.
func (s *modelTest[K, V]) nDead() uint64 {
	if _, ok := s.engine.(*gpuEngine); ok {
		return lastSentinel + 1
	}
	return 0
}
