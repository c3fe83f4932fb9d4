package core_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"testing"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// ---- the structure --------------------------------------------------------------

// An ordered list is a directory of leaves with pairs in key order. A version is a copy of the
// directory. A change copies the leaves that belong to a version before it modifies them.

type pair = cpu.Slot[uint64, uint64]

const leafPairs = 8

type leaf struct {
	mem     device.Slice[uint64]
	n, refs int
}

func (l *leaf) pairs() []pair {
	return unsafe.Slice((*pair)(unsafe.Pointer(&l.mem.Host()[0])), leafPairs)[:l.n]
}

type directory []*leaf

// find returns the leaf of a key and the index in the leaf.
func (d directory) find(key uint64) (at, j int, found bool) {
	at = max(0, sort.Search(len(d), func(i int) bool { return d[i].pairs()[0].Key > key })-1)
	if len(d) == 0 {
		return 0, 0, false
	}
	pairs := d[at].pairs()
	j = sort.Search(len(pairs), func(i int) bool { return pairs[i].Key >= key })
	return at, j, j < len(pairs) && pairs[j].Key == key
}

func (d directory) between(lo, hi uint64, yield func(n uint32, p *pair)) (n uint32) {
	at, j, _ := d.find(lo)
	for ; at < len(d); at, j = at+1, 0 {
		for pairs := d[at].pairs(); j < len(pairs); j++ {
			if pairs[j].Key > hi {
				return n
			}
			if yield != nil {
				yield(n, &pairs[j])
			}
			n++
		}
	}
	return n
}

func (d directory) free() (err error) {
	for _, l := range d {
		if l.refs--; l.refs == 0 {
			err = errors.Join(err, l.mem.Free())
		}
	}
	return err
}

// forest is one generation: the current directory, and the directories of versions by number.
type forest struct {
	dev      device.Device
	counters core.Tally

	mu    sync.Mutex // guards trees against concurrent readers
	trees map[uint64]directory
	clock uint64
}

func (f *forest) Tally() *core.Tally { return &f.counters }

func (f *forest) Free() (err error) {
	for _, d := range f.trees {
		err = errors.Join(err, d.free())
	}
	return err
}

func (f *forest) at(version uint64) directory {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.trees[version]
}

func (f *forest) set(version uint64, d directory) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.trees[version] = d; d == nil {
		delete(f.trees, version)
	}
}

type ordered struct{ cpu.Engine }

func newOrdered(dev device.Host) *core.Table {
	e := &ordered{cpu.Engine{Device: dev}}
	e.Leases = core.NewLeases(&forest{dev: dev, trees: map[uint64]directory{}})
	c := config("ordered", dev, easy{}, e, e.Leases)
	c.NewLike = func(dev device.Device) (*core.Table, error) { return newOrdered(dev.(device.Host)), nil }
	return core.New(c)
}

func (e *ordered) forest() *forest { return e.Parts().(*forest) }

func (e *ordered) Caps() core.Caps { return core.Caps{DeletesMayOverflow: true} }

func (e *ordered) Pin(context.Context) (uint64, error) {
	f := e.forest()
	f.clock++
	now := slices.Clone(f.at(0))
	for _, l := range now {
		l.refs++
	}
	f.set(f.clock, now)
	return f.clock, nil
}

func (e *ordered) Unpin(_ context.Context, version uint64) error {
	f := e.forest()
	d := f.at(version)
	f.set(version, nil)
	return d.free()
}

// Lookup counts the pairs inside ranges if second keys are given. Otherwise it looks keys up.
func (e *ordered) Lookup(_ context.Context, _ *device.Stream, l *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	d := l.Parts.(*forest).at(b.Version)
	keys, ends := batch.View[uint64](b.Columns[batch.Keys].Host), batch.View[uint64](b.Columns[batch.Keys2].Host)
	counts, to := batch.View[uint32](b.Columns[batch.Counts].Host), cpu.AnswersOf[uint64](b)
	for i, k := range keys {
		if ends != nil {
			counts[i] = d.between(k, ends[i], nil)
			continue
		}
		var p *pair
		if at, j, found := d.find(k); found {
			p = &d[at].pairs()[j]
		}
		hits += cpu.WriteAnswer(&to, i, p)
	}
	return b.N, hits, nil
}

