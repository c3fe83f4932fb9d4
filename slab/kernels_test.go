package slab

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
)

// beside is an engine of kernels beside a model of it. Threads have no order,
// so it gets batches whose outcome does not depend on one, but where the engine
// promises that of the batch.
type beside[K, V uint32 | uint64] struct {
	*subject[K, V]
	stream *device.Stream
	rng    *rand.Rand
}

// kernelsBesideModel does everything that an engine can do with tables of a
// few buckets, in host memory and on the device, with columns left out, without
// room, and compares all that comes of it with a model.
func kernelsBesideModel[K, V uint32 | uint64](t testing.TB, dev device.Device, w batch.Widths, multi, unordered bool) {
	stream, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	// Two memory blocks, in one super block or in two.
	light := !multi && !unordered
	s := &beside[K, V]{newSubject[K, V](t, dev, w, multi, 3, 2*alloc.BlockUnits, light), stream, rand.New(rand.NewPCG(1, 2))}
	defer s.close()
	s.opts.Unordered = unordered
	const plenty, few = alloc.BlockUnits, 3
	for round := range 2 {
		s.uniform(weft.OpPut, 40, plenty)
		s.uniform(weft.OpPutNew, 140, plenty)
		s.mixedOps(60, plenty)
		s.uniform(weft.OpDelete, 60, plenty)
		s.uniform(weft.OpPut, 300, few)
		s.flush()
		s.uniform(weft.OpDelete, 100, few)
		s.uniform(weft.OpPutNew, 270, few)
		s.mixedOps(200, few)
		s.countLost(2)
		s.rehash([]uint32{150, 1}[round], 2*alloc.BlockUnits)
		for range 3 {
			s.overlap(60)
		}
		s.crowd(380)
		s.collectOn(50)
		s.pages()
		s.shortExport()
		s.uniform(weft.OpDeleteAll, 150, plenty)
		s.flush()
		s.rehash(3, 2*alloc.BlockUnits)
	}
	// A flush that gives slabs back, also those of 30 slots.
	s.uniform(weft.OpPutNew, 250, plenty)
	s.uniform(weft.OpDelete, 200, plenty)
	s.flush()
	err = s.engine.clear(context.Background())
	if now, e := s.engine.counts(context.Background()); now.used != 0 || errors.Join(err, e) != nil {
		t.Fatalf("clear leaves %d slots: %v, %v", now.used, err, e)
	}
	clear(s.model)
	s.uniform(weft.OpPut, 40, plenty)
}

// draw makes up operations: some on keys that look like marks, and where the
// batch's order decides, some on one key.
func (s *beside[K, V]) draw(n int, different bool) (keys []K, vals []V) {
	for _, i := range s.rng.Perm(n) {
		if !different {
			i = s.rng.IntN(n)
		}
		keys, vals = append(keys, K(i-4)), append(vals, V(s.rng.Uint64()))
	}
	return keys, vals
}

// uniform runs a batch of one kind while the pool has no more than so many
// free units. Maps have no DeleteAll, sets no Put.
func (s *beside[K, V]) uniform(kind weft.OpKind, n, free int) {
	s.t.Helper()
	switch {
	case s.widths.Val == 0 && kind == weft.OpPut:
		kind = weft.OpPutNew
	case !s.multi && kind == weft.OpDeleteAll:
		kind = weft.OpDelete
	}
	f := s.flagsFor(kind)
	keys, vals := s.draw(n, f&batch.Order == 0)
	s.run(&batch.Batch{Kind: kind, Flags: f}, nil, keys, vals, free)
}

// mixedOps runs a batch of all kinds, each key in one operation. Sets have none.
func (s *beside[K, V]) mixedOps(n, free int) {
	s.t.Helper()
	if s.widths.Val == 0 {
		return
	}
	keys, vals := s.draw(n, true)
	s.run(&batch.Batch{Flags: s.mixed()}, s.kinds(n), keys, vals, free)
}

func (s *beside[K, V]) kinds(n int) []weft.OpKind {
	kinds, most := make([]weft.OpKind, n), 4
	if s.multi {
		most = 5
	}
	for i := range kinds {
		kinds[i] = weft.OpKind(s.rng.IntN(most))
	}
	return kinds
}

