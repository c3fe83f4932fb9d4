package slab

import (
	"context"
	"encoding/binary"
	"errors"
	"github.com/weftgo/weft/internal/op"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

// modelTest is an engine of kernels with a model. Threads run in no order. So the results of its
// batches depend on no order, unless the engine promises batch order.
type modelTest[K, V uint32 | uint64] struct {
	*subject[K, V]
	stream *device.Stream
	rng    *rand.Rand
}

// kernelsAgainstModel runs all operations of an engine on tables of few buckets, in host memory and
// on the device. Columns are left out, and tables overflow. It compares all results with a model.
func kernelsAgainstModel[K, V uint32 | uint64](t testing.TB, dev device.Device, w batch.Widths, multi, unordered bool) {
	stream, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	// Two memory blocks, in one super block or in two.
	light := !multi && !unordered
	s := &modelTest[K, V]{newSubject[K, V](t, dev, w, multi, 3, 2*alloc.BlockUnits, light), stream, rand.New(rand.NewPCG(1, 2))}
	defer s.close()
	s.policy.opts.Unordered = unordered
	const plenty, few = alloc.BlockUnits, 3
	many := 300
	if w.Slot == 16 { // slabs have half as many slots, so half as many keys form the same chains
		many = 150
	}
	for round := range 2 {
		s.uniform(weft.OpPut, 40, plenty)
		s.uniform(weft.OpPutNew, many/2, plenty)
		s.mixedOps(60, plenty)
		s.uniform(weft.OpDelete, 60, plenty)
		s.uniform(weft.OpPut, many, few)
		s.flush()
		s.uniform(weft.OpDelete, many/3, few)
		s.uniform(weft.OpPutNew, many-30, few)
		s.mixedOps(many*2/3, few)
		s.countDropped(2)
		s.rehash([]uint32{150, 1}[round], 2*alloc.BlockUnits)
		for range 3 {
			s.overlap(60)
		}
		s.crowd(270)
		s.collectOn(50)
		s.pages()
		s.shortExport()
		s.uniform(weft.OpDeleteAll, many/2, plenty)
		s.flush()
		s.rehash(3, 2*alloc.BlockUnits)
	}
	// A flush that frees slabs, even slabs of 30 slots.
	s.uniform(weft.OpPutNew, 250, plenty)
	s.uniform(weft.OpDelete, 200, plenty)
	s.flush()
	err = s.engine().Clear(context.Background())
	if used := s.used(); used != 0 || err != nil {
		t.Fatalf("Clear leaves %d slots: %v", used, err)
	}
	clear(s.model)
	s.uniform(weft.OpPut, 40, plenty)
}

// draw returns random operations. Some have keys that equal sentinels. If batch order determines
// the results, several may have the same key.
func (s *modelTest[K, V]) draw(n int, different bool) (keys []K, vals []V) {
	for _, i := range s.rng.Perm(n) {
		if !different {
			i = s.rng.IntN(n)
		}
		keys, vals = append(keys, K(i-4)), append(vals, V(s.rng.Uint64()))
	}
	return keys, vals
}

// uniform runs a batch of one kind while the pool has at most the given number of free units. Maps
// have no DeleteAll, and sets no Put.
func (s *modelTest[K, V]) uniform(kind weft.OpKind, n, free int) {
	s.t.Helper()
	switch {
	case s.core.Widths.Val == 0 && kind == weft.OpPut:
		kind = weft.OpPutNew
	case !s.policy.multi && kind == weft.OpDeleteAll:
		kind = weft.OpDelete
	}
	f := s.policy.Flags(op.Kind(kind))
	keys, vals := s.draw(n, f&batch.Order == 0)
	s.run(&batch.Batch{Kind: op.Kind(kind), Flags: f}, nil, keys, vals, free)
}

// mixedOps runs a batch of all kinds with different keys. Sets have no mixed batches.
func (s *modelTest[K, V]) mixedOps(n, free int) {
	s.t.Helper()
	if s.core.Widths.Val == 0 {
		return
	}
	keys, vals := s.draw(n, true)
	s.run(&batch.Batch{Flags: s.policy.MixedFlags()}, s.kinds(n), keys, vals, free)
}

func (s *modelTest[K, V]) kinds(n int) []weft.OpKind {
	kinds := make([]weft.OpKind, n)
	for i := range kinds {
		kinds[i] = weft.OpKind(s.rng.IntN(int(lastKind(s.policy.multi)) + 1))
	}
	return kinds
}

// overlap runs lookups on another stream during a change, so that they may see part of it. The
// simulator checks that these unordered accesses are permitted.
func (s *modelTest[K, V]) overlap(n int) {
	s.t.Helper()
	keys, vals := s.draw(n, true)
	b := s.lookup(keys)
	b.Kind, b.Columns[batch.Vals] = op.PutNew, s.given(vals)
	const most = 40 // maximum number of values of a key
	look := s.lookup(keys)
	look.Columns[batch.OK], look.Columns[batch.Vals] = batch.Output(make([]bool, n)), s.vals(make([]V, most*n))
	kinds, starts := slices.Repeat([]weft.OpKind{weft.OpPutNew}, n), make([]uint64, n+1)
	for i := range starts {
		starts[i] = uint64(most * i)
	}
	e := s.engine().(*gpuEngine)
	read := func(to *device.Stream, b batch.Batch, drop batch.Role) error {
		b.Columns[drop] = batch.Column{}
		_, _, err := e.Lookup(context.Background(), to, s.core.Leases.Current(), &b, 0)
		return err
	}
	other, err := s.core.Device.NewStream()
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	lookups := []func() error{func() error { return read(other, *look, batch.Counts) }}
	if s.core.Widths.Val > 0 {
		kinds = s.kinds(n)
		b.Columns[batch.Kinds] = batch.Input(kinds)
		look.Columns[batch.Counts], look.Columns[batch.Out] = batch.Output(make([]uint32, n)), batch.Input(starts)
		lookups = append(lookups,
			func() error { return read(other, *look, batch.Out) },
			func() error {
				c := &look.Columns
				return e.kernel.WriteRows(other, s.gen(), n, c[batch.Keys].Ptr, c[batch.Out].Ptr, c[batch.Vals].Ptr, 0, 0, uint64(most*n))
			})
	}
	s.rng.Shuffle(len(lookups), func(i, j int) { lookups[i], lookups[j] = lookups[j], lookups[i] })
	s.onDevice(look, func() error {
		if err := s.stream.Sync(context.Background()); err != nil {
			return err
		}
		s.onDevice(b, func() error {
			_, _, err := e.Change(context.Background(), s.stream, b)
			for _, look := range lookups {
				err = errors.Join(err, look())
			}
			return err
		})
		return other.Close()
	})
	for i, k := range keys {
		s.apply(kinds[i], k, vals[i])
	}
	s.lookUp(keys)
}

// run runs a batch on the engine and on the model and compares the results.
func (s *modelTest[K, V]) run(b *batch.Batch, kinds []weft.OpKind, keys []K, vals []V, free int) {
	s.t.Helper()
	out, ok, removed := make([]V, len(keys)), make([]bool, len(keys)), make([]uint32, len(keys))
	if s.rng.IntN(4) == 0 || b.Kind == op.Put {
		ok = nil
	}
	if !s.policy.multi || s.rng.IntN(4) == 0 {
		removed = nil
	}
	b.N = len(keys)
	b.Columns = batch.Columns{
		batch.Keys: batch.Input(keys), batch.Kinds: batch.Input(kinds), batch.OK: batch.Output(ok), batch.Counts: batch.Output(removed),
		batch.Vals: s.given(vals),
	}
	if kinds != nil {
		b.Columns[batch.Out] = s.vals(out)
	}
	failed, dropped := s.execute(b, free)
	now := s.numbers(keys)
	full := 0
	for i, k := range keys {
		kind := b.Kind
		if kinds != nil {
			kind = op.Kind(kinds[i])
		}
		before := len(s.model[k])
		adds := kind == op.Put && s.policy.multi || (kind == op.Put || kind == op.PutNew) && before == 0
		if adds && now[i] == before {
			full++
			if _, listed := slices.BinarySearch(failed, uint32(i)); failed != nil && !listed || ok != nil && ok[i] {
				s.t.Fatalf("operation %d of %d, %v of key %#x, found no room: listed is %v", i, b.N, kind, k, listed)
			}
			continue
		}
		wantOut, wantOK, wantRemoved := s.apply(weft.OpKind(kind), k, vals[i])
		if ok != nil && ok[i] != wantOK || kinds != nil && s.core.Widths.Val > 0 && out[i] != wantOut || removed != nil && kind == op.DeleteAll && removed[i] != wantRemoved {
			s.t.Fatalf("operation %d of %d, %v of key %#x: %#x %v, removed %v; want %#x %v, %d", i, b.N, kind, k, out[i], ok, removed, wantOut, wantOK, wantRemoved)
		}
	}
	// A duplicate may have found the unit that another duplicate did not find.
	if dropped < full || dropped > full && b.Flags&batch.Order == 0 || dropped > 0 && free >= alloc.BlockUnits {
		s.t.Fatalf("the device reports %d operations without room, but the batch has %d", dropped, full)
	}
	some, _ := s.draw(100, true)
	s.lookUp(some)
}

// execute runs a batch from host memory, or from device memory, where the engine may wait for the
// result. It returns the reported number of operations that overflowed (dropped), and their list
// (failed), if any.
func (s *modelTest[K, V]) execute(b *batch.Batch, free int) (failed []uint32, dropped int) {
	s.t.Helper()
	show, err := hide(s.core.Device, s.engine().units(), free)
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	switch s.rng.IntN(3) {
	case 0:
		var done int
		if done, failed, err = s.engine().Change(context.Background(), nil, b); done != b.N {
			s.t.Fatalf("change: %d of %d operations: %v", done, b.N, err)
		}
		failed, dropped = append([]uint32{}, failed...), len(failed)
	case 1:
		b.Flags |= batch.Report
		s.onDevice(b, func() error {
			_, failed, err = s.engine().Change(context.Background(), s.stream, b)
			return err
		}, batch.OK, batch.Out, batch.Counts)
		slices.Sort(failed)
		failed, dropped = append([]uint32{}, failed...), len(failed)
	case 2:
		s.onDevice(b, func() error {
			_, _, err := s.engine().Change(context.Background(), s.stream, b)
			return err
		}, batch.OK, batch.Out, batch.Counts)
		dropped, err = s.engine().ReadDropped(context.Background())
	}
	if err := errors.Join(err, show()); err != nil {
		s.t.Fatalf("%v", err)
	}
	return failed, dropped
}

// onDevice copies a batch to the device, runs do, and copies the given columns back.
func (s *modelTest[K, V]) onDevice(b *batch.Batch, do func() error, back ...batch.Role) {
	s.t.Helper()
	var err error
	var used []device.Buffer
	host := b.Columns
	for r, c := range host {
		if c.Host != nil {
			buf, e := s.core.Device.Alloc(len(c.Host))
			err = errors.Join(err, e, s.stream.CopyIn(buf.Ptr, c.Host))
			b.Columns[r] = c.WithPtr(buf.Ptr)
			used = append(used, buf)
		}
	}
	if err == nil {
		err = do()
	}
	for _, r := range back {
		if host[r].Host != nil {
			err = errors.Join(err, s.stream.CopyOut(context.Background(), host[r].Host, b.Columns[r].Ptr))
		}
	}
	err = errors.Join(err, s.stream.Sync(context.Background()))
	b.Columns = host
	for _, buf := range used {
		err = errors.Join(err, s.core.Device.Free(buf))
	}
	if err != nil {
		s.t.Fatalf("%v", err)
	}
}

// numbers returns the number of values of each key. A present key of a set has one.
func (s *modelTest[K, V]) numbers(keys []K) []int {
	s.t.Helper()
	found, counts, n := make([]bool, len(keys)), make([]uint32, len(keys)), make([]int, len(keys))
	b, back := s.lookup(keys), batch.OK
	if b.Columns[batch.OK] = batch.Output(found); s.core.Widths.Val > 0 {
		b, back = s.lookup(keys), batch.Counts
		b.Columns[batch.Counts] = batch.Output(counts)
	}
	s.onDevice(b, func() error {
		_, _, err := s.engine().Lookup(context.Background(), s.stream, s.core.Leases.Current(), b, 0)
		return err
	}, back)
	for i := range n {
		if n[i] = int(counts[i]); found[i] {
			n[i] = 1
		}
	}
	return n
}

// collectOn lists values of keys on the device, with fewer rows than values and with enough rows.
func (s *modelTest[K, V]) collectOn(n int) {
	s.t.Helper()
	if s.core.Widths.Val == 0 {
		return
	}
	keys, _ := s.draw(n, false)
	var want []V
	offsets := []uint64{0}
	for _, k := range keys {
		want = append(want, s.model[k]...)
		offsets = append(offsets, uint64(len(want)))
	}
	for _, rows := range []int{len(want), len(want) / 2, 1} {
		// Memory after the offsets and the values must not be written.
		out, at := slices.Repeat([]V{7}, len(want)+40), slices.Repeat([]uint64{7}, n+9)
		b := s.lookup(keys)
		b.Columns[batch.Vals], b.Columns[batch.Counts], b.Columns[batch.Offsets] = batch.Output(out), batch.Output(make([]uint32, n)), batch.Output(at)
		s.onDevice(b, func() error {
			b := *b
			b.Columns[batch.Vals] = batch.Output(out[:rows]).WithPtr(b.Columns[batch.Vals].Ptr)
			return s.engine().Expand(context.Background(), s.stream, s.core.Leases.Current(), &b)
		}, batch.Vals, batch.Offsets)
		if !slices.Equal(at[:n+1], offsets) || slices.Max(at[n+1:]) != 7 {
			s.t.Fatalf("offsets %d, want %d", at, offsets)
		}
		if !slices.Equal(out[:rows], want[:rows]) || slices.Max(out[rows:]) != 7 || slices.Min(out[rows:]) != 7 {
			s.t.Fatalf("%d rows are %#x, want %#x", rows, out, want)
		}
	}
}

// pages compares exports of a few buckets at a time.
func (s *modelTest[K, V]) pages() {
	s.t.Helper()
	g, left := s.gen(), 0
	for _, vals := range s.model {
		left += len(vals)
	}
	some := max(2, g.buckets/3)
	for lo := uint32(0); lo <= g.buckets; lo += some {
		keys, vals := make([]K, 2000), make([]V, 2000)
		n, err := s.export(lo, min(lo+some, g.buckets+1), keys, vals)
		if err != nil || n > len(keys) {
			s.t.Fatalf("export from bucket %d on: %d pairs, %v", lo, n, err)
		}
		for i, k := range keys[:n] {
			if s.core.Widths.Val > 0 && !slices.Contains(s.model[k], vals[i]) || len(s.model[k]) == 0 {
				s.t.Fatalf("buckets from %d on have %#x for key %#x, want %#x", lo, vals[i], k, s.model[k])
			}
		}
		left -= n
	}
	if left != 0 {
		s.t.Fatalf("export has %d pairs too few", left)
	}
}

// shortExport exports more pairs than rows. All pairs must be counted, and nothing written after
// the rows.
func (s *modelTest[K, V]) shortExport() {
	s.t.Helper()
	live := s.counters().Live
	e, count := s.engine().(*gpuEngine), make([]uint64, 1)
	keys, vals := slices.Repeat([]K{9999}, int(live)), slices.Repeat([]V{9999}, int(live))
	rows := len(keys) / 2
	b := s.pairs(keys, vals)
	b.N, b.Columns[batch.Out] = rows, batch.Output(count)
	s.onDevice(b, func() error {
		return e.kernel.Export(s.stream, s.gen(), 0, s.gen().buckets+1, b, b.Columns[batch.Out].Ptr)
	}, batch.Keys, batch.Vals, batch.Out)
	written := func(k K) bool { return k != 9999 }
	if count[0] != live || slices.ContainsFunc(keys[rows:], written) || !slices.ContainsFunc(keys[:rows], written) ||
		s.core.Widths.Val > 0 && (slices.Max(vals[rows:]) != 9999 || slices.Min(vals[rows:]) != 9999) {
		s.t.Fatalf("export of %d pairs to %d rows: %d; %d, %#x", live, rows, count, keys, vals)
	}
}

// crowd runs more operations than a block has threads on few keys. In a map or a set these are
// duplicates, and any one may win. In a multimap the keys get many values, in any order.
func (s *modelTest[K, V]) crowd(n int) {
	s.t.Helper()
	keys, vals := s.draw(n, false)
	if !s.policy.multi {
		for i := range keys {
			keys[i] %= 60
		}
		for _, kind := range []weft.OpKind{weft.OpPut, weft.OpDelete, weft.OpPutNew} {
			if f := s.policy.Flags(op.Kind(kind)); f&batch.Order != 0 && (kind != weft.OpPut || s.core.Widths.Val > 0) {
				s.run(&batch.Batch{Kind: op.Kind(kind), Flags: f}, nil, keys, vals, alloc.BlockUnits)
			}
		}
		return
	}
	for i := range keys {
		keys[i] = K(i%2) + 1000
	}
	b := s.lookup(keys)
	b.Kind, b.Flags, b.Columns[batch.Vals] = op.Put, s.policy.Flags(op.Put), batch.Input(vals)
	if _, lost := s.execute(b, alloc.BlockUnits); lost != 0 {
		s.t.Fatalf("%d of %d pairs have no room", lost, n)
	}
	for i, many := range s.numbers(keys[:2]) {
		want, got := s.model[keys[i]], make([]V, many)
		for j := i; j < n; j += 2 {
			want = append(slices.Clip(want), vals[j])
		}
		if err := s.expand(keys[i:i+1], []uint64{0, uint64(many)}, got); err != nil {
			s.t.Fatalf("expand: %v", err)
		}
		if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			s.t.Fatalf("key %d has values %#x, want %#x in any order", keys[i], got, want)
		}
		s.model[keys[i]] = got
	}
	s.hints()
	s.lookUp(keys[:2])
}