func (e *ordered) Expand(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch) error {
	c := &b.Columns
	offsets := c[batch.Vals].Offsets
	if s != nil {
		if _, _, err := e.Lookup(ctx, s, l, b, 0); err != nil {
			return err
		}
		offsets = batch.View[uint64](c[batch.Offsets].Host)
		offsets[0] = 0
		for i, n := range batch.View[uint32](c[batch.Counts].Host) {
			offsets[i+1] = offsets[i] + uint64(n)
		}
	}
	d := l.Parts.(*forest).at(b.Version)
	keys, vals := batch.View[uint64](c[batch.OutKeys].Host), batch.View[uint64](c[batch.Vals].Host)
	for i, lo := range batch.View[uint64](c[batch.Keys].Host) {
		rows := offsets[i] - offsets[0]
		d.between(lo, batch.View[uint64](c[batch.Keys2].Host)[i], func(n uint32, p *pair) {
			if at := rows + uint64(n); at < uint64(len(vals)) {
				keys[at], vals[at] = p.Key, p.Val
			}
		})
	}
	return nil
}

func (e *ordered) Change(_ context.Context, _ *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	f, c := e.forest(), cpu.ChangesOf[uint64, uint64](b)
	for i := range c.Keys {
		c.WriteOutcome(uint32(i), f.run(&c, uint32(i)))
	}
	f.counters.Live += uint64(c.Live)
	f.counters.Used = f.counters.Live
	return b.N, c.Failed, nil
}

func (f *forest) run(c *cpu.Changes[uint64, uint64], i uint32) cpu.Outcome {
	d, key, kind := f.at(0), c.Keys[i], c.Kind(i)
	at, j, found := d.find(key)
	writes := !found && kind.Inserts() || found && (kind == op.Put || kind == op.Delete)
	if !writes && !found {
		return cpu.Outcome{}
	}
	if writes && len(d) > 0 {
		l, err := f.own(d[at])
		if err != nil {
			return cpu.Outcome{Overflowed: true}
		}
		d[at] = l
	}
	switch {
	case !found:
		d, p, err := f.insert(d, at, j)
		f.set(0, d)
		if err != nil {
			return cpu.Outcome{Overflowed: true}
		}
		p.Key = cpu.Sentinel[uint64](cpu.Empty)
		return cpu.Insert(c, i, key, p)
	case kind == op.Delete:
		o := cpu.ApplyPresent(c, i, kind, &d[at].pairs()[j])
		copy(d[at].pairs()[j:], d[at].pairs()[j+1:])
		if d[at].n--; d[at].n == 0 {
			o.Overflowed = d[at:at+1].free() != nil
			f.set(0, slices.Delete(d, at, at+1))
		}
		return o
	}
	return cpu.ApplyPresent(c, i, kind, &d[at].pairs()[j])
}

// own returns a leaf that belongs to no version. It copies the leaf if necessary.
func (f *forest) own(l *leaf) (*leaf, error) {
	if l.refs == 1 {
		return l, nil
	}
	mine, err := f.grow(l.pairs())
	if err == nil {
		l.refs--
	}
	return mine, err
}

func (f *forest) grow(pairs []pair) (*leaf, error) {
	mem, err := device.Make[uint64](f.dev, 2*leafPairs)
	if err != nil {
		return nil, err
	}
	l := &leaf{mem, len(pairs), 1}
	copy(l.pairs(), pairs)
	return l, nil
}

// insert makes room for a pair at index j of leaf at, and splits a full leaf.
func (f *forest) insert(d directory, at, j int) (directory, *pair, error) {
	const half = leafPairs / 2
	if len(d) == 0 || d[at].n == leafPairs {
		var upper []pair
		if len(d) > 0 {
			upper = d[at].pairs()[half:]
		}
		l, err := f.grow(upper)
		if err != nil {
			return d, nil, err
		}
		if len(d) == 0 {
			d = directory{l}
		} else {
			d[at].n = half
			if d = slices.Insert(d, at+1, l); j > half {
				at, j = at+1, j-half
			}
		}
	}
	l := d[at]
	l.n++
	copy(l.pairs()[j+1:], l.pairs()[j:])
	return d, &l.pairs()[j], nil
}

func (e *ordered) Extent(l *core.Lease) (units uint32, rows int) {
	return uint32(len(l.Parts.(*forest).at(l.Version))), leafPairs
}