// overlap runs lookups on another stream beside a change, of which they may see
// some; that they see it as accesses of threads that nothing orders may is the
// simulator's to find out.
func (s *beside[K, V]) overlap(n int) {
	s.t.Helper()
	keys, vals := s.draw(n, true)
	b := &batch.Batch{N: n, Kind: weft.OpPutNew, Flags: s.mixed(), Keys: batch.Host(keys), Vals: s.vals(vals)}
	const most = 40 // values of a key
	look := &batch.Batch{N: n, Flags: s.mixed(), Keys: batch.Host(keys), OK: batch.Host(make([]bool, n)), Vals: s.vals(make([]V, most*n))}
	kinds, starts := slices.Repeat([]weft.OpKind{weft.OpPutNew}, n), make([]uint64, n+1)
	for i := range starts {
		starts[i] = uint64(most * i)
	}
	e := s.engine.(*gpuEngine)
	other, err := s.dev.NewStream()
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	lookups := []func() error{func() error { return e.getOn(other, look) }}
	if s.widths.Val > 0 {
		kinds = s.kinds(n)
		b.Kinds = batch.Host(kinds)
		look.Counts, look.Out = batch.Host(make([]uint32, n)), batch.Host(starts)
		lookups = append(lookups,
			func() error { return e.tallyOn(other, look, look.Counts) },
			func() error { return e.launchCollect(other, n, look.Keys.Ptr, look.Out.Ptr, look.Vals.Ptr, most*n) })
	}
	s.rng.Shuffle(len(lookups), func(i, j int) { lookups[i], lookups[j] = lookups[j], lookups[i] })
	s.onDevice(look, func() error {
		if err := s.stream.Sync(context.Background()); err != nil {
			return err
		}
		s.onDevice(b, func() error {
			_, err := e.changeOn(s.stream, b, false)
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
	s.look(keys)
}

// run runs a batch on the engine and on the model and compares the outcome.
func (s *beside[K, V]) run(b *batch.Batch, kinds []weft.OpKind, keys []K, vals []V, free int) {
	s.t.Helper()
	out, ok, removed := make([]V, len(keys)), make([]bool, len(keys)), make([]uint32, len(keys))
	if s.rng.IntN(4) == 0 || b.Kind == weft.OpPut {
		ok = nil
	}
	if !s.multi || s.rng.IntN(4) == 0 {
		removed = nil
	}
	b.N, b.Keys, b.Kinds, b.OK, b.Counts = len(keys), batch.Host(keys), batch.Host(kinds), batch.Host(ok), batch.Host(removed)
	b.Vals = s.vals(vals)
	if kinds != nil {
		b.Out = s.vals(out)
	}
	failed, lost := s.execute(b, free)
	now := s.numbers(keys)
	full := 0
	for i, k := range keys {
		kind := b.Kind
		if kinds != nil {
			kind = kinds[i]
		}
		before := len(s.model[k])
		adds := kind == weft.OpPut && s.multi || (kind == weft.OpPut || kind == weft.OpPutNew) && before == 0
		if adds && now[i] == before {
			full++
			if _, listed := slices.BinarySearch(failed, uint32(i)); failed != nil && !listed || ok != nil && ok[i] {
				s.t.Fatalf("operation %d of %d, %v of key %#x, found no room: listed is %v", i, b.N, kind, k, listed)
			}
			continue
		}
		wantOut, wantOK, wantRemoved := s.apply(kind, k, vals[i])
		if ok != nil && ok[i] != wantOK || kinds != nil && s.widths.Val > 0 && out[i] != wantOut || removed != nil && kind == weft.OpDeleteAll && removed[i] != wantRemoved {
			s.t.Fatalf("operation %d of %d, %v of key %#x: %#x %v, removed %v; want %#x %v, %d", i, b.N, kind, k, out[i], ok, removed, wantOut, wantOK, wantRemoved)
		}
	}
	// Of duplicates, one may have found the unit that another had not.
	if lost < full || lost > full && b.Flags&batch.Order == 0 || lost > 0 && free >= alloc.BlockUnits {
		s.t.Fatalf("%d operations are said to have found no room, of %d", lost, full)
	}
	some, _ := s.draw(150, true)
	s.look(some)
}

// execute runs a batch from host memory, or from the device, where the engine
// may wait for what comes of it. lost operations are said to have found no
// room; failed is the list of them, if there is one.
func (s *beside[K, V]) execute(b *batch.Batch, free int) (failed []uint32, lost int) {
	s.t.Helper()
	show, err := hide(s.dev, s.engine.pool(), free)
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	switch s.rng.IntN(3) {
	case 0:
		var done int
		if done, failed, err = s.engine.change(context.Background(), b); done != b.N {
			s.t.Fatalf("change: %d of %d operations: %v", done, b.N, err)
		}
		failed, lost = append([]uint32{}, failed...), len(failed)
	case 1:
		s.onDevice(b, func() error {
			failed, err = s.engine.changeOn(s.stream, b, true)
			return err
		}, &b.OK, &b.Out, &b.Counts)
		slices.Sort(failed)
		failed, lost = append([]uint32{}, failed...), len(failed)
	case 2:
		s.onDevice(b, func() error {
			_, err := s.engine.changeOn(s.stream, b, false)
			return err
		}, &b.OK, &b.Out, &b.Counts)
		lost, err = s.engine.lost(context.Background())
	}
	if err := errors.Join(err, show()); err != nil {
		s.t.Fatalf("%v", err)
	}
	return failed, lost
}

// onDevice has a batch lie on the device, and brings columns of it back.
func (s *beside[K, V]) onDevice(b *batch.Batch, do func() error, back ...*batch.Column) {
	s.t.Helper()
	var err error
	var used []device.Buffer
	for _, c := range []*batch.Column{&b.Keys, &b.Kinds, &b.Vals, &b.Out, &b.OK, &b.Counts} {
		if c.Host != nil {
			buf, e := s.dev.Alloc(len(c.Host))
			err = errors.Join(err, e, s.stream.CopyIn(buf.Ptr, c.Host))
			c.Ptr = buf.Ptr
			used = append(used, buf)
		}
	}
	if err == nil {
		err = do()
	}
	for _, c := range back {
		if c.Host != nil {
			err = errors.Join(err, s.stream.CopyOut(context.Background(), c.Host, c.Ptr))
		}
	}
	err = errors.Join(err, s.stream.Sync(context.Background()))
	for _, buf := range used {
		err = errors.Join(err, s.dev.Free(buf))
	}
	if err != nil {
		s.t.Fatalf("%v", err)
	}
}

// numbers is how many values each key has; a set's keys have one.
func (s *beside[K, V]) numbers(keys []K) []int {
	s.t.Helper()
	found, counts, n := make([]bool, len(keys)), make([]uint32, len(keys)), make([]int, len(keys))
	b := &batch.Batch{N: len(keys), Flags: s.mixed(), Keys: batch.Host(keys), OK: batch.Host(found)}
	if s.widths.Val == 0 {
		s.onDevice(b, func() error { return s.engine.getOn(s.stream, b) }, &b.OK)
	} else {
		b.OK, b.Counts = batch.Column{}, batch.Host(counts)
		s.onDevice(b, func() error { return s.engine.tallyOn(s.stream, b, b.Counts) }, &b.Counts)
	}
	for i := range n {
		if n[i] = int(counts[i]); found[i] {
			n[i] = 1
		}
	}
	return n
}

// collectOn lists the values of some keys on the device, where there are fewer
// rows than values, and as many.
func (s *beside[K, V]) collectOn(n int) {
	s.t.Helper()
	if s.widths.Val == 0 {
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
		// Behind the offsets lies what nobody may write, as behind the values.
		out, at := slices.Repeat([]V{7}, len(want)+40), slices.Repeat([]uint64{7}, n+9)
		b := &batch.Batch{N: n, Flags: s.mixed(), Keys: batch.Host(keys), Vals: batch.Host(out), Counts: batch.Host(make([]uint32, n)), Out: batch.Host(at)}
		s.onDevice(b, func() error { return s.engine.collectOn(s.stream, b, b.Counts, b.Out, rows) }, &b.Vals, &b.Out)
		if !slices.Equal(at[:n+1], offsets) || slices.Max(at[n+1:]) != 7 {
			s.t.Fatalf("offsets %d, want %d", at, offsets)
		}
		if !slices.Equal(out[:rows], want[:rows]) || slices.Max(out[rows:]) != 7 || slices.Min(out[rows:]) != 7 {
			s.t.Fatalf("%d rows are %#x, want %#x", rows, out, want)
		}
	}
}

// pages compares what export says, some buckets at a time.
func (s *beside[K, V]) pages() {
	s.t.Helper()
	g := s.engine.hold()
	defer s.engine.release(g)
	left := 0
	for _, vals := range s.model {
		left += len(vals)
	}
	some := max(2, g.buckets/3)
	for lo := uint32(0); lo <= g.buckets; lo += some {
		keys, vals := make([]K, 2000), make([]V, 2000)
		n, err := s.engine.export(context.Background(), g, lo, min(lo+some, g.buckets+1), device.Bytes(keys), s.vals(vals).Host)
		if err != nil || n > len(keys) {
			s.t.Fatalf("export from bucket %d on: %d pairs, %v", lo, n, err)
		}
		for i, k := range keys[:n] {
			if s.widths.Val > 0 && !slices.Contains(s.model[k], vals[i]) || len(s.model[k]) == 0 {
				s.t.Fatalf("buckets from %d on have %#x for key %#x, want %#x", lo, vals[i], k, s.model[k])
			}
		}
		left -= n
	}
	if left != 0 {
		s.t.Fatalf("export has %d pairs too few", left)
	}
}

// shortExport has more pairs than rows: they are counted, and nothing is written
// behind the rows.
func (s *beside[K, V]) shortExport() {
	s.t.Helper()
	now, err := s.engine.counts(context.Background())
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	e, count := s.engine.(*gpuEngine), make([]uint64, 1)
	keys, vals := slices.Repeat([]K{9999}, int(now.live)), slices.Repeat([]V{9999}, int(now.live))
	rows := len(keys) / 2
	b := &batch.Batch{Keys: batch.Host(keys), Vals: s.vals(vals), Out: batch.Host(count)}
	s.onDevice(b, func() error {
		return device.Launch(s.stream, e.kernel.export, e.tiles(e.gen.buckets), gpubatch.Block, &exportParams{
			table: refOf(e.gen), keys: b.Keys.Ptr, vals: b.Vals.Ptr, count: b.Out.Ptr, rows: uint64(rows), hi: e.gen.buckets + 1, step: e.gen.order.Step(),
		})
	}, &b.Keys, &b.Vals, &b.Out)
	written := func(k K) bool { return k != 9999 }
	if count[0] != now.live || slices.ContainsFunc(keys[rows:], written) || !slices.ContainsFunc(keys[:rows], written) ||
		s.widths.Val > 0 && (slices.Max(vals[rows:]) != 9999 || slices.Min(vals[rows:]) != 9999) {
		s.t.Fatalf("export of %d pairs to %d rows: %d; %d, %#x", now.live, rows, count, keys, vals)
	}
}

// crowd has more than a block of threads do something to few keys: in a map or
// a set to duplicates, of which one counts, in a multimap to keys that get many
// values, in any order.
func (s *beside[K, V]) crowd(n int) {
	s.t.Helper()
	keys, vals := s.draw(n, false)
	if !s.multi {
		for i := range keys {
			keys[i] %= 60
		}
		for _, kind := range []weft.OpKind{weft.OpPut, weft.OpDelete, weft.OpPutNew} {
			if f := s.flagsFor(kind); f&batch.Order != 0 && (kind != weft.OpPut || s.widths.Val > 0) {
				s.run(&batch.Batch{Kind: kind, Flags: f}, nil, keys, vals, alloc.BlockUnits)
			}
		}
		return
	}
	for i := range keys {
		keys[i] = K(i%2) + 1000
	}
	b := &batch.Batch{N: n, Kind: weft.OpPut, Flags: s.flagsFor(weft.OpPut), Keys: batch.Host(keys), Vals: batch.Host(vals)}
	if _, lost := s.execute(b, alloc.BlockUnits); lost != 0 {
		s.t.Fatalf("%d of %d pairs have no room", lost, n)
	}
	for i, many := range s.numbers(keys[:2]) {
		want, got := s.model[keys[i]], make([]V, many)
		for j := i; j < n; j += 2 {
			want = append(slices.Clip(want), vals[j])
		}
		one := &batch.Batch{N: 1, Flags: s.mixed(), Keys: batch.Host(keys[i : i+1])}
		if err := s.engine.collect(context.Background(), one, []uint64{0, uint64(many)}, device.Bytes(got)); err != nil {
			s.t.Fatalf("collect: %v", err)
		}
		if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			s.t.Fatalf("key %d has values %#x, want %#x in any order", keys[i], got, want)
		}
		s.model[keys[i]] = got
	}
	s.hints()
	s.look(keys[:2])
}

// hints makes sure that each chain of more than a slab has a hint to its end.
func (s *beside[K, V]) hints() {
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

// countLost moves all pairs to a table without units, and has those counted
// that find no room there.
func (s *beside[K, V]) countLost(buckets uint32) {
	s.t.Helper()
	g := s.engine.geometry()
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
		without += max(0, n-slotsIn(s.widths.Slot))
	}
	e := s.engine.(*gpuEngine)
	table, err := e.allocate(to, 1, true)
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	show, err := hide(s.dev, table.units, 0)
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	n, err := e.move(e.gen, table)
	if err := errors.Join(err, show(), table.free(s.dev)); n != without || err != nil {
		s.t.Fatalf("moved to %d buckets and no units, %d pairs have no room, want %d: %v", buckets, n, without, err)
	}
	s.content()
}

// A rehash to a pool that is too small is an error, after which all pairs are
// where they were.
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
		if err := s.engine.rehash(t.Context(), 1, 0); !errors.Is(err, weft.ErrFull) || s.engine.geometry().buckets != 1000 {
			t.Errorf("rehash to one chain: %v", err)
		}
		s.content()
		s.close()
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
}