// hints checks that each chain of more than one slab has a tail hint.
func (s *modelTest[K, V]) hints() {
	s.t.Helper()
	im, err := s.image()
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	for b := range im.buckets {
		link := im.base[int(b)*slabBytes+slabBytes-8:]
		if tail, next := binary.LittleEndian.Uint32(link), binary.LittleEndian.Uint32(link[4:]); (tail == noUnit) != (next == noUnit) {
			s.t.Fatalf("bucket %d goes on at %#x; its end is said to be near %#x", b, next, tail)
		}
	}
}

// countDropped moves all pairs to a table without units, and checks the number of pairs that
// overflow.
func (s *modelTest[K, V]) countDropped(buckets uint32) {
	s.t.Helper()
	g := s.engine().geometry()
	to := geometry{seed: g.seed, buckets: buckets}
	pairs := make([]int, buckets+1)
	for k, vals := range s.model {
		if s.keyBits() == 64 {
			pairs[bucketOf(to, uint64(k))] += len(vals)
		} else {
			pairs[bucketOf(to, uint32(k))] += len(vals)
		}
	}
	without := 0
	for _, n := range pairs {
		without += max(0, n-slotsIn(s.core.Widths.Slot))
	}
	e := s.engine().(*gpuEngine)
	table, err := allocate(s.core.Device, to, 1, true)
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	if _, err := hide(s.core.Device, table.units, 0); err != nil {
		s.t.Fatalf("%v", err)
	}
	from := s.gen()
	n, err := e.Move(context.Background(), table, func(stream *device.Stream, p core.Parts, lost device.Ptr) error {
		return device.Launch(stream, e.kernel.rehash, tiles(s.core.Device, from.buckets), gpu.Block,
			&rehashParams{from: refOf(p), to: refOf(table), lost: lost})
	})
	if n != without || err != nil {
		s.t.Fatalf("moved to %d buckets and no units, %d pairs have no room, want %d: %v", buckets, n, without, err)
	}
	s.content()
}

// TestRehashWithoutRoom checks that a rehash to a pool that is too small is an error and keeps all
// pairs.
func TestRehashWithoutRoom(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, arch := range []int{80, 90} {
		dev, err := sim.Open(&sim.Options{Arch: arch})
		if err != nil {
			t.Fatal(err)
		}
		s := newSubject[uint64, uint64](t, dev, pairs8, false, 1000, alloc.BlockUnits, true)
		keys, vals := counted(0, 7*alloc.BlockUnits+100)
		s.change(weft.OpPut, nil, keys, vals)
		if err := s.engine().rehash(t.Context(), 1, 0); !errors.Is(err, weft.ErrFull) || s.engine().geometry().buckets != 1000 {
			t.Errorf("rehash to one chain: %v", err)
		}
		s.content()
		s.close()
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
}