func (e *ordered) Export(_ context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (n int, err error) {
	keys, vals := batch.View[uint64](out.Columns[batch.Keys].Host), batch.View[uint64](out.Columns[batch.Vals].Host)
	for _, leaf := range l.Parts.(*forest).at(l.Version)[lo:hi] {
		for _, p := range leaf.pairs() {
			keys[n], vals[n] = p.Key, p.Val
			n++
		}
	}
	return n, nil
}

func (e *ordered) Clear(context.Context) error {
	f := e.forest()
	d := f.at(0)
	f.set(0, nil)
	f.counters = core.Tally{}
	return d.free()
}

// ---- the tests --------------------------------------------------------------------

// rangesOf returns the pairs inside ranges of a table, or of a snapshot of it, range by range, in
// host memory.
func rangesOf(table *core.Table, at *core.Snapshot, lo, hi []uint64) (offsets, keys, vals []uint64, err error) {
	offsets = make([]uint64, len(lo)+1)
	b := &batch.Batch{N: len(lo), Columns: batch.Columns{batch.Keys: batch.Input(lo), batch.Keys2: batch.Input(hi)}}
	err = table.Expand(ctx, "Range", at, b, offsets, func(rows int) batch.Columns {
		keys, vals = make([]uint64, rows), make([]uint64, rows)
		return batch.Columns{batch.OutKeys: batch.Output(keys), batch.Vals: batch.Output(vals)}
	})
	return offsets, keys, vals, err
}

// rangesOnOf looks up the same pairs as rangesOf on the device, with memory for the given number of
// rows.
func rangesOnOf(t *testing.T, table *core.Table, at *core.Snapshot, lo, hi []uint64, rows int) (offsets, keys, vals []uint64) {
	dev := table.Device
	s, err := dev.NewStream()
	must(t, err)
	defer s.Close()
	n := len(lo)
	mem, err := device.Make[uint64](dev, 3*n+1+2*rows)
	must(t, err)
	defer mem.Free()
	counts, err := device.Make[uint32](dev, n)
	must(t, err)
	defer counts.Free()
	must(t, mem.CopyFrom(s, slices.Concat(lo, hi)))
	starts := mem.Sub(2*n, 3*n+1)
	ks, vs := mem.Sub(3*n+1, 3*n+1+rows), mem.Sub(3*n+1+rows, mem.Len())
	must(t, table.ExpandOn(s, "RangeOn", at, &batch.Batch{N: n, Columns: batch.Columns{
		batch.Keys: batch.InputOn(mem.Sub(0, n)), batch.Keys2: batch.InputOn(mem.Sub(n, 2*n)),
		batch.Counts: batch.OutputOn(counts), batch.Offsets: batch.OffsetsOn(starts),
		batch.OutKeys: batch.RowsOn(ks), batch.Vals: batch.RowsOn(vs),
	}}))
	must(t, s.Sync(ctx))
	return slices.Clone(starts.Host()), slices.Clone(ks.Host()), slices.Clone(vs.Host())
}

// ranges requires ranges of a table or a snapshot to match the model.
func (m model) ranges(t *testing.T, table *core.Table, at *core.Snapshot, lo, hi []uint64) {
	t.Helper()
	var offsets, keys, vals []uint64
	sorted := slices.Sorted(maps.Keys(m))
	for i := range lo {
		offsets = append(offsets, uint64(len(keys)))
		for _, k := range sorted {
			if lo[i] <= k && k <= hi[i] {
				keys, vals = append(keys, k), append(vals, m[k])
			}
		}
	}
	offsets = append(offsets, uint64(len(keys)))
	o, k, v, err := rangesOf(table, at, lo, hi)
	must(t, err)
	if !slices.Equal(o, offsets) || !slices.Equal(k, keys) || !slices.Equal(v, vals) {
		t.Fatalf("ranges %v to %v: %v %v %v, want %v %v %v", lo, hi, o, k, v, offsets, keys, vals)
	}
	rows := max(1, len(keys)-2) // rows that exceed the memory are not written
	o, k, v = rangesOnOf(t, table, at, lo, hi, rows)
	have := min(rows, len(keys))
	if !slices.Equal(o, offsets) || !slices.Equal(k[:have], keys[:have]) || !slices.Equal(v[:have], vals[:have]) {
		t.Fatalf("ranges %v to %v on a stream: %v %v %v, want %v %v %v", lo, hi, o, k, v, offsets, keys, vals)
	}
}

// Lookups of ranges must read their version despite later changes, in host memory and on the
// device. Memory of a version without users must be reused while the table is open.
func TestFitRangesAtAVersion(t *testing.T) {
	dev := openHost(t)
	table := newOrdered(dev)
	defer table.Close()
	list, rng := weft.NewMap[uint64, uint64](table), rand.New(rand.NewPCG(1, 2))
	m := model{}
	type held struct {
		*core.Snapshot
		model
	}
	var snapshots []held
	random := func(n int) (s []uint64) {
		for range n {
			s = append(s, rng.Uint64N(500))
		}
		return s
	}
	for round := range 40 {
		keys, vals, dead := random(30), random(30), random(25)
		_, err := list.Put(ctx, keys, vals)
		must(t, err)
		_, err = list.Delete(ctx, dead, nil)
		must(t, err)
		m.putPairs(keys, vals)
		m.remove(dead)
		lo, hi := random(5), random(5)
		m.ranges(t, table, nil, lo, hi)
		for _, s := range snapshots {
			s.ranges(t, table, s.Snapshot, lo, hi)
		}
		if s, err := table.Snapshot(ctx, "Snapshot"); round%3 == 0 {
			must(t, err)
			snapshots = append(snapshots, held{s, maps.Clone(m)})
		} else {
			must(t, errors.Join(err, s.Close()))
		}
		if len(snapshots) > 4 {
			must(t, snapshots[2].Close())
			snapshots = slices.Delete(snapshots, 2, 3)
		}
	}
	if round := rng.IntN(len(snapshots)); snapshots[round].Len() != len(snapshots[round].model) {
		t.Errorf("a snapshot has %d pairs, want %d", snapshots[round].Len(), len(snapshots[round].model))
	}
	for _, s := range snapshots {
		must(t, errors.Join(s.Close(), s.Close()))
		if _, _, _, err := rangesOf(table, s.Snapshot, []uint64{1}, []uint64{2}); !errors.Is(err, op.ErrClosed) {
			t.Errorf("a closed snapshot answers %v", err)
		}
	}
	m.equals(t, "at the end", table)
	if now := table.Leases.Current().Parts.(*forest).at(0); devicetest.Live(dev).Buffers != len(now) {
		t.Errorf("%d leaves are left of %d", devicetest.Live(dev).Buffers, len(now))
	}
}

// An iteration must read the table as it was at the beginning, even if the loop body moves all
// pairs to other leaves. The same holds for Save.
func TestFitIterationAtAVersion(t *testing.T) {
	dev := openHost(t)
	defer func(n int) { core.PageBytes = n }(core.PageBytes)
	core.PageBytes = 256
	table := newOrdered(dev)
	defer table.Close()
	list := weft.NewMap[uint64, uint64](table)
	var keys []uint64
	for i := range uint64(200) {
		keys = append(keys, 10*i)
	}
	_, err := list.Put(ctx, keys, keys)
	must(t, err)
	var seen []uint64
	for k, v := range list.All() {
		if seen = append(seen, k); k != v {
			t.Fatalf("key %d has value %d", k, v)
		}
		_, err := list.Put(ctx, []uint64{k + 1, 2000 - k, 5}, []uint64{0, 1, 2})
		must(t, err)
		_, err = list.Delete(ctx, []uint64{k + 10}, nil)
		must(t, err)
	}
	if !slices.Equal(seen, keys) {
		t.Errorf("the iteration saw %d of %d keys: %v", len(seen), len(keys), seen)
	}
	must(t, list.Clear(ctx))
	if n := devicetest.Live(dev).Buffers; n != 0 {
		t.Errorf("%d leaves are left", n)
	}
}

// The limit for results must include the keys of ranges. A delete that has no memory for its copy
// must fail and leave the pair.
func TestFitVersionsWithoutMemory(t *testing.T) {
	dev := openHost(t)
	table := newOrdered(dev)
	defer table.Close()
	list := weft.NewMap[uint64, uint64](table)
	_, err := list.Put(ctx, []uint64{1, 2, 3}, []uint64{4, 5, 6})
	must(t, err)
	table.ResultLimit = 3 * 8
	if _, _, _, err := rangesOf(table, nil, []uint64{1}, []uint64{3}); !errors.Is(err, device.ErrMemory) {
		t.Errorf("3 rows of 16 bytes within %d: %v", table.ResultLimit, err)
	}
	s, err := table.Snapshot(ctx, "Snapshot")
	must(t, err)
	devicetest.FailNext(dev, devicetest.OpAlloc)
	if n, err := list.Delete(ctx, []uint64{2}, nil); n != 0 || !errors.Is(err, weft.ErrFull) {
		t.Errorf("Delete without memory: %d, %v", n, err)
	}
	devicetest.ClearFailures(dev)
	model{1: 4, 2: 5, 3: 6}.equals(t, "after it", table)
	must(t, s.Close())
}

// Goroutines read and close snapshots while a writer continues.
func TestFitVersionsRace(t *testing.T) {
	dev := openHost(t)
	table := newOrdered(dev)
	list := weft.NewMap[uint64, uint64](table)
	keys := make([]uint64, 64)
	for i := range keys {
		keys[i] = uint64(i)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for round := range 50 {
				if _, err := list.Put(ctx, keys, slices.Repeat([]uint64{uint64(g*100 + round)}, len(keys))); err != nil {
					t.Error(err)
				}
				s, err := table.Snapshot(ctx, "Snapshot")
				if err != nil {
					t.Error(err)
					return
				}
				var readers sync.WaitGroup
				for range 2 {
					readers.Go(func() {
						_, k, v, err := rangesOf(table, s, []uint64{0}, []uint64{100})
						if errors.Is(err, op.ErrClosed) {
							return
						}
						if err != nil || len(k) != len(keys) || slices.Min(v) != slices.Max(v) {
							t.Error(fmt.Errorf("half a batch: %v %v, %w", k, v, err))
						}
					})
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				readers.Wait()
			}
		})
	}
	wg.Wait()
	must(t, table.Close())
}
